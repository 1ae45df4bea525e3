"""Web push in a real Chromium, with a push service of the tests instead of its vendor's.

The server encrypts and sends to the push service. What arrives there is decrypted and given to Chromium's
service worker as its vendor's push service would, while no page of tocsin is open.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import CDPSession, Worker

from tests.browser.conftest import Launched, notify_at_once
from tests.conftest import tower_in, wait_for
from tests.matrix import LONG
from tests.server.push_service import PushService

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

VENDOR = """([subscription, fails]) => {
    let current = null;
    const made = {
        ...subscription, options: { userVisibleOnly: true }, toJSON: () => subscription,
        unsubscribe: async () => { current = null; return true; },
    };
    PushManager.prototype.getSubscription = async () => current;
    PushManager.prototype.subscribe = async ({ applicationServerKey: key }) => {
        if (fails) throw new Error(fails);
        const bytes = atob(key.replaceAll("-", "+").replaceAll("_", "/"));
        made.options.applicationServerKey = Uint8Array.from(bytes, (one) => one.charCodeAt(0)).buffer;
        return (current = made);
    };
}"""
"""What the browser's vendor does: here, it refers to the push service of the test."""
SHOWN = """() => self.registration.getNotifications().then((found) => found.map(
    ({ title, body, tag, data, actions }) => ({ title, body, tag, data, actions })))"""
COUNT = """() => {
    const show = self.registration.showNotification.bind(self.registration);
    self.shown = 0;
    self.registration.showNotification = async (...options) => { await show(...options); self.shown += 1; };
}"""
"""Chromium may drop a notification that is shown while others are listed, so it is counted before."""
CLICK = """async (action) => {
    self.opened = [];
    self.clients.openWindow = async (address) => void self.opened.push(address);
    const [notification] = await self.registration.getNotifications();
    const waiting = [];
    const event = new NotificationEvent("notificationclick", { notification, action });
    event.waitUntil = (work) => waiting.push(work);
    self.dispatchEvent(event);
    await Promise.all(waiting);
    return self.opened;
}"""


@pytest.fixture(scope="module")
def launched(complete_chromium: Launched) -> Launched:
    """The headless shell has neither notifications nor push messages."""
    return complete_chromium


