"""Every page is checked by axe-core in both themes, can be used by keyboard alone, and writes nothing to the
console."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import Launched, Visit, notify_at_once
from tests.matrix import ALL, LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
AXE = Path(__file__).resolve().parents[2] / "node_modules" / "axe-core" / "axe.min.js"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
COLORS = ["color-contrast", "link-in-text-block"]
"""Rules whose result may differ between themes."""
REPRESENTED = ("light", "dark") if ALL else ("light",)
"""Where dark shows the colors of pages that are checked in both themes anyway."""
ASK = """async ([within, runOnly]) => {
    const { violations } = await axe.run(document.querySelectorAll(within), { runOnly });
    return violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) =>
        `${id}: ${target} ${failureSummary.replaceAll("\\n", " ")}`));
}"""
OUTLINE = """() => {
    const here = document.activeElement;
    return getComputedStyle(here.closest(".field") ?? here).outlineStyle;
}"""
SMALL = """() => [...document.querySelectorAll("body *")].filter((each) =>
    each.getBoundingClientRect().width &&
    [...each.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim()) &&
    parseFloat(getComputedStyle(each).fontSize) < 12).map((each) => each.outerHTML.slice(0, 80))"""
RUN = "r_access"
PANELS = "panel=scatter%3Aact%2Fattn%0Aact%2Fmlp&panel=media%3Anone&panel=formula%3Aloss+-+act%2Fattn"
CHARTS = "chart=scatter%3Aconfig.lr%0Alast(loss)&chart=bar%3Alast(loss)&chart=histogram%3Alast(loss)"
PAGES = {
    "fleet": ("/", "[data-run]"),
    "kiosk mode": ("/?kiosk=1", "[data-run]"),
    "run": (f"/runs/{RUN}?at=9", '[data-series="loss"] .plot .xy'),
    "compare": (f"/compare?run={RUN}", '[data-series="loss"] .plot .xy'),
    "panels": (f"/runs/{RUN}?{PANELS}&open=sys&pin=act%2Fmlp&size=2x%3Aact%2Fattn", ".freepanel"),
    "charts of runs": (f"/compare?run={RUN}&run=r_rings&{CHARTS}", ".runchart rect"),
    "compare nothing": ("/compare", ".notice"),
    "alerts": ("/alerts?state=all", ".al"),
    "alerts nothing": ("/alerts?q=nothing", ".listing .pad"),
    "silences": ("/silences", "article, .listing .pad"),
    "routes": ("/routes", "[data-route]"),
    "channels": ("/channels", "article"),
    "deliveries": ("/deliveries", "article"),
    "rules": ("/rules", "[data-rule]"),
    "new rule": ("/rules?new=1", ".ruleform"),
    "built-in rule": ("/rules?rule=loss-spike", ".ruleform"),
    "no such rule": ("/rules?rule=none", ".notice"),
    "settings": ("/settings", ".settings table"),
    "missing": ("/alerts/no/such/page", ".notice"),
    "no such run": ("/runs/none", ".notice"),
    "no such incident": ("/incidents/none", ".notice"),
}
IN_DARK = ("fleet", "run", "panels", "alerts", "rules", "settings")
"""Pages that show each kind of element; only these are checked in dark too without ``TOCSIN_TEST_ALL``."""
if not ALL:  # one of the pages that only have a notice stands for the others
    for alike in ("compare nothing", "alerts nothing", "no such rule", "no such incident", "new rule"):
        del PAGES[alike]


@pytest.fixture(scope="module")
def looked_at(
    tower_of_the_module: Any,
    script: Callable[[str], str],
    alerting: Callable[..., Any],
    eventually_true: Callable[..., Any],
) -> Iterator[Any]:
    """A server with a run with problems, two attempts, notes and tags, and a run with an alert and a
    notification."""
    tower = tower_of_the_module
    notify_at_once(tower)
    tower.post("/channels", {"name": "seen by <b>axe</b>", "kind": "browser"})
    tower.post("/channels", {"name": "off", "kind": "browser", "enabled": False})
    ends_ms = time.time() * 1000 + 3e6
    tower.post("/silences", {"matchers": ['rule="x"'], "ends_ms": ends_ms, "reason": "seen"})
    for first in ("0", "20"):
        with tower.training(script("scripted"), "seen", RUN, first, "40") as process:
            assert process.wait(120) == 0
    with alerting(tower, "r_rings"):
        eventually_true(lambda: tower.get("/deliveries")["items"], "the first notification")
        yield tower


def violations_of(tab: Any, within: str = "html", themes: Sequence[str] = ("light", "dark")) -> list[str]:
    """Return axe-core's violations in elements: all rules in light, color rules only in dark."""
    if not tab.page.evaluate("() => Boolean(globalThis.axe)"):
        tab.page.evaluate(AXE.read_text("utf-8"))
    found: list[str] = []
    for theme in themes:
        tab.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        issues = tab.page.evaluate(ASK, [within, RULES if theme == "light" else COLORS])
        found += [f"{theme}: {issue}" for issue in issues]
    return found


