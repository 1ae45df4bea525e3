"""Kiosk mode: a screen without interaction shows one project after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.crowd import PROJECTS, crowd_of
from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
NEXT = "(shown) => document.querySelector('h1').textContent !== shown"
POINTER = "() => getComputedStyle(document.querySelector('[data-run]')).cursor"
SIZE = "() => parseFloat(getComputedStyle(document.querySelector('[data-run] .name a')).fontSize)"


@pytest.fixture(scope="module")
def four_projects(tower_of_the_module: Any) -> Any:
    """A server with three runs in each of four projects."""
    crowd_of(tower_of_the_module, 12)
    return tower_of_the_module


@pytest.fixture
def page(four_projects: Any, visit: Callable[..., Any]) -> Any:
    """Its kiosk mode with the shortest interval."""
    opened = visit(four_projects, None).page
    opened.goto(f"{four_projects.base}/?kiosk=1&rotate=2")
    opened.locator("[data-run]").first.wait_for()
    return opened


def turn(page: Any) -> str:
    """Return the next project that is shown, once it is."""
    page.wait_for_function(NEXT, arg=page.locator("h1").inner_text())
    return str(page.locator("h1").inner_text())


@LONG
def test_one_project_is_shown_after_the_other(page: Any) -> None:
    """By name, each with its runs only, and the first again after the last."""
    seen = [turn(page) for _ in range(5)]
    assert set(seen) == set(PROJECTS)
    assert seen[0] == seen[4]
    shown = page.locator("h1").inner_text()
    mine = {f"run-{number:04}" for number in range(12) if PROJECTS[number % 4] == shown}
    assert set(page.locator("[data-run] .name a").all_inner_texts()) == mine


@LONG
def test_the_pointer_is_hidden_until_it_moves(page: Any) -> None:
    """And the way out appears where it is."""
    page.wait_for_function(f"() => ({POINTER})() === 'none'")
    page.mouse.move(300, 300)
    page.wait_for_function(f"() => ({POINTER})() !== 'none'")
    page.get_by_label("Rotate projects").select_option("0")
    page.wait_for_function("() => document.querySelector('h1').textContent === 'Fleet'")
    assert page.url.endswith("/?kiosk=1")


@LONG
def test_nothing_asks_to_be_selected(page: Any) -> None:
    """A screen without a mouse has no use for checkboxes."""
    assert page.locator("input[type=checkbox]:visible").count() == 0


@LONG
def test_a_tap_shows_the_way_out(four_projects: Any, chromium: Any) -> None:
    """On a touch screen: the first tap only shows the button, even on a run; the second one presses it."""
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.context.request.get(four_projects.login)
    page.goto(f"{four_projects.base}/?kiosk=1")
    page.wait_for_selector(".is-idle")
    button = page.get_by_role("button", name="Leave kiosk mode")
    box = button.bounding_box()
    assert min(box["width"], box["height"]) >= 40
    page.touchscreen.tap(box["x"] + 20, box["y"] + 20)
    page.wait_for_selector(".is-kiosk:not(.is-idle)")
    assert "kiosk=1" in page.url
    button.tap()
    page.wait_for_selector(":root:not(.is-kiosk)")
    context.close()


@LONG
def test_runs_are_larger_than_on_the_fleet_page(page: Any) -> None:
    """On a screen of 1920 pixels, by a quarter at least."""
    page.set_viewport_size({"width": 1920, "height": 1080})
    large = page.evaluate(SIZE)
    page.keyboard.press("Escape")
    page.wait_for_function(f"(large) => ({SIZE})() * 1.25 <= large", arg=large)


@LONG
def test_the_page_moves_a_little_so_that_nothing_burns_in(page: Any) -> None:
    """The same text is not always at the same pixels."""
    corner = "() => document.querySelector('h1').getBoundingClientRect().x"
    before = page.evaluate(corner)
    page.wait_for_function(f"(x) => ({corner})() !== x", arg=before)


@LONG
def test_a_long_list_is_read_screen_by_screen(page: Any) -> None:
    """The next project follows after the last screen, from its top."""
    page.set_viewport_size({"width": 1280, "height": 240})
    page.wait_for_function("() => scrollY > 0")
    page.wait_for_function("() => scrollY === 0")


def test_it_goes_on_after_the_server_was_away(
    page: Any, four_projects: Any, script: Callable[[str], str]
) -> None:
    """A project that began after the restart takes its turn, without a reload."""
    page.evaluate("() => { globalThis.opened = true; }")
    four_projects.stop()
    four_projects.start()
    with four_projects.training(script("scripted"), "after", "r_after", "0", "40") as process:
        assert process.wait(120) == 0
    page.wait_for_function("() => document.querySelector('h1').textContent === 'scripted'")
    assert page.evaluate("() => globalThis.opened") is True
