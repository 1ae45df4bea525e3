"""The inbox: it can be used by keyboard, and two users see the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
HOSTILE = "<img src=x onerror=alert(1)>\u202e\"'&amp;"
CHOSEN = "[role=option][aria-selected=true]"


@pytest.fixture(scope="module")
def alerting_tower(
    tower_of_the_module: Any, alerting: Callable[..., Any]
) -> Iterator[tuple[Any, dict[str, str]]]:
    """A server with three runs with a firing alert, and the ids of their alerts by run."""
    with ExitStack() as stack:
        names = {"r_a": "first", "r_b": HOSTILE, "r_c": "third"}
        alerts = {
            run: stack.enter_context(alerting(tower_of_the_module, run, name, "p" if run == "r_a" else "q"))
            for run, name in names.items()
        }
        yield tower_of_the_module, alerts


@pytest.fixture
def tab(alerting_tower: tuple[Any, dict[str, str]], visit: Callable[..., Any]) -> Any:
    """The inbox with its rows; nothing is acknowledged or silenced."""
    tower, alerts = alerting_tower
    opened = visit(tower)
    clear = """async (ids) => { for (const id of ids)
        await fetch(`/api/v1/alerts/${encodeURIComponent(id)}/ack`, { method: "DELETE" });
        const { items } = await (await fetch("/api/v1/silences")).json();
        for (const { id } of items) await fetch(`/api/v1/silences/${id}`, { method: "DELETE" }); }"""
    opened.page.evaluate(clear, list(alerts.values()))
    return inbox(opened, tower)


def inbox(tab: Any, tower: Any, view: str = "") -> Any:
    tab.page.goto(f"{tower.base}/alerts{view}")
    tab.page.locator(CHOSEN).wait_for()
    return tab


def row(tab: Any, alert: str) -> Any:
    return tab.page.locator(f'[role=option][data-alert="{alert}"]')


def chosen(tab: Any) -> str:
    return str(tab.page.locator(CHOSEN).get_attribute("data-alert"))


@LONG
def test_the_whole_inbox_by_keyboard(tab: Any, alerting_tower: tuple[Any, dict[str, str]]) -> None:
    """Open the inbox, move down, acknowledge with a note, silence, and open the charts, by keyboard
    only."""
    page = tab.page
    page.goto(alerting_tower[0].base)
    page.locator("[data-run]").first.wait_for()
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.locator(CHOSEN).wait_for()
    first = chosen(tab)
    page.keyboard.press("j")
    second = chosen(tab)
    assert second != first
    page.keyboard.press("a")
    page.get_by_role("dialog").get_by_label("Note").wait_for()
    page.keyboard.type("looking at it")
    page.keyboard.press("Enter")
    row(tab, second).get_by_text("Acknowledged by").wait_for()
    assert (
        page.locator('[role=group][aria-label="Acknowledged"] [role=option]').get_attribute("data-alert")
        == second
    )
    third = chosen(tab)
    assert third != second
    page.keyboard.press("s")
    page.get_by_role("dialog").get_by_text("Matches 1 open alert of").wait_for()
    page.keyboard.type("known fault")
    page.keyboard.press("Enter")
    row(tab, third).get_by_text("silenced until").wait_for()
    page.keyboard.press("Enter")
    page.locator("#pane:focus").wait_for()
    page.keyboard.press("Escape")
    page.locator("[role=listbox]:focus").wait_for()
    page.keyboard.press("o")
    page.wait_for_url("**/incidents/**")


def test_two_browsers_see_an_acknowledgement(
    tab: Any, alerting_tower: tuple[Any, dict[str, str]], visit: Callable[..., Any]
) -> None:
    """The other page shows user, time and note automatically, and removes them when the acknowledgement is
    undone."""
    tower, alerts = alerting_tower
    other = inbox(visit(tower), tower, f"?alert={alerts['r_a']}")
    row(tab, alerts["r_a"]).click()
    tab.page.get_by_role("button", name="Acknowledge").first.click()
    tab.page.get_by_label("Note").fill("on my way <b>home</b>")
    tab.page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    row(other, alerts["r_a"]).get_by_text(re.compile("Acknowledged by .*login link")).wait_for()
    other.page.locator("#pane").get_by_text("on my way <b>home</b>").first.wait_for()
    other.page.locator(".life").get_by_text("acknowledged", exact=True).first.wait_for()
    other.page.get_by_role("button", name="Unacknowledge").click()
    row(tab, alerts["r_a"]).get_by_text("Acknowledged by").wait_for(state="detached")


def test_an_acknowledgement_is_undone(tab: Any, alerting_tower: tuple[Any, dict[str, str]]) -> None:
    """The card that follows has Undo."""
    alert = alerting_tower[1]["r_c"]
    row(tab, alert).click()
    tab.page.keyboard.press("a")
    tab.page.keyboard.press("Enter")
    tab.page.get_by_role("button", name="Undo").click()
    row(tab, alert).get_by_text("Acknowledged by").wait_for(state="detached")
    assert alerting_tower[0].get(f"/alerts/{alert}/history")["marks"]["ack"] is None


@LONG
def test_several_alerts_are_acknowledged_together(
    tab: Any, alerting_tower: tuple[Any, dict[str, str]]
) -> None:
    """X selects, A acknowledges all selected alerts with one note."""
    alerts = set(alerting_tower[1].values())
    tab.page.locator("[role=listbox]").focus()
    for _ in alerts:
        tab.page.keyboard.press("x")
        tab.page.keyboard.press("j")
    tab.page.keyboard.press("a")
    tab.page.get_by_role("heading", name="Acknowledge 3 incidents").wait_for()
    tab.page.keyboard.press("Enter")
    tab.page.locator('[role=group][aria-label="Acknowledged"] [role=option]').nth(2).wait_for()
    acknowledged = tab.page.locator('[role=group][aria-label="Acknowledged"] [role=option]').all()
    assert {each.get_attribute("data-alert") for each in acknowledged} == alerts


@LONG
def test_the_address_has_the_filter(tab: Any, alerting_tower: tuple[Any, dict[str, str]]) -> None:
    """Project, severity, search text and the selected alert are the same after a reload."""
    alert = alerting_tower[1]["r_a"]
    tab.page.get_by_label("Project", exact=True).select_option("p")
    tab.page.get_by_label("Severity", exact=True).select_option("critical")
    tab.page.get_by_label("Filter incidents").fill("rule:nonfinite")
    row(tab, alert).click()
    tab.page.reload()
    row(tab, alert).wait_for()
    tab.until(tab.page.locator("[role=option]").count, 1)
    assert (tab.page.get_by_label("Project", exact=True).input_value(), chosen(tab)) == ("p", alert)
    tab.page.get_by_label("Filter incidents").fill("nothing like it")
    tab.page.get_by_role("button", name="Pending").click()
    tab.page.get_by_role("button", name="Show all open incidents").click()
    tab.page.locator("[role=option]").nth(2).wait_for()


@LONG
def test_the_selection_stays_when_new_alerts_appear(
    tab: Any, alerting_tower: tuple[Any, dict[str, str]], alerting: Callable[..., Any]
) -> None:
    """A new alert appears in the list; the pane and the selected row are unchanged."""
    tower, alerts = alerting_tower
    row(tab, alerts["r_a"]).click()
    tab.page.mouse.move(2, 2)
    pane = tab.page.locator("#pane .likely-cause").inner_text()
    with alerting(tower, "r_new", "newcomer") as alert:
        row(tab, alert).wait_for()
        assert (chosen(tab), tab.page.locator("#pane .likely-cause").inner_text()) == (alerts["r_a"], pane)


def test_hostile_names_are_text(tab: Any, alerting_tower: tuple[Any, dict[str, str]]) -> None:
    """The row, the pane, the dialogs and the preview show the name literally."""
    row(tab, alerting_tower[1]["r_b"]).click()
    tab.page.locator("#pane").get_by_text(HOSTILE).first.wait_for()
    tab.page.keyboard.press("a")
    tab.page.get_by_role("dialog").get_by_text(HOSTILE).wait_for()
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("s")
    tab.page.get_by_role("dialog").locator(".matching").get_by_text(HOSTILE).wait_for()
    assert tab.page.locator("img").count() == 0


@LONG
def test_history_names_each_step(tab: Any, alerting_tower: tuple[Any, dict[str, str]]) -> None:
    """The history of the alert is below its diagnosis."""
    row(tab, alerting_tower[1]["r_a"]).click()
    tab.page.locator(".life").get_by_text("firing").first.wait_for()


def test_a_run_page_shows_the_onset_and_the_title_counts_firing_alerts(
    tab: Any, alerting_tower: tuple[Any, dict[str, str]]
) -> None:
    """The onset is the first NaN loss; the number before the title is that of the API."""
    tower, alerts = alerting_tower
    tab.open_run("r_a")
    alert = tab.page.locator(f'[data-alert="{alerts["r_a"]}"]').first
    onset = alert.locator("button", has_text="Onset").first.inner_text()
    assert re.sub(r"\D", "", onset) == "20"
    firing = len(tower.get("/alerts", state="firing")["items"])
    tab.page.wait_for_function("(start) => document.title.startsWith(start)", arg=f"({firing}) first")


def test_the_run_page_acknowledges_and_silences(tab: Any, alerting_tower: tuple[Any, dict[str, str]]) -> None:
    """Below the diagnosis: acknowledge with a note, undo, silence; the page says who did it."""
    page, tower = tab.page, alerting_tower[0]
    tab.open_run("r_a")
    page.locator('[data-act="ack"]').click()
    page.get_by_role("dialog").get_by_label("Note").fill("seen on the run's page")
    page.keyboard.press("Enter")
    page.locator(".diag .marklist").get_by_text("Acknowledged by").wait_for()
    page.locator(".diag .marklist").get_by_text("seen on the run's page").wait_for()
    page.locator(".diag").get_by_role("button", name="Unacknowledge").click()
    page.locator(".diag").get_by_role("button", name="Acknowledge", exact=True).wait_for()
    page.locator('[data-act="silence"]').click()
    page.get_by_role("dialog").get_by_label("Reason").fill("known")
    page.get_by_role("dialog").get_by_role("button", name="Silence", exact=True).click()
    page.locator(".diag .marklist").get_by_text("silenced until").wait_for()
    assert [each["reason"] for each in tower.get("/silences")["items"] if each["state"] == "active"] == [
        "known"
    ]


@LONG
def test_the_first_action_precedes_the_details(tab: Any, alerting_tower: tuple[Any, dict[str, str]]) -> None:
    _, alerts = alerting_tower
    row(tab, alerts["r_a"]).click()
    tab.page.locator("#pane h3").first.wait_for()
    heads = [head.lower() for head in tab.page.locator("#pane article.diag h3").all_inner_texts()]
    assert heads == ["first action", "evidence", "timeline", "other explanations", "how to confirm"]


@LONG
def test_an_incident_has_a_thumbnail_of_its_signal(
    tab: Any, alerting_tower: tuple[Any, dict[str, str]]
) -> None:
    """The curve of the loss, with a mark for NaN and a line at the onset."""
    thumb = row(tab, alerting_tower[1]["r_a"]).locator(".thumb")
    thumb.locator(".onset").wait_for(state="attached")
    assert thumb.locator(".mark.nan").count() >= 1
    assert str(thumb.get_by_role("img").get_attribute("aria-label")).endswith("began at step 20")
