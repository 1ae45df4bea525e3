"""At phone width no page is wider than the screen, whatever a run's name is, and names are shown as text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import notify_at_once
from tests.matrix import ALL, LONG, represented

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
NAME = "<img src=x onerror=alert(1)>\u202e\"'&amp;" + "x" * 210
RUN = "r_phone"
TOUCH_PX = 40
WIDTHS = (720, 390, 320) if ALL else (320,)
"""1440 pixels at 200 %, a phone, and 1280 pixels at 400 %, the narrowest."""
OWN = ".scroll, [role=tablist], .subnav, .scrollseg, .vh, .skip, svg, .plot"
"""Elements that scroll or are clipped."""
WIDER = """(own) => [...document.querySelectorAll("body *")].filter((each) => {
    const { width, right } = each.getBoundingClientRect();
    return width > 0 && right > innerWidth + 1 && !each.closest(own);
}).map((each) => `${each.tagName}.${each.className}`).slice(0, 5)"""
LOW = """(px) => [...document.querySelectorAll("main :is(.btn, .seg button, .routename), header button"),
    ...document.querySelectorAll("main :is(input, select, summary, .comparetable a)")]
    .map((each) => [each, (each.closest("label") ?? each).getBoundingClientRect()])
    .filter(([each, { width, height }]) => width && height < px && each.checkVisibility())
    .filter(([each]) => !each.closest(".vh"))
    .map(([each, { height }]) => `${each.outerHTML.slice(0, 80)} ${height}`)"""
HIT = """(each) => {
    const { left, top, width, height } = each.getBoundingClientRect();
    const rows = [...Array(81).keys()].map((y) => top + height / 2 - 40 + y);
    return rows.filter((y) => document.elementFromPoint(left + width / 2, y) === each).length;
}"""
"""The height at which a touch reaches an element."""
PAGES = {
    "/": "[data-run]",
    "/?kiosk=1": "[data-run]",
    "/rules": "[data-rule]",
    "/rules?rule=loss-spike": ".ruleform",
    f"/runs/{RUN}": '[data-series="loss"]',
    f"/compare?run={RUN}": '[data-series="loss"] .plot .xy',
    "/compare": ".notice",
    "/alerts?state=all": ".al",
    "/silences": "article, .listing .pad",
    "/routes": "[data-route]",
    "/channels": "article",
    "/deliveries": "article",
    "/settings": ".settings table",
}
SHOWN = (
    "/",
    f"/runs/{RUN}",
    f"/compare?run={RUN}",
    "/alerts?state=all",
    "/rules?rule=loss-spike",
    "/deliveries",
)
"""Pages that have each kind of element that could be wide."""


@pytest.fixture(scope="module")
def named(
    tower_of_the_module: Any,
    script: Callable[[str], str],
    alerting: Callable[..., Any],
    eventually_true: Callable[..., Any],
) -> Iterator[Any]:
    """A server with a run whose name is hostile and of maximum length, in every list."""
    tower = tower_of_the_module
    notify_at_once(tower)
    tower.post("/channels", {"name": NAME[:100], "kind": "browser"})
    ends_ms = time.time() * 1000 + 3e6
    tower.post("/silences", {"matchers": [f'run="{"x" * 200}"'], "ends_ms": ends_ms, "reason": NAME})
    with tower.training(script("scripted"), NAME, RUN, "0", "40") as process:
        assert process.wait(120) == 0
    with alerting(tower, "r_rings", NAME):
        eventually_true(lambda: tower.get("/deliveries")["items"], "the first notification")
        yield tower


@pytest.mark.parametrize("address", represented(PAGES, *SHOWN))
def test_no_page_is_wider_than_a_phone(address: str, named: Any, visit: Callable[..., Any]) -> None:
    """Only tables that scroll are wider than the window: of phones, and of a desktop at 200 and 400 %."""
    tab = visit(named, None)
    for width in WIDTHS:
        tab.page.set_viewport_size({"width": width, "height": 844})
        tab.page.goto(named.base + address)
        tab.page.locator(PAGES[address]).first.wait_for()
        tab.page.wait_for_function("() => document.querySelectorAll('main *').length > 3")
        assert tab.page.evaluate(WIDER, OWN) == []
        assert tab.page.evaluate("() => document.documentElement.scrollWidth") <= width


@LONG
def test_a_toast_of_a_hostile_run_fits(
    named: Any, visit: Callable[..., Any], alerting: Callable[..., Any]
) -> None:
    """It appears on the open page with the whole name, and is no wider than the phone."""
    tab = visit(named)
    tab.page.set_viewport_size({"width": 390, "height": 844})
    tab.page.locator("[data-run]").first.wait_for()
    with alerting(named, "r_toast", NAME):
        tab.page.locator(".toast", has_text=NAME).first.wait_for()
        assert tab.page.evaluate(WIDER, OWN) == []


@pytest.mark.parametrize(
    "address",
    represented(["/", f"/runs/{RUN}", f"/compare?run={RUN}", "/alerts?state=all"], "/", f"/runs/{RUN}"),
)
def test_a_hostile_name_is_text_everywhere(address: str, named: Any, visit: Callable[..., Any]) -> None:
    """Each page, its title and the palette show the name literally."""
    tab = visit(named, None)
    tab.page.goto(named.base + address)
    tab.page.get_by_text(NAME).first.wait_for()
    tab.page.keyboard.press("Control+k")
    tab.page.get_by_role("combobox", name="Find a page, a run or a command").fill("onerror")
    tab.page.locator("#palette-list").get_by_text(NAME).first.wait_for()
    assert tab.page.locator("img").count() == 0


@LONG
def test_a_menu_at_the_left_edge_opens_on_the_screen(named: Any, visit: Callable[..., Any]) -> None:
    """Where there is no room to the left of its button, a menu is to the right of its edge."""
    page = visit(named, None).page
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{named.base}/runs/{RUN}")
    page.get_by_role("button", name="Compare", exact=True).click()
    menu = page.get_by_role("menu", name="Compare this run")
    menu.wait_for()
    box = menu.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390


@LONG
def test_runs_are_selected_on_a_phone(named: Any, visit: Callable[..., Any]) -> None:
    """Two check marks and Compare; the report of both is available too."""
    tab = visit(named, None)
    tab.page.set_viewport_size({"width": 390, "height": 844})
    tab.page.goto(named.base)
    for run in (RUN, "r_rings"):
        tab.page.locator(f'[data-run="{run}"] .pickbox').click()
    tab.page.locator(".fleetbar a", has_text="Compare").click()
    tab.page.locator(".comparetable [data-run]").nth(1).wait_for()
    assert tab.page.get_by_text("Report", exact=True).is_visible()


@LONG
def test_a_run_is_found_by_thumb(named: Any, visit: Callable[..., Any]) -> None:
    """The search of the header and what it finds are touch targets; they lead to the page of a run."""
    page = visit(named).page
    page.set_viewport_size({"width": 390, "height": 844})
    page.context.new_cdp_session(page).send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    page.reload()
    assert page.evaluate("() => matchMedia('(pointer: coarse)').matches")
    button = page.get_by_role("button", name="find a page, a run or a command")
    box = button.bounding_box()
    assert box is not None
    assert min(box["width"], box["height"]) >= TOUCH_PX
    button.click()
    page.get_by_role("combobox", name="Find a page, a run or a command").fill("onerror")
    found = page.locator("#palette-list").get_by_role("option").first
    assert found.evaluate("(each) => each.getBoundingClientRect().height") >= TOUCH_PX
    found.click()
    page.wait_for_url("**/runs/**")


@LONG
def test_what_is_touched_is_40_pixels_high(named: Any, chromium: Browser) -> None:
    """Buttons and fields, also those of segments, and the links that open rules; not links within a text."""
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(named.login)
    addresses = "/", "/alerts?state=all", "/silences", "/routes", "/settings", "/rules?rule=loss-spike"
    for address in (*addresses, f"/compare?run={RUN}"):
        page.goto(named.base + address)
        page.wait_for_load_state("networkidle")
        assert page.evaluate(LOW, TOUCH_PX) == [], address
    page.goto(f"{named.base}/alerts?state=all")
    step = page.locator(".timeline button").first
    step.scroll_into_view_if_needed()
    assert step.evaluate(HIT) >= TOUCH_PX - 2
    page.goto(f"{named.base}/rules")
    rule = page.locator("[data-rule] .what").first
    rule.scroll_into_view_if_needed()
    box = rule.bounding_box()
    assert box is not None
    page.touchscreen.tap(box["x"] + box["width"] - 5, box["y"] + TOUCH_PX - 2)
    page.locator(".ruleform").wait_for()
    context.close()


@LONG
@pytest.mark.parametrize("address", represented(["/alerts?state=all", "/silences", "/deliveries"]))
def test_all_tabs_are_visible_on_a_phone(address: str, named: Any, visit: Callable[..., Any]) -> None:
    """The links between the alerting pages and the filters fit the screen without scrolling."""
    page = visit(named, None).page
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(named.base + address)
    page.locator(".scrollseg button").first.wait_for()
    for tab in page.locator(".subnav a, .scrollseg button").all():
        box = tab.bounding_box()
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