class Seen(NamedTuple):
    """What is wrong with a page."""

    violations: list[str]
    """Of rules that axe-core checks."""
    written: list[str]
    """To the console."""
    small: list[str]
    """Elements with text below 12 pixels."""


@pytest.fixture(scope="module")
def desktop(looked_at: Any, chromium: Browser, launched: Launched) -> dict[str, Seen]:
    """Every page on a desktop, opened once for all claims about it."""
    tab = Visit(launched.profile.new_page(), looked_at, None)
    found, written = {}, list[str]()
    tab.page.on("console", lambda message: written.append(message.text))
    for name, (address, there) in PAGES.items():
        tab.page.goto(looked_at.base + address)
        tab.page.locator(there).first.wait_for()
        tab.page.wait_for_load_state("networkidle")
        said, small = list(written), tab.page.evaluate(SMALL)
        themes = ("light", "dark") if ALL or name in IN_DARK else ("light",)
        found[name] = Seen(violations_of(tab, themes=themes), said, small)
        written.clear()
    tab.page.close()
    return found


def test_axe_finds_nothing(desktop: dict[str, Seen]) -> None:
    """No page violates a rule of WCAG A and AA or a best practice, in either theme."""
    assert not {name: seen.violations for name, seen in desktop.items() if seen.violations}


@LONG
def test_axe_finds_nothing_on_a_phone(looked_at: Any, visit: Callable[..., Any]) -> None:
    """Neither on a screen of 390 pixels."""
    tab = visit(looked_at, None)
    tab.page.set_viewport_size({"width": 390, "height": 844})
    found = {}
    for name, (address, there) in PAGES.items() if ALL else list(PAGES.items())[::3]:
        tab.page.goto(looked_at.base + address)
        tab.page.locator(there).first.wait_for()
        found[name] = violations_of(tab, themes=REPRESENTED)
    assert not {name: issues for name, issues in found.items() if issues}


def test_no_page_writes_to_the_console(desktop: dict[str, Seen]) -> None:
    """No error, warning or note, also if there is no such run: the HTML says so, and no request fails."""
    assert not {name: seen.written for name, seen in desktop.items() if seen.written}


def test_no_text_is_smaller_than_12_pixels(desktop: dict[str, Seen]) -> None:
    """On any page, except in kiosk mode, which scales with the screen."""
    small = {name: seen.small for name, seen in desktop.items() if name != "kiosk mode"}
    assert not {name: elements for name, elements in small.items() if elements}


def test_1_rem_is_16_pixels(looked_at: Any, visit: Callable[..., Any]) -> None:
    """The page keeps the browser's size, which a reader may have made larger."""
    page = visit(looked_at).page
    page.locator("[data-run]").first.wait_for()
    assert page.evaluate("() => getComputedStyle(document.documentElement).fontSize") == "16px"


@LONG
def test_axe_finds_nothing_in_menus_dialogs_and_tabs(looked_at: Any, visit: Callable[..., Any]) -> None:
    """Neither do a chart's menu, the palette, the list of shortcuts, a table of values and the tabs."""
    tab = visit(looked_at, None)
    tab.open_run(RUN)
    found = {}
    tab.page.locator('[data-series="loss"] .menubutton').click()
    found["menu"] = violations_of(tab, "[data-series=loss]")
    tab.page.get_by_role("menu").get_by_text("Show values").click()
    tab.page.get_by_role("dialog").locator("tbody").wait_for()
    found["values"] = violations_of(tab, "[role=dialog], dialog")
    tab.page.keyboard.press("Escape")
    for key, name in (("Control+k", "palette"), ("?", "shortcuts")):
        tab.page.keyboard.press(key)
        tab.page.get_by_role("dialog").wait_for()
        found[name] = violations_of(tab, "[role=dialog], dialog")
        tab.page.keyboard.press("Escape")
    for name in ("Environment", "Series", "Attempts", "Checkpoints", "Config check", "Events", "Notes"):
        tab.page.get_by_role("tab", name=name).click()
        found[name] = violations_of(tab, "[role=tablist], [role=tabpanel]", REPRESENTED)
    assert not {name: issues for name, issues in found.items() if issues}


