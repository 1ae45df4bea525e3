"""The page of an incident: everything to act on is on the first screen, also on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.browser.test_accessibility import ASK, AXE, RULES
from tests.browser.test_phone import OWN, WIDER
from tests.matrix import LONG, represented

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUN = "r_incident"
SPARSE = Path(__file__).with_name("sparse_training.py")
CHANGED, RESUMED = (Path(__file__).with_name(f"{name}_training.py") for name in ("changed", "resumed"))
CHART = '[data-series="loss"] .plot .xy'
CLEAR = """async (id) => {
    await fetch(`/api/v1/incidents/${encodeURIComponent(id)}/ack`, { method: "DELETE" });
    const { items } = await (await fetch("/api/v1/silences")).json();
    for (const { id } of items) await fetch(`/api/v1/silences/${id}`, { method: "DELETE" }); }"""
PHONE = {"width": 390, "height": 844}
BOTTOM = "(selector) => document.querySelector(selector)?.getBoundingClientRect().bottom"


@pytest.fixture(scope="module")
def broken(tower_of_the_module: Any, alerting: Callable[..., Any]) -> Iterator[Any]:
    """A server with a run whose loss is NaN since step 20."""
    with alerting(tower_of_the_module, RUN, "<b>bold</b>"):
        yield tower_of_the_module


@pytest.fixture
def tab(broken: Any, visit: Callable[..., Any]) -> Any:
    """The page of the incident, on a screen of 1440 x 900; nothing is acknowledged or silenced."""
    opened = visit(broken)
    incident = incident_of(broken)["id"]
    opened.page.evaluate(CLEAR, incident)
    opened.page.set_viewport_size({"width": 1440, "height": 900})
    opened.page.goto(f"{broken.base}/incidents/{quote(incident, safe='')}")
    opened.page.locator(CHART).first.wait_for()
    return opened


def incident_of(tower: Any) -> dict[str, Any]:
    (incident,) = tower.get("/incidents", run=RUN, state="open")["items"]
    return dict(incident)


def bottom(page: Any, selector: str) -> float:
    """Of the element once it is visible; in one call, because an update may replace the element."""
    return float(page.wait_for_function(BOTTOM, arg=selector).json_value())


@LONG
def test_cause_action_and_charts_need_no_scrolling(tab: Any) -> None:
    tab.page.get_by_role("heading", name="First action").wait_for()
    shown = [".likely-cause", '.diag [data-act="ack"]', '.onset [data-series="scale"]']
    assert [selector for selector in shown if bottom(tab.page, selector) > 900] == []


def test_the_head_says_what_broke_where_and_since_when(tab: Any) -> None:
    head = " ".join(tab.page.locator(".inchead").inner_text().split())
    assert re.search(r"Alerts / alerting / <b>bold</b> .*since step 20 · \d\d:\d\d", head), head


@LONG
def test_the_first_screen_of_a_phone_is_enough_to_acknowledge(tab: Any, broken: Any) -> None:
    tab.page.set_viewport_size(PHONE)
    act = '.diag [data-act="ack"]'
    assert bottom(tab.page, act) < PHONE["height"]
    tab.page.locator(act).click()
    tab.page.get_by_role("dialog").get_by_label("Note").fill("from the train")
    tab.page.get_by_role("dialog").get_by_role("button", name="Acknowledge").click()
    tab.page.locator(".marklist").get_by_text("Acknowledged by").wait_for()
    assert incident_of(broken)["ack"]["note"] == "from the train"
    tab.page.locator(".history").get_by_text("from the train").wait_for()


def test_a_silence_is_for_the_incident(tab: Any, broken: Any) -> None:
    tab.page.keyboard.press("s")
    dialog = tab.page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("known")
    dialog.get_by_role("button", name="Silence", exact=True).click()
    tab.page.locator(".marklist").get_by_text("silenced until").wait_for()
    (silence,) = [each for each in broken.get("/silences")["items"] if each["state"] == "active"]
    assert silence["matchers"] == [f'incident="{incident_of(broken)["id"]}"']


@LONG
def test_an_alert_opens_the_charts_of_the_run_at_its_onset(tab: Any) -> None:
    tab.page.locator(".alertline").first.click()
    tab.page.wait_for_url(f"**/runs/{RUN}?at=20&alert=**")


@LONG
def test_a_flag_opens_the_charts_of_the_run(tab: Any) -> None:
    tab.page.locator(".onset .flag").click()
    tab.page.wait_for_url(f"**/runs/{RUN}?at=20&alert=**")


@LONG
def test_a_line_is_pinned_and_moved_on_the_charts(tab: Any) -> None:
    """By keyboard, without leaving the page."""
    charts = tab.page.locator(".onset .vitals")
    charts.focus()
    tab.page.keyboard.press("ArrowRight")
    charts.locator(".cross.pinned").wait_for(state="attached")
    assert "/incidents/" in tab.page.url


@LONG
def test_a_window_of_few_records_is_made_wider(broken: Any, visit: Callable[..., Any]) -> None:
    """The training logs every 500 steps; the window shows more than 150 of them on each side."""
    with broken.training(str(SPARSE), "alerting", "sparse", "r_sparse") as process:
        assert process.wait(120) == 0
    tab = visit(broken, None)
    (incident,) = [each for each in broken.get("/incidents", run="r_sparse")["items"] if each["onset_step"]]
    tab.page.goto(f"{broken.base}/incidents/{quote(incident['id'], safe='')}")
    tab.page.locator(CHART).first.wait_for()
    tab.page.wait_for_function(
        """(least) => {
        const ends = document.querySelector(".onset .bar .muted")?.textContent.split("to");
        const [first, last] = (ends ?? []).map((each) => Number(each.replace(/\\D/g, "")));
        return last - first >= least;
    }""",
        arg=24 * 500,
    )


@LONG
def test_a_similar_incident_of_the_project_is_linked(
    tab: Any, broken: Any, alerting: Callable[..., Any]
) -> None:
    """Its long name makes the page no wider."""
    with alerting(broken, "r_incident_again", "again" + "x" * 200):
        tab.page.reload()
        similar = tab.page.get_by_role("article", name="Similar incidents")
        similar.get_by_text("same likely cause").wait_for()
        width = tab.page.evaluate("document.documentElement.scrollWidth")
        assert width <= tab.page.viewport_size["width"]
        similar.get_by_role("link", name="in again").click()
        tab.page.wait_for_url("**/incidents/r_incident_again*")
        tab.page.get_by_text(re.compile("Seen .* before in this project")).wait_for()


@LONG
def test_no_part_is_wider_than_a_phone(tab: Any) -> None:
    tab.page.set_viewport_size(PHONE)
    assert tab.page.evaluate(WIDER, OWN) == []


@pytest.mark.parametrize("scheme", represented(["light", "dark"]))
def test_the_page_is_accessible(scheme: Any, tab: Any) -> None:
    tab.page.emulate_media(color_scheme=scheme)
    tab.page.evaluate(AXE.read_text())
    assert tab.page.evaluate(ASK, ["main", {"type": "tag", "values": RULES}]) == []


def test_an_unknown_incident_says_so(broken: Any, visit: Callable[..., Any]) -> None:
    page = visit(broken, None).page
    page.goto(f"{broken.base}/incidents/none")
    page.get_by_text("There is no such incident").wait_for()


@LONG
def test_what_changed_is_named_with_the_healthy_run(broken: Any, visit: Callable[..., Any]) -> None:
    """Only the learning rate differs from the healthy run."""
    with broken.training(str(CHANGED), "changed", "net", "r_net") as process:
        assert process.wait(120) == 0
    tab = visit(broken, None)
    (incident,) = broken.get("/incidents", run="r_net_2")["items"]
    tab.page.goto(f"{broken.base}/incidents/{quote(incident['id'], safe='')}")
    section = tab.page.get_by_role("region", name="What changed")
    section.get_by_role("link", name="net 1").wait_for()
    rows = [" ".join(each.split()) for each in section.locator("tr").all_inner_texts()]
    assert rows == ["lr config 0.1 → 3.0"]


@LONG
def test_a_remedy_that_held_is_shown_on_the_incident_and_in_the_ledger(
    broken: Any, visit: Callable[..., Any]
) -> None:
    for again in ([], ["again"]):
        with broken.training(str(RESUMED), "resumed", "net", "r_resumed", *again) as process:
            assert process.wait(120) == 0
    tab = visit(broken, None)
    (incident, *_) = broken.get("/incidents", run="r_resumed")["items"]
    tab.page.goto(f"{broken.base}/incidents/{quote(incident['id'], safe='')}")
    section = tab.page.get_by_role("article", name="Did the remedy work?")
    row = " ".join(section.locator("li").inner_text().split())
    assert row.startswith("Recovered net, attempt 2")
    assert "Continues from step 10 with lr halved." in row
    assert tab.page.evaluate(WIDER, OWN) == []
    tab.page.goto(f"{broken.base}/settings")
    ledger = tab.page.get_by_role("region", name="Remedies", exact=True)
    ledger.locator("summary", has_text="resumed").click()
    cells = ledger.get_by_role("region", name="Remedies of resumed").locator("tbody tr").first.locator("td")
    cells.first.wait_for()
    assert [" ".join(each.split()) for each in cells.all_inner_texts()][1:] == ["lr lowered", "1", "0", "0"]


@LONG
def test_nothing_is_written_to_the_console(tab: Any) -> None:
    """Neither while the page of an incident loads, nor while its charts are drawn."""
    written: list[str] = []
    tab.page.on("console", lambda message: written.append(message.text))
    tab.page.reload()
    tab.page.locator(CHART).first.wait_for()
    tab.page.wait_for_load_state("networkidle")
    assert written == []
