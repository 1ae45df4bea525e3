"""Settings: tokens shown once, notifications in this browser, server information; the header on a phone."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Launched, notify_at_once
from tests.matrix import LONG

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def launched(complete_chromium: Launched) -> Launched:
    """The headless shell has neither notifications nor push messages."""
    return complete_chromium


@pytest.fixture
def tab(tower_of_the_module: Any, visit: Callable[..., Any]) -> Any:
    """The settings page."""
    opened = visit(tower_of_the_module, None)
    opened.page.goto(f"{tower_of_the_module.base}/settings")
    opened.page.get_by_text("secret is shown once").wait_for()
    return opened


def test_a_token_is_shown_once_works_and_is_revoked(tab: Any, tower_of_the_module: Any) -> None:
    """Its secret is not on the page after a reload; after revocation it grants no access."""
    page = tab.page
    page.get_by_role("button", name="New token").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("night <b>shift</b>")
    dialog.get_by_label("Scope").select_option("read")
    dialog.get_by_role("button", name="Create").click()
    secret = page.locator(".secret").inner_text()
    headers = {"authorization": f"Bearer {secret}"}
    assert httpx.get(f"{tower_of_the_module.base}/api/v1/runs", headers=headers).status_code == 200
    page.reload()
    row = page.locator("tr", has_text="night <b>shift</b>").filter(has_text="read")
    row.get_by_role("button", name="Revoke").first.wait_for()
    assert secret not in page.content()
    row.get_by_role("button", name="Revoke").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    row.get_by_text("revoked").wait_for()
    page.get_by_label("Table of user actions").get_by_text("token.revoke").first.wait_for()
    assert httpx.get(f"{tower_of_the_module.base}/api/v1/runs", headers=headers).status_code == 401


@LONG
def test_a_missing_name_is_rejected_at_its_field(tab: Any) -> None:
    """A token without a name."""
    tab.page.get_by_role("button", name="New token").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Create").click()
    tab.page.locator('[data-field="name"][aria-invalid="true"]:focus').wait_for()


COUNT = """() => {
    const show = ServiceWorkerRegistration.prototype.showNotification;
    window.shown = 0;
    ServiceWorkerRegistration.prototype.showNotification = async function (...options) {
        await show.apply(this, options);
        window.shown += 1;
    };
}"""
"""Chromium may drop a notification that is shown while others are listed, so it is counted before."""
SHOWN = """() => navigator.serviceWorker.getRegistration()
    .then(registration => registration.getNotifications())
    .then(shown => shown.map(({ title, body }) => [title, body]))"""


@LONG
def test_the_browser_shows_notifications_after_permission(
    tab: Any, tower_of_the_module: Any, alerting: Callable[..., Any], eventually_true: Callable[..., Any]
) -> None:
    """The real permission is requested; a browser channel's notification of an incident is shown once, by any
    open page."""
    page = tab.page
    page.locator("[data-permission]").wait_for(state="attached")
    page.context.grant_permissions(["notifications"], origin=tower_of_the_module.base)
    page.reload()
    page.locator('[data-permission="granted"]').wait_for()
    tower_of_the_module.post("/channels", {"name": "pages", "kind": "browser"})
    notify_at_once(tower_of_the_module)
    page.goto(f"{tower_of_the_module.base}/compare")
    page.locator(".foot").get_by_text("live").wait_for()
    page.evaluate("navigator.serviceWorker.ready.then(() => null)")  # before, the page itself shows it
    page.evaluate(COUNT)
    with alerting(tower_of_the_module, "r_note"):
        eventually_true(lambda: page.evaluate("() => window.shown"), "the notification")
    ((title, body),) = page.evaluate(SHOWN)
    assert title == "nonfinite-loss: r_note"
    assert "NaN" in body or "non-finite" in body  # the alert may have been updated meanwhile


def test_the_theme_is_chosen_and_kept(tab: Any) -> None:
    """Dark with the button, also after a reload; the header's button shows it."""
    tab.page.get_by_role("button", name="Dark").click()
    tab.page.reload()
    expect(tab.page.locator("html")).to_have_attribute("data-theme", "dark")
    tab.page.get_by_label("Theme: dark").wait_for()


@LONG
def test_server_information_is_shown(tab: Any) -> None:
    """Storage, retention, ping and the state of the record path."""
    for text in ("SQLite,", "indefinitely", "none. Set ping_url", "ok: records are stored"):
        tab.page.get_by_text(text).first.wait_for()


@LONG
def test_times_in_the_audit_log_are_dates(tab: Any, tower_of_the_module: Any) -> None:
    """Not milliseconds."""
    silence = {"matchers": ['rule="x"'], "ends_ms": time.time() * 1000 + 3e6, "reason": "dated"}
    tower_of_the_module.post("/silences", silence)
    tab.page.reload()
    tab.page.get_by_text(re.compile(r"ends \d+ \w+ 20\d\d, .* reason dated")).wait_for()


@LONG
def test_connected_training_processes_are_counted(
    tab: Any, tower_of_the_module: Any, alerting: Callable[..., Any]
) -> None:
    """While one is connected."""
    with alerting(tower_of_the_module, "r_counted"):
        tab.page.reload()
        tab.page.get_by_text("1 training process connected").wait_for()


@LONG
def test_every_page_is_reached_from_the_header_of_a_phone(tab: Any, tower_of_the_module: Any) -> None:
    """Five pages at the bottom, and those of alerting above the inbox."""
    page = tab.page
    page.set_viewport_size({"width": 390, "height": 844})
    for name, there in (("Fleet", "/"), ("Compare", "/compare"), ("Alerts", "/alerts")):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        page.wait_for_url(tower_of_the_module.base + there)
    for name in ("Silences", "Routes", "Channels", "Deliveries", "Inbox"):
        page.get_by_role("navigation", name="Alerting").get_by_role("link", name=name).click()
        page.get_by_role("navigation", name="Alerting").locator(
            f"a[aria-current]:text-is('{name}')"
        ).wait_for()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
