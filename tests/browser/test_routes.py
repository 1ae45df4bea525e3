"""Routes: edited as a draft, tested on open alerts, reordered by keyboard, errors at the field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def alerting_tower(tower_of_the_module: Any, alerting: Callable[..., Any]) -> Iterator[tuple[Any, str]]:
    """A server with one run with an alert, and the id of the alert."""
    with alerting(tower_of_the_module, "r_routed") as alert:
        yield tower_of_the_module, alert


@pytest.fixture
def tab(alerting_tower: tuple[Any, str], visit: Callable[..., Any]) -> Any:
    """The routes page, with one browser channel and the default document."""
    tower, _ = alerting_tower
    opened = visit(tower)
    usual = """async () => {
        const send = (method, path, body) => fetch(`/api/v1${path}`, { method, body: JSON.stringify(body),
            headers: { "content-type": "application/json" } });
        await send("POST", "/channels", { name: "pages", kind: "browser" });
        await send("PUT", "/routes", {}); }"""
    opened.page.evaluate(usual)
    opened.page.goto(f"{tower.base}/routes")
    opened.page.locator("[data-route]").first.wait_for()
    return opened


def order(tab: Any) -> list[str]:
    names: list[str] = tab.page.locator("[data-route] .routename b").all_inner_texts()
    return names


def test_a_draft_can_be_tested_before_it_is_saved(tab: Any, alerting_tower: tuple[Any, str]) -> None:
    """The open alert's route changes with the draft; the stored document changes only with Save."""
    tower, alert = alerting_tower
    tried = tab.page.locator(f'[data-tried="{alert}"]')
    tried.get_by_text("default → pages").wait_for()
    matchers = tab.page.locator('[data-field="routes[0].matchers"]')
    matchers.fill('severity="info"')
    tried.get_by_text("No route matches").wait_for()
    tab.page.get_by_text("Unsaved changes").wait_for()
    assert tower.get("/routes")["routes"][0]["matchers"] == ['severity=~"warning|critical"']
    tab.page.keyboard.press("Control+s")
    tab.page.get_by_text("All changes saved").wait_for()
    assert tower.get("/routes")["routes"][0]["matchers"] == ['severity="info"']


def test_an_invalid_field_shows_its_error_and_nothing_is_stored(
    tab: Any, alerting_tower: tuple[Any, str]
) -> None:
    """Look-around in a regular expression, then an invalid time; each error is at its field."""
    before = alerting_tower[0].get("/routes")
    matchers = tab.page.locator('[data-field="routes[0].matchers"]')
    matchers.fill('rule=~"(?=a)a"')
    tab.page.get_by_role("button", name="Save").click()
    tab.page.locator('[data-field="routes[0].matchers"][aria-invalid="true"]:focus').wait_for()
    matchers.fill("")
    wait = tab.page.locator('[data-field="routes[0].group_wait_s"]')
    wait.fill("soon")
    tab.page.get_by_role("button", name="Save").click()
    tab.page.locator('[data-field="routes[0].group_wait_s"][aria-invalid="true"]:focus').wait_for()
    tab.page.get_by_role("alert").get_by_text("seconds from 0").wait_for()
    assert alerting_tower[0].get("/routes") == before
    tab.page.get_by_role("button", name="Discard").click()
    expect(wait).to_have_value("")


@LONG
def test_routes_are_reordered_by_keyboard(tab: Any, alerting_tower: tuple[Any, str]) -> None:
    """Alt and an arrow moves the focused route, which keeps the focus."""
    tab.page.get_by_role("button", name="Add route").click()
    assert order(tab) == ["default", "new route"]
    tab.page.keyboard.press("Alt+ArrowUp")
    tab.page.locator('[data-focus="open-0"]:focus').wait_for()
    assert order(tab) == ["new route", "default"]
    tab.page.keyboard.press("Control+s")
    tab.page.get_by_text("All changes saved").wait_for()
    assert [route["name"] for route in alerting_tower[0].get("/routes")["routes"]] == ["new route", "default"]


@LONG
def test_undo_restores_a_removed_route(tab: Any) -> None:
    """A route is removed from the draft, and Undo restores it."""
    tab.page.get_by_role("button", name="Remove default").click()
    tab.page.get_by_text("Without routes, no notifications").wait_for()
    tab.page.get_by_role("button", name="Undo").click()
    assert order(tab) == ["default"]


@LONG
def test_a_mute_time_is_created_and_used(tab: Any, alerting_tower: tuple[Any, str]) -> None:
    """A mute time has a zone and hours. Its route follows a rename and shows when it is muted."""
    page = tab.page
    page.get_by_role("button", name="Add mute time").click()
    page.locator('[data-field="mute_times[0].zone"]').fill("Europe/Berlin")
    for end, clock in (("from", "00:00"), ("to", "24:00")):
        page.locator(f'[data-field="mute_times[0].times[0].{end}"]').fill(clock)
    page.locator('[data-field="routes[0].mute_times"]').get_by_text("nights").click()
    page.locator('[data-field="mute_times[0].name"]').fill("always")
    page.locator('[data-field="mute_times[0].name"]').blur()
    page.locator(f'[data-tried="{alerting_tower[1]}"]').get_by_text("muted now").wait_for()
    page.keyboard.press("Control+s")
    page.get_by_text("All changes saved").wait_for()
    stored = alerting_tower[0].get("/routes")
    assert stored["routes"][0]["mute_times"] == ["always"]
    assert (stored["mute_times"][0]["zone"], stored["mute_times"][0]["times"][0]["to"]) == (
        "Europe/Berlin",
        "24:00",
    )


@LONG
def test_a_made_up_alert_can_be_routed(tab: Any) -> None:
    """An example alert is given by severity and labels, if no open alert is suitable."""
    tab.page.get_by_label("What to test").select_option("made")
    tab.page.locator('[data-tried="made"]').get_by_text("default → pages").wait_for()
    tab.page.locator(".routetest").get_by_label("Severity").select_option("info")
    tab.page.locator('[data-tried="made"]').get_by_text("No route matches").wait_for()


@LONG
def test_changes_of_another_user_are_shown(
    tab: Any, alerting_tower: tuple[Any, str], visit: Callable[..., Any]
) -> None:
    """Without local changes the page updates; with them it asks."""
    other = visit(alerting_tower[0])
    put = """(body) => fetch("/api/v1/routes", { method: "PUT", body: JSON.stringify(body),
        headers: { "content-type": "application/json" } })"""
    other.page.evaluate(put, {"routes": [{"name": "theirs"}]})
    tab.page.locator(".routename b", has_text="theirs").wait_for()
    tab.page.locator('[data-field="routes[0].matchers"]').fill('severity="critical"')
    other.page.evaluate(put, {"routes": [{"name": "again"}]})
    tab.page.get_by_role("button", name="Use theirs").click()
    tab.page.locator(".routename b", has_text="again").wait_for()