@pytest.fixture(scope="module")
def tower(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server that may call the push service of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOCSIN_NOTIFY_PRIVATE_ADDRESSES", "true")
        patch.setenv("TOCSIN_NOTIFY_POLL_S", "0.05")
        with tower_in(tmp_path_factory.mktemp("tower")) as running:
            yield running


@pytest.fixture
def service() -> Iterator[PushService]:
    found = PushService()
    yield found
    found.close()


@pytest.fixture
def settings(tower: Any, service: PushService, visit: Callable[..., Any]) -> Callable[..., Any]:
    """``settings(fails="")``: the settings page of a browser that may use the push service."""

    def open_page(fails: str = "", *, allowed: bool = True) -> Any:
        page = visit(tower).page
        if allowed:
            page.context.grant_permissions(["notifications"], origin=tower.base)
        subscription = service.browser().subscription
        page.add_init_script(f"({VENDOR})({json.dumps([subscription, fails])})")
        page.goto(f"{tower.base}/settings")
        page.locator("[data-push=off]").wait_for()
        return page

    return open_page


def test_a_browser_subscribes_gets_a_test_and_unsubscribes(
    tower: Any, service: PushService, settings: Callable[..., Any]
) -> None:
    """With one click each. An admin's first browser adds the channel."""
    page = settings()
    row = page.locator("[data-push]")
    row.get_by_role("button", name="Subscribe this browser").click()
    page.locator("[data-push=on]").get_by_text("Sent by Web push").wait_for()
    row.get_by_role("button", name="Send a test").click()
    row.get_by_role("status").get_by_text("Sent").wait_for()
    (message,) = service.messages(service.browsers[-1])
    assert (message["title"], message["path"]) == ("tocsin: test", "/settings")
    row.get_by_role("button", name="Unsubscribe").click()
    page.locator("[data-push=off]").get_by_text("Unsubscribed").wait_for()
    assert tower.get("/push")["items"] == []


@LONG
def test_a_browser_whose_vendor_refuses_says_so(settings: Callable[..., Any]) -> None:
    """As in a private window, or while the vendor's push service is blocked."""
    page = settings("Registration failed - push service error")
    page.get_by_role("button", name="Subscribe this browser").click()
    page.locator("[data-push=off]").get_by_text("Registration failed - push service error").wait_for()


@LONG
def test_a_browser_without_permission_says_what_to_do(settings: Callable[..., Any]) -> None:
    """There is no button that cannot work."""
    page = settings(allowed=False)
    page.context.clear_permissions()
    page.add_init_script("Object.defineProperty(Notification, 'permission', { value: 'denied' })")
    page.reload()
    page.locator("[data-push=off]").get_by_text("blocked for this address").wait_for()
    assert page.get_by_role("button", name="Subscribe this browser").count() == 0


def ask(tower: Any, method: str, path: str, body: Any = None) -> Any:
    """Return the JSON of a request to the API, if it has one."""
    headers = {"authorization": f"Bearer {tower.token}"}
    answer = httpx.request(method, f"{tower.base}/api/v1{path}", headers=headers, json=body, timeout=60)
    return answer.raise_for_status() and answer.content and answer.json()


@pytest.fixture(scope="module")
def pushed(tower: Any, alerting: Callable[..., Any], eventually_true: Callable[..., Any]) -> str:
    """The message of a real training's alert, decrypted after it arrived at the push service."""
    service = PushService()
    browser = service.browser()
    channel = tower.post("/channels", {"name": "phones", "kind": "push"})
    subscription = ask(tower, "PUT", "/push/subscriptions", browser.subscription)
    notify_at_once(tower)
    with alerting(tower, "r_push", "pushed"):
        eventually_true(lambda: service.received, "the push")
    found = browser.decrypted(service.received[0].body).decode()
    ask(tower, "DELETE", f"/channels/{channel['id']}")
    ask(tower, "DELETE", f"/push/subscriptions/{subscription['id']}")
    service.close()
    return found


class ClosedApp:
    """The browser after the last page of tocsin was closed."""

    def __init__(self, worker: Worker, devtools: CDPSession, base: str) -> None:
        self.worker = worker
        self._devtools, self._base = devtools, base
        self._ids: list[str] = []
        worker.evaluate(COUNT)
        devtools.on("ServiceWorker.workerRegistrationUpdated", self._registered)
        devtools.send("ServiceWorker.enable")
        while not self._ids:  # events are handled during calls
            worker.evaluate("() => new Promise((done) => setTimeout(done, 10))")

    def _registered(self, found: Any) -> None:
        here = [each for each in found["registrations"] if each["scopeURL"] == f"{self._base}/"]
        self._ids += [each["registrationId"] for each in here if not each["isDeleted"]]

    def deliver(self, *messages: str) -> Any:
        """Deliver messages as the vendor's push service does; return the notifications that are shown."""
        where = {"origin": f"{self._base}/", "registrationId": max(self._ids, key=int)}
        wanted = self.worker.evaluate("() => self.shown") + len(messages)
        for message in messages:
            self._devtools.send("ServiceWorker.deliverPushMessage", {**where, "data": message})
        wait_for(lambda: self.worker.evaluate("() => self.shown") == wanted, "the notifications")
        return self.worker.evaluate(SHOWN)

    def click(self, action: str = "") -> list[str]:
        """Click a part of the notification; return the addresses that were opened."""
        opened: list[str] = self.worker.evaluate(CLICK, action)
        return opened


@pytest.fixture
def closed_app(tower: Any, visit: Callable[..., Any], launched: Launched) -> Iterator[ClosedApp]:
    """Closed after a visit, and logged out of: nothing that follows needs the page or the login."""
    context = launched.profile
    page = visit(tower).page
    context.grant_permissions(["notifications"], origin=tower.base)
    page.evaluate("() => navigator.serviceWorker.ready.then(() => 0)")
    worker = [each for each in context.service_workers if each.url.startswith(tower.base)][-1]
    page.close()
    context.clear_cookies()
    devtools = context.new_cdp_session(context.pages[0])
    yield ClosedApp(worker, devtools, tower.base)
    devtools.detach()


def test_a_push_is_shown_while_no_page_is_open(closed_app: ClosedApp, pushed: str, tower: Any) -> None:
    """What happened since when, with the incident as its tag; a click opens the incident."""
    (shown,) = closed_app.deliver(pushed)
    (incident,) = tower.get("/incidents", run="r_push")["items"]
    assert ": nonfinite-loss · pushed" in shown["title"]
    assert "since step 20" in shown["body"]
    assert shown["tag"] == incident["id"]
    assert [each["title"] for each in shown["actions"]] == ["Open", "Acknowledge"]
    assert closed_app.click() == [f"{tower.base}/incidents/{incident['id']}"]


@LONG
def test_the_icon_shows_the_number_of_open_incidents(closed_app: ClosedApp, pushed: str) -> None:
    closed_app.worker.evaluate("() => { navigator.setAppBadge = async (count) => { self.badge = count; }; }")
    closed_app.deliver(json.dumps(json.loads(pushed) | {"open": 3}))
    assert closed_app.worker.evaluate("() => self.badge") == 3


@LONG
def test_a_click_uses_the_open_page(
    closed_app: ClosedApp, pushed: str, tower: Any, visit: Callable[..., Any]
) -> None:
    """It shows the incident without a reload."""
    page = visit(tower, None).page
    page.goto(f"{tower.base}/settings")
    page.get_by_role("button", name="New token").wait_for()
    page.evaluate("() => { window.neverReloaded = true; }")
    closed_app.deliver(pushed)
    closed_app.worker.evaluate("() => { WindowClient.prototype.focus = async () => {}; }")
    assert closed_app.click() == []
    page.wait_for_url(tower.base + json.loads(pushed)["path"])
    assert page.evaluate("() => window.neverReloaded")


def test_an_escalation_replaces_the_notification(closed_app: ClosedApp, pushed: str) -> None:
    """There is one notification per incident; another incident has its own."""
    closed_app.deliver(pushed)
    worse = json.loads(pushed) | {"title": "Critical: it got worse"}
    (shown,) = closed_app.deliver(json.dumps(worse))
    assert shown["title"] == "Critical: it got worse"
    assert len(closed_app.deliver(json.dumps(worse | {"title": "another", "tag": "r_2.f.0"}))) == 2


def test_no_notification_of_a_burst_is_lost(closed_app: ClosedApp, pushed: str) -> None:
    """Incidents of twelve runs at once."""
    burst = [json.dumps(json.loads(pushed) | {"tag": f"r_{number}.f.0"}) for number in range(12)]
    assert len(closed_app.deliver(*burst)) == 12


def test_the_notification_acknowledges_the_incident(closed_app: ClosedApp, pushed: str, tower: Any) -> None:
    """Without a page and without a login."""
    closed_app.deliver(pushed)
    assert closed_app.click("acknowledge") == []
    (incident,) = tower.get("/incidents", run="r_push")["items"]
    assert incident["ack"] is not None
    assert closed_app.worker.evaluate(SHOWN) == []


@LONG
def test_an_expired_link_is_reported(closed_app: ClosedApp, pushed: str) -> None:
    """The notification stays and says so."""
    closed_app.deliver(json.dumps(json.loads(pushed) | {"ack": "alert=x&until=1&signature=0"}))
    closed_app.click("acknowledge")

    def titles() -> list[str]:
        return [shown["title"] for shown in closed_app.worker.evaluate(SHOWN)]

    wait_for(lambda: any(title.startswith("Not acknowledged: ") for title in titles()), "the report")
    assert len(titles()) == 1
