"""Silences: create with a preview, reject with an error at the field, end and undo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
REASON = "maintenance <img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def alerting_tower(tower_of_the_module: Any, alerting: Callable[..., Any]) -> Iterator[Any]:
    """A server with one run with an alert."""
    with alerting(tower_of_the_module, "r_quiet"):
        yield tower_of_the_module


@pytest.fixture
def tab(alerting_tower: Any, visit: Callable[..., Any]) -> Any:
    """The silences page."""
    opened = visit(alerting_tower, None)
    opened.page.goto(f"{alerting_tower.base}/silences")
    opened.page.get_by_role("heading", name="Silences").wait_for()
    return opened


def make(page: Any, matcher: str, reason: str) -> Any:
    """Create a silence by keyboard; return the article that shows it."""
    page.get_by_label("Silences", exact=True).locator("article, .pad").first.wait_for()
    page.keyboard.press("n")
    page.get_by_label("Matchers").fill(matcher)
    page.get_by_label("Reason").fill(reason)
    page.get_by_role("dialog").get_by_role("button", name="Silence").click()
    made = page.get_by_role("article", name=f"Silence: {reason}")
    made.wait_for()
    return made


def test_a_silence_is_created_edited_expired_and_restored(tab: Any) -> None:
    """The preview lists the matching alerts; hostile text in the reason is shown literally; Undo
    restores it."""
    page = tab.page
    page.get_by_role("button", name="New silence").click()
    page.get_by_label("Matchers").fill('run_id="r_quiet"')
    page.get_by_text("Matches 1 open alert of 1").wait_for()
    page.keyboard.press("Escape")
    made = make(page, 'run_id="r_quiet"', REASON)
    made.get_by_text("1 open alert").wait_for()
    made.get_by_role("button", name="Edit").click()
    page.get_by_label("Reason").fill("longer")
    page.get_by_role("button", name="7 d").click()
    page.get_by_role("button", name="Save").click()
    longer = page.get_by_role("article", name="Silence: longer")
    longer.get_by_text("7 d left").wait_for()
    longer.get_by_role("button", name="Expire").click()
    longer.wait_for(state="detached")
    page.get_by_role("button", name="Undo").click()
    longer.wait_for()
    assert page.locator("img").count() == 0
    longer.get_by_role("button", name="Expire").click()
    page.get_by_role("button", name="Expired").click()
    longer.get_by_text("expired", exact=True).wait_for()


@LONG
def test_errors_are_shown_at_their_fields(tab: Any) -> None:
    """An invalid matcher, then no reason: each error is at its field, which gets the focus."""
    page = tab.page
    page.get_by_role("button", name="New silence").click()
    page.get_by_label("Matchers").fill("no matcher")
    page.get_by_label("Reason").fill("x")
    page.get_by_role("dialog").get_by_role("button", name="Silence").click()
    page.locator('textarea[aria-invalid="true"]:focus').wait_for()
    page.get_by_role("alert").get_by_text("a matcher such as").wait_for()
    page.get_by_label("Matchers").fill('rule="x"')
    page.get_by_label("Reason").fill("")
    page.get_by_role("dialog").get_by_role("button", name="Silence").click()
    page.locator('input[aria-invalid="true"]:focus').wait_for()
    page.get_by_role("alert").get_by_text("Enter a reason").wait_for()


@LONG
def test_a_link_of_a_message_opens_the_form_with_its_incident(tab: Any) -> None:
    """It is shown for confirmation, and the address can be reloaded without it."""
    base = tab.page.url.split("/silences")[0]
    tab.page.goto(f"{base}/silences?new=&matcher=incident%3D%22r.f.1%22")
    expect(tab.page.get_by_label("Matchers")).to_have_value('incident="r.f.1"')
    assert "matcher" not in tab.page.url
