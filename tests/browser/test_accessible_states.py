"""axe-core on rare states: the login, the empty fleet, toasts, a deleted run, an editor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.test_accessibility import violations_of
from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUN = "r_states"


@pytest.fixture(scope="module")
def quiet(tower_of_the_module: Any) -> Any:
    """A server without runs."""
    return tower_of_the_module


class Stranger:
    """A tab that is not logged in."""

    def __init__(self, page: Any) -> None:
        self.page = page


def test_axe_finds_nothing_before_the_login(quiet: Any, chromium: Browser) -> None:
    """The login page, and the page for an invalid link."""
    context = chromium.new_context()
    tab = Stranger(context.new_page())
    found = {}
    for address in ("/", "/login?token=tcn_void"):
        tab.page.goto(quiet.base + address)
        tab.page.locator("form").wait_for()
        found[address] = violations_of(tab)
    context.close()
    assert not {name: issues for name, issues in found.items() if issues}


def test_axe_finds_nothing_on_an_empty_fleet(quiet: Any, visit: Callable[..., Any]) -> None:
    """The lines to paste, before and after their token is created."""
    tab = visit(quiet)
    tab.page.locator(".empty").wait_for()
    before = violations_of(tab)
    tab.page.get_by_role("button", name="Insert token").first.click()
    tab.page.get_by_text("copy the lines now").wait_for()
    assert [*before, *violations_of(tab)] == []


def test_a_created_token_is_in_all_lines_and_checked(quiet: Any, visit: Callable[..., Any]) -> None:
    """Both for the script and for ``tocsin run``; what is done is said in the list of checks."""
    page = visit(quiet).page
    page.get_by_role("button", name="Insert token").last.click()
    page.get_by_text("copy the lines now").wait_for()
    blocks = [block for block in page.locator(".firstlines pre").all_inner_texts() if "tcn_" in block]
    assert len(blocks) == 2
    expect(page.locator(".checks .is-done")).to_have_count(2)


@LONG
def test_axe_finds_nothing_in_toasts_and_editors(
    shared_tower: Any, visit: Callable[..., Any], script: Callable[[str], str]
) -> None:
    """A critical alert's toast, the undo card, the strip of a deleted run, the editor of notes, a form."""
    tab = visit(shared_tower)
    tab.page.locator("#floats .toasts").wait_for(state="attached")
    with shared_tower.training(script("scripted"), "toasted", RUN, "0", "40") as process:
        assert process.wait(120) == 0
    found: dict[str, list[str]] = {"toast": []}
    if tab.page.locator(".toast").count():
        found["toast"] = violations_of(tab)
    tab.open_run(RUN)
    tab.page.get_by_role("tab", name="Notes").click()
    tab.page.locator(".notesbar button").click()
    tab.page.get_by_label("Notes in Markdown").fill("# one\n| a | b |\n|---|---|\n| 1 | 2 |")
    tab.page.locator(".notespreview table").wait_for()
    found["editor"] = violations_of(tab)
    tab.page.get_by_role("button", name="Cancel").click()
    tab.page.get_by_role("button", name="Run: name, tags").click()
    tab.page.get_by_role("menuitem", name="Rename").click()
    found["form"] = violations_of(tab)
    tab.page.keyboard.press("Escape")
    tab.page.get_by_role("button", name="Run: name, tags").click()
    tab.page.get_by_role("menuitem", name="Delete").click()
    tab.page.locator(".deleting button").wait_for()
    tab.page.locator(".undo").wait_for()
    found["deleted"] = violations_of(tab)
    assert not {name: issues for name, issues in found.items() if issues}