def test_axe_finds_nothing_in_forms(looked_at: Any, visit: Callable[..., Any]) -> None:
    """Neither do the forms of the alerting pages, including forms with an error."""
    tab = visit(looked_at, None)
    found = {}
    for address, opener, submit in (
        ("/silences", "New silence", "Silence"),
        ("/channels", "New channel", "Create"),
        ("/settings", "New token", "Create"),
    ):
        tab.page.goto(looked_at.base + address)
        tab.page.locator("article, .settings table").first.wait_for()
        tab.page.get_by_role("button", name=opener).first.click()
        tab.page.get_by_role("dialog").get_by_role("button", name=submit).click()
        tab.page.locator("[aria-invalid=true]").first.wait_for()
        found[address] = violations_of(tab)
    assert not {name: issues for name, issues in found.items() if issues}


@LONG
def test_axe_finds_nothing_in_what_is_opened(looked_at: Any, visit: Callable[..., Any]) -> None:
    """The explanation of a rule, an incident, groups of runs, and the media of runs without any."""
    tab = visit(looked_at)
    incident = looked_at.get("/incidents")["items"][0]["id"]
    compared = f"/compare?run={RUN}&run=r_rings&group=config.lr"
    found = {}
    for address, summary, there in (
        ("/rules?rule=loss-spike", ".aboutrule > summary", ".aboutrule h2"),
        (f"/incidents/{incident}", None, "h1"),
        (compared, ".mediacompare > summary", ".mediacompare[open]"),
    ):
        tab.page.goto(looked_at.base + address)
        if summary:
            tab.page.locator(summary).click()
        tab.page.locator(there).first.wait_for()
        found[address] = violations_of(tab)
    assert not {name: issues for name, issues in found.items() if issues}
    assert tab.page.locator(".mediacompare figure").count() == 0


def test_a_run_is_found_and_opened_by_keyboard_alone(looked_at: Any, visit: Callable[..., Any]) -> None:
    """Ctrl K, a few letters, Enter; then the charts' menu opens and selects by keys, and focus returns."""
    tab = visit(looked_at)
    tab.page.locator("[data-run]").first.wait_for()
    tab.page.keyboard.press("Control+k")
    tab.page.get_by_role("combobox", name="Find a page, a run or a command").type("seen")
    tab.page.get_by_role("option", name="seen").first.wait_for()
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url(f"**/runs/{RUN}")
    button = tab.page.locator('[data-series="loss"] .menubutton')
    button.wait_for()
    button.focus()
    tab.page.keyboard.press("Enter")
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("ArrowDown")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**axis=log%3Aloss*")
    assert "menubutton" in tab.page.evaluate("() => document.activeElement.className")


def test_the_focused_element_is_visible(looked_at: Any, visit: Callable[..., Any]) -> None:
    """After each of twenty Tabs on the run page, the focused element has an outline and is not covered."""
    tab = visit(looked_at, None)
    tab.open_run(RUN)
    for _ in range(20):
        tab.page.keyboard.press("Tab")
        assert tab.page.evaluate(OUTLINE) != "none"


def test_nothing_moves_if_the_reader_asked_for_that(looked_at: Any, visit: Callable[..., Any]) -> None:
    """Neither a new critical alert's badge, nor a switch; both move otherwise."""
    page = visit(looked_at).page
    page.locator(".badge").first.wait_for()
    begin = "() => { document.querySelector('.badge').classList.add('new'); }"
    running = "() => document.getAnimations().length"
    page.emulate_media(reduced_motion="no-preference")
    page.evaluate(begin)
    page.wait_for_function(f"() => ({running})() > 0")
    page.emulate_media(reduced_motion="reduce")
    page.wait_for_function(f"() => ({running})() === 0")
