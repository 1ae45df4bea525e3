"""What a browser with an empty cache loads to show a page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.conftest import PATIENCE_MS
from tests.conftest import wait_for
from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
MANY_STEPS = """
import random, tocsin
run = tocsin.watch("long", name="long", resume="r_long", exit_timeout=60)
for step in range(5_000):
    run.log({"loss": random.gauss(1, 0.1), "grad_norm": random.random(), "scale": 2.0, "lr": 0.1}, step=step)
"""
PAGES = {"/": "[data-run] .name a", "/runs/r_long": '[data-series="loss"] .plot .xy'}
MOST_BYTES = {"/": 90_000, "/runs/r_long": 150_000}
NOTE_REQUESTS = """(() => {
    const send = fetch;
    globalThis.asked = [];
    globalThis.fetch = (address, ...rest) => {
        asked.push(new URL(address, location.href).href);
        return send(address, ...rest);
    };
})()"""
NOTHING_AHEAD = """(() => {
    const wait = setTimeout;
    globalThis.setTimeout = (call, ms, ...rest) => wait(call, ms >= 5000 ? 1e8 : ms, ...rest);
})()"""
"""After five seconds a page loads what it may need later: before the first chart, on a slow machine."""
ANNOUNCED = """() => [...document.querySelectorAll("link[rel=preload][as=fetch]")]
    .filter((link) => !link.media || matchMedia(link.media).matches).map((link) => link.href)"""


@pytest.fixture(scope="module")
def long_run(tower_of_the_module: Any) -> Any:
    """A server with a run of more steps than a chart has points."""
    with tower_of_the_module.training("-c", MANY_STEPS) as process:
        assert process.wait(120) == 0
    return tower_of_the_module


@pytest.fixture
def first_visit(chromium: Browser, long_run: Any) -> Iterator[Page]:
    """A tab of a new profile that is logged in."""
    context = chromium.new_context(viewport={"width": 1440, "height": 1200}, locale="en-GB")
    context.request.get(long_run.login)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    yield page
    context.close()


@pytest.mark.parametrize("path", PAGES)
def test_a_first_visit_is_small(path: str, first_visit: Page, long_run: Any) -> None:
    """All that is sent until the page shows what it is for, with headers, without plotly.js."""
    session = first_visit.context.new_cdp_session(first_visit)
    session.send("Network.enable")
    addresses, sizes = dict[str, str](), dict[str, float]()
    session.on("Network.responseReceived", lambda e: addresses.update({e["requestId"]: e["response"]["url"]}))
    session.on("Network.loadingFinished", lambda e: sizes.update({e["requestId"]: e["encodedDataLength"]}))
    first_visit.add_init_script(NOTHING_AHEAD)
    first_visit.goto(long_run.base + path)
    first_visit.locator(PAGES[path]).first.wait_for()
    sent = {addresses[each]: size for each, size in sizes.items() if "plotly" not in addresses[each]}
    assert len(sent) > 5
    assert sum(sent.values()) < MOST_BYTES[path], sent


@LONG
@pytest.mark.parametrize("path", PAGES)
def test_what_a_page_announces_it_requests_once(path: str, first_visit: Page, long_run: Any) -> None:
    """The links in its HTML are its own requests, letter for letter, so that it waits for none of them."""
    sent = Counter[str]()
    first_visit.on("request", lambda request: sent.update([request.url]))
    first_visit.add_init_script(NOTE_REQUESTS)
    first_visit.goto(long_run.base + path)
    announced = first_visit.evaluate(ANNOUNCED)
    assert len(announced) >= 2
    wait_for(lambda: set(announced) <= set(first_visit.evaluate("asked")), f"requests of {announced}")
    assert [sent[each] for each in announced] == [1] * len(announced)


def test_the_first_chart_needs_no_request_of_a_script(first_visit: Page, long_run: Any) -> None:
    """The HTML names all that it needs: a browser waits for two answers in a row, not for three."""
    session = first_visit.context.new_cdp_session(first_visit)
    session.send("Network.enable")
    started = dict[str, str]()
    session.on(
        "Network.requestWillBeSent",
        lambda e: started.update({e["request"]["url"]: e["initiator"]["type"]}),
    )
    first_visit.goto(long_run.base + "/runs/r_long")
    first_visit.locator(PAGES["/runs/r_long"]).first.wait_for()
    needed = [url for url in started if "/series?" in url or ("/assets/" in url and url.endswith(".js"))]
    assert len(needed) == 6
    assert {started[url] for url in needed} == {"parser"}


def test_the_rows_of_the_fleet_are_sent_once(first_visit: Page, long_run: Any) -> None:
    """The socket sends only what changed after the response with all rows."""
    frames: list[str] = []

    def note(text: str | bytes) -> None:
        if '"type":"fleet"' in str(text):
            frames.append(str(text))

    first_visit.on("websocket", lambda socket: socket.on("framereceived", note))
    first_visit.goto(long_run.base + "/")
    first_visit.locator(PAGES["/"]).first.wait_for()
    wait_for(lambda: first_visit.evaluate("1") and frames, "rows from the socket")
    assert "r_long" not in frames[0]


def test_a_page_opened_from_another_has_its_styles(first_visit: Page, long_run: Any) -> None:
    """They are loaded before it is shown."""
    first_visit.goto(long_run.base + "/runs/r_long")
    first_visit.locator(PAGES["/runs/r_long"]).first.wait_for()
    assert first_visit.locator("link[rel=stylesheet][disabled]").count() == 2
    first_visit.get_by_role("navigation", name="Pages").get_by_role("link", name="Alerts").click()
    shown = first_visit.wait_for_function(
        "() => { const box = document.querySelector('.inbox'); return box && getComputedStyle(box).display; }"
    )
    assert shown.json_value() == "grid"


@LONG
def test_letters_after_ctrl_k_wait_for_the_palette(first_visit: Page, long_run: Any) -> None:
    """While its code is on the way, they are no shortcuts: G and S would open the settings."""
    held: list[Route] = []
    first_visit.route("**/*palette*.js*", lambda route: held.append(route))
    with first_visit.expect_request("**/*palette*.js*"):
        first_visit.goto(long_run.base + "/")
        first_visit.locator(PAGES["/"]).first.wait_for()
        first_visit.keyboard.press("Control+k")
    first_visit.keyboard.type("gs long")
    held[0].continue_()
    expect(first_visit.get_by_role("combobox", name="Find a page, a run or a command")).to_have_value(
        "gs long"
    )
    assert first_visit.url == long_run.base + "/"


@LONG
def test_ctrl_k_before_the_app_has_started_opens_the_palette(first_visit: Page, long_run: Any) -> None:
    """As soon as it has; the browser does not take the key for its own search."""
    held: list[Route] = []
    pressed = False
    first_visit.route("**/api/v1/session", lambda route: route.continue_() if pressed else held.append(route))
    with first_visit.expect_request("**/api/v1/session"):
        first_visit.goto(long_run.base + "/", wait_until="commit")
    first_visit.locator("#main").wait_for(state="attached")
    first_visit.keyboard.press("Control+k")
    pressed = True
    for route in held:
        route.continue_()
    expect(first_visit.get_by_role("combobox", name="Find a page, a run or a command")).to_be_visible()


def test_the_palette_says_why_it_lists_no_runs(first_visit: Page, long_run: Any) -> None:
    """With the server away it still finds pages and commands, and says that runs cannot be found."""
    first_visit.goto(long_run.base + "/")
    first_visit.locator(PAGES["/"]).first.wait_for()
    first_visit.route("**/api/v1/runs**", lambda route: route.abort())
    first_visit.keyboard.press("Control+k")
    palette = first_visit.get_by_role("dialog", name="Find")
    said = "The server does not respond. Runs cannot be found now."
    expect(palette.get_by_role("status")).to_have_text(said)
    expect(palette.get_by_role("option", name="Settings")).to_be_visible()


@LONG
def test_the_icon_of_the_tab_is_requested_once(first_visit: Page, long_run: Any) -> None:
    """While no alert fires, the app keeps the address in the HTML."""
    first_visit.goto(long_run.base + "/")
    icon = first_visit.locator("link[rel=icon]")
    first_visit.locator(PAGES["/"]).first.wait_for()
    address = re.search(r'rel="icon"[^>]*href="([^"]+)"', first_visit.request.get(first_visit.url).text())
    assert address
    expect(icon).to_have_attribute("href", address[1])


@LONG
def test_two_clicks_open_one_dialog(first_visit: Page, long_run: Any) -> None:
    """The second one comes while the code of the dialog is on the way."""
    first_visit.goto(long_run.base + "/runs/r_long")
    first_visit.get_by_role("button", name="Add chart").dblclick()
    first_visit.get_by_role("dialog").first.wait_for()
    first_visit.keyboard.press("Escape")
    expect(first_visit.get_by_role("dialog")).to_have_count(0)
