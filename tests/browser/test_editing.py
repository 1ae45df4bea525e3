"""Editing and deleting runs: live for everyone, by keyboard, and no edit is lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
RUN = "r_edited"
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def edited(shared_tower: Any, script: Callable[[str], str]) -> Any:
    """A server with a run, and three more to delete."""
    for run in (RUN, "r_gone1", "r_gone2", "r_gone3"):
        with shared_tower.training(script("scripted"), run, run, "0", "20") as process:
            assert process.wait(120) == 0
    return shared_tower


@pytest.fixture
def tab(edited: Any, visit: Callable[..., Any]) -> Any:
    """The page of that run."""
    tab = visit(edited, None)
    tab.open_run(RUN)
    return tab


def write_notes(tab: Any, text: str) -> None:
    """Open the notes and type, without saving."""
    tab.page.get_by_role("tab", name="Notes").click()
    tab.page.locator(".notesbar button").click()
    tab.page.get_by_label("Notes in Markdown").fill(text)


def stored(server: Any, run: str = RUN) -> Any:
    return server.get(f"/runs/{run}")


def change(server: Any, **fields: Any) -> None:
    """Change the run by the API, as another user."""
    headers = {"authorization": f"Bearer {secret(server)}"}
    httpx.patch(f"{server.base}/api/v1/runs/{RUN}", json=fields, headers=headers).raise_for_status()


def secret(server: Any) -> str:
    return str(server.token)


@LONG
def test_notes_have_a_preview_and_other_browsers_show_them(
    tab: Any, edited: Any, visit: Callable[..., Any]
) -> None:
    """Ctrl Enter saves; HTML stays text; another open browser shows them automatically."""
    other = visit(edited, None)
    other.open_run(RUN)
    other.page.get_by_role("tab", name="Notes").click()
    write_notes(tab, f"# Plan\n**lower** the rate {HOSTILE}")
    tab.page.locator(".notespreview strong", has_text="lower").wait_for()
    tab.page.keyboard.press("Control+Enter")
    tab.page.locator(".notes .markdown strong", has_text="lower").wait_for()
    other.page.locator(".notes .markdown strong", has_text="lower").wait_for()
    assert other.page.locator("main img").count() == 0
    assert stored(edited)["notes"] == f"# Plan\n**lower** the rate {HOSTILE}"


def test_a_conflicting_edit_is_never_overwritten_unread(tab: Any, edited: Any, eventually_true: Any) -> None:
    """The other user's text is shown next to mine. Saving is blocked until I choose; then both are there."""
    write_notes(tab, "mine")
    change(edited, notes="**theirs**")
    tab.page.locator(".theirs strong", has_text="theirs").wait_for()
    assert tab.page.get_by_role("button", name="Save").first.is_disabled()
    tab.page.get_by_role("button", name="Combine both").click()
    tab.page.keyboard.press("Control+Enter")
    both = "**theirs**\n\n---\n\nmine"
    eventually_true(lambda: stored(edited)["notes"] == both, "both texts to be stored")


@LONG
def test_name_and_tags_change_by_keyboard_in_every_browser(
    tab: Any, edited: Any, visit: Callable[..., Any]
) -> None:
    """Renamed in the menu; the fleet in another browser shows the literal name immediately."""
    fleet = visit(edited)
    fleet.page.locator(f'[data-run="{RUN}"]').wait_for()
    for item, label, text in (
        ("Rename", "Name of the run", HOSTILE),
        ("Edit tags", "Tags, comma separated", f"x, {HOSTILE}, x"),
    ):
        tab.page.get_by_role("button", name="Run: name, tags").focus()
        tab.page.keyboard.press("Enter")
        tab.page.get_by_role("menuitem", name=item).focus()
        tab.page.keyboard.press("Enter")
        tab.page.get_by_label(label).fill(text)
        tab.page.keyboard.press("Enter")
        tab.page.locator(".pagehead form").wait_for(state="detached")
    row = fleet.page.locator(f'[data-run="{RUN}"]')
    row.get_by_text(HOSTILE).first.wait_for()
    assert fleet.page.locator("img").count() == tab.page.locator("img").count() == 0
    assert (stored(edited)["name"], stored(edited)["tags"]) == (HOSTILE, ["x", HOSTILE])
    change(edited, name=RUN, tags=[])


def test_a_deleted_run_shows_it_and_can_be_restored(tab: Any, edited: Any) -> None:
    """After a delete from its menu, a strip shows the deadline; Undo restores the run unchanged."""
    tab.page.get_by_role("button", name="Run: name, tags").click()
    tab.page.get_by_role("menuitem", name="Delete").click()
    tab.page.locator(".deleting", has_text="will be deleted").wait_for()
    assert stored(edited)["deletion_ms"]
    tab.page.get_by_role("button", name="Undo").click()
    tab.page.locator(".deleting").wait_for(state="hidden")
    assert stored(edited)["deletion_ms"] is None


@LONG
def test_selected_runs_are_deleted_and_restored_in_every_browser(
    edited: Any, visit: Callable[..., Any]
) -> None:
    """Deleted runs leave the other browser's fleet and are listed as deleted; Undo restores them."""
    tab, other = visit(edited), visit(edited)
    for one in (tab, other):
        one.page.get_by_label("Filter runs").fill("r_gone")
        one.page.locator('[data-run="r_gone3"]').wait_for()
    tab.page.get_by_label("Select all listed").check()
    tab.page.get_by_role("group", name="Actions on the selected runs").get_by_text("Delete").click()
    for one in (tab, other):
        one.page.locator("[data-run]").first.wait_for(state="detached")
    other.page.get_by_role("button", name=re.compile(r"Deleted \d")).click()
    other.page.locator('[data-run="r_gone2"]', has_text="will be deleted at").wait_for()
    tab.page.get_by_role("button", name="Undo").click()
    tab.page.wait_for_function("() => document.querySelectorAll('[data-run]').length === 3")


def test_a_reader_sees_no_editing_controls(edited: Any, visit: Callable[..., Any]) -> None:
    """A reader's page has neither menu nor editor."""
    asked = {"name": "reader", "scope": "read", "project": None}
    headers = {"authorization": f"Bearer {secret(edited)}"}
    made = httpx.post(f"{edited.base}/api/v1/tokens", json=asked, headers=headers).json()
    tab = visit(edited)
    tab.page.context.clear_cookies()
    tab.page.goto(f"{edited.base}/login?token={made['token']}")
    tab.open_run(RUN)
    tab.page.get_by_role("tab", name="Notes").click()
    tab.page.locator(".notes").first.wait_for()
    assert tab.page.get_by_role("button", name="Run: name, tags").count() == 0
    assert tab.page.locator(".notesbar button").count() == 0
