"""Channels: create, reject with an error at the field, test, edit without secrets, delete and undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
SECRET = "https://1.1.1.1/hidden-hidden"


@pytest.fixture
def tab(tower_of_the_module: Any, visit: Callable[..., Any]) -> Any:
    """The channels page."""
    opened = visit(tower_of_the_module, None)
    opened.page.goto(f"{tower_of_the_module.base}/channels")
    opened.page.get_by_label("Channels", exact=True).locator("article, .healthy").first.wait_for()
    return opened


def make(page: Any, name: str, kind: str, url: str = "") -> Any:
    """Create a channel with the form; return the article that shows it."""
    page.get_by_role("button", name="New channel").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_label("Kind").select_option(kind)
    if url:
        dialog.get_by_label("url").fill(url)
    dialog.get_by_role("button", name="Create").click()
    return page.get_by_role("article", name=f"Channel {name}", exact=True)


@LONG
def test_a_forbidden_address_is_rejected_at_its_field(tab: Any) -> None:
    """An address in the server's own network, and a scheme that is not allowed, are rejected at the field."""
    make(tab.page, "inside", "webhook", "http://127.0.0.1:9/x")
    tab.page.get_by_text("outside the server's own network").wait_for()
    tab.page.locator('[data-field="config.url"][aria-invalid="true"]:focus').wait_for()
    tab.page.get_by_label("Kind").select_option("apprise")
    tab.page.get_by_label("url").fill("json://127.0.0.1/x")
    tab.page.get_by_role("button", name="Create").click()
    tab.page.get_by_text("an apprise address with one of the schemes").wait_for()


def test_an_empty_form_names_the_field_without_asking_the_server(tab: Any) -> None:
    """The server would reject it, and the browser would log that."""
    sent: list[str] = []
    tab.page.on("request", lambda request: sent.append(request.method))
    make(tab.page, "without an address", "webhook")
    field = tab.page.locator('[data-field="config.url"][aria-invalid="true"]:focus')
    field.wait_for()
    assert "POST" not in sent


def test_a_secret_is_never_shown_again(tab: Any, tower_of_the_module: Any) -> None:
    """A secret is shown neither in the list nor in the form, and is kept if its field is left empty."""
    channel = make(tab.page, "secret one", "webhook", SECRET)
    channel.get_by_text("url ***").wait_for()
    tab.page.reload()
    channel.get_by_role("button", name="Edit").click()
    dialog = tab.page.get_by_role("dialog")
    expect(dialog.get_by_label("url")).to_have_value("")
    dialog.get_by_label("Limit per hour").fill("7")
    dialog.get_by_role("button", name="Save").click()
    channel.get_by_text("at most 7 per hour").wait_for()
    assert "hidden-hidden" not in tab.page.content()
    stored = tower_of_the_module.get("/channels")["items"]
    assert next(one["config"] for one in stored if one["name"] == "secret one") == {"url": "***"}


def test_a_test_shows_its_result(tab: Any) -> None:
    """It succeeds with a browser channel, and fails with an address that does not exist."""
    kept = make(tab.page, "pages", "browser")
    kept.get_by_role("button", name="Test").click()
    kept.get_by_text("Test sent").wait_for()
    lost = make(tab.page, "lost", "webhook", "https://nobody.invalid/x")
    lost.get_by_role("button", name="Test").click()
    lost.get_by_text("The test failed").wait_for()


@LONG
def test_undo_restores_a_deleted_channel_with_its_secret(tab: Any, tower_of_the_module: Any) -> None:
    """Undo within its time. Without it, the channel is deleted when the page is left."""
    channel = make(tab.page, "short-lived", "webhook", SECRET)
    channel.get_by_role("button", name="Delete").click()
    channel.wait_for(state="detached")
    tab.page.get_by_role("button", name="Undo").click()
    channel.wait_for()

    def stored() -> list[tuple[bool, Any]]:
        items = tower_of_the_module.get("/channels")["items"]
        return [(one["enabled"], one["config"]) for one in items if one["name"] == "short-lived"]

    tab.until(stored, [(True, {"url": "***"})])
    channel.get_by_role("button", name="Delete").click()
    tab.page.get_by_role("button", name="Dismiss").click()
    gone = """async () => { const answer = await fetch("/api/v1/channels");
        return (await answer.json()).items.every(({ name }) => name !== "short-lived"); }"""
    tab.page.wait_for_function(gone)


@LONG
def test_without_a_channel_a_kind_needs_only_its_address(tower: Any, visit: Callable[..., Any]) -> None:
    """A click on a kind opens its form with a name, and with the focus in the field that is missing."""
    page = visit(tower, None).page
    page.goto(f"{tower.base}/channels")
    page.get_by_role("button", name="Webhook (signed JSON)").click()
    page.locator('[data-field="config.url"]:focus').wait_for()
    page.keyboard.type("https://1.1.1.1/x")
    page.keyboard.press("Enter")
    page.get_by_role("article", name="Channel webhook", exact=True).wait_for()
