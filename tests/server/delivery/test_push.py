"""Web push: from a step to the browser's push service, and what becomes of subscriptions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.matrix import LONG
from tests.server.delivery.conftest import AT_ONCE
from tests.server.delivery.test_sender import QUICK, QUICK_ENV
from tests.server.push_service import PushService, SubscribedBrowser, data_of, vapid
from tocsin.protocol import Finish
from tocsin_server.core.permissions import digest_of
from tocsin_server.notify import backoff
from tocsin_server.store import push_subscriptions
from tocsin_server.store.push_subscriptions import SubscriptionRow

Start = Callable[..., Any]


@pytest.fixture
def service() -> Iterator[PushService]:
    found = PushService()
    yield found
    found.close()


def subscribe(api: Any, service: PushService, name: str = "phone") -> SubscribedBrowser:
    """Subscribe a browser; with the first one, create a channel that gets everything immediately."""
    if not api.get("/push")["channels"]:
        assert api.ask("POST", "/channels", name="push", kind="push").status_code == 201
        assert api.ask("PUT", "/routes", **AT_ONCE).status_code == 200
    browser = service.browser()
    answer = api.ask("PUT", "/push/subscriptions", **browser.subscription, name=name)
    assert answer.status_code == 200, answer.text
    return browser


def fire(client: Any) -> None:
    client.acked(client.train([0, 1], loss=[1.0, math.nan]))


def test_an_alert_is_pushed_to_a_browser(
    run_server: Start, dial: Any, service: PushService, admin_api: Any, eventually: Any
) -> None:
    """What the lock screen shows, where a tap leads, and the number on the icon."""
    server = run_server(**QUICK)
    api = admin_api(server)
    browser = subscribe(api, service)
    fire(dial(server.base, "r1", server.token))
    eventually(lambda: service.received, "the push")
    (message,) = service.messages(browser)
    (incident,) = api.get("/incidents")["items"]
    assert message["title"].startswith("Critical: nonfinite-loss · ")
    assert "step 1" in message["body"]
    assert "First action: " in message["body"]
    assert (message["tag"], message["path"]) == (incident["id"], f"/incidents/{incident['id']}")
    assert (message["status"], message["open"]) == ("firing", 1)
    (request,) = service.requests(browser)
    assert vapid(request.headers["Authorization"])[1] == api.get("/push")["key"]


def test_the_end_replaces_the_notification_of_the_incident(
    run_server: Start, dial: Any, service: PushService, admin_api: Any, eventually: Any
) -> None:
    """The same tag, so the browser shows one notification; the same topic, so the push service keeps one."""
    server = run_server(**QUICK)
    browser = subscribe(admin_api(server), service)
    client = dial(server.base, "r1", server.token)
    fire(client)
    eventually(lambda: len(service.received) == 1, "the first push")
    client.send(Finish(0, time.time_ns(), records=2))
    eventually(lambda: len(service.received) == 2, "the second push")
    first, second = service.messages(browser)
    assert first["tag"] == second["tag"]
    assert (second["status"], second["open"]) == ("ended", 0)
    assert len({request.headers["Topic"] for request in service.requests(browser)}) == 1


def test_the_message_acknowledges_without_a_login(
    run_server: Start, dial: Any, service: PushService, admin_api: Any, eventually: Any
) -> None:
    """The service worker posts what the message contains."""
    server = run_server(**QUICK)
    api = admin_api(server)
    browser = subscribe(api, service)
    fire(dial(server.base, "r1", server.token))
    eventually(lambda: service.received, "the push")
    (message,) = service.messages(browser)
    form = {"content-type": "application/x-www-form-urlencoded", "origin": server.base}
    assert httpx.post(f"{server.base}/ack", content=message["ack"], headers=form).status_code == 200
    (incident,) = api.get("/incidents")["items"]
    assert incident["ack"] is not None


@pytest.mark.parametrize("status", [404, 410])
def test_a_browser_that_the_push_service_no_longer_knows_is_removed(
    run_server: Start, dial: Any, service: PushService, admin_api: Any, eventually: Any, status: int
) -> None:
    """It is not tried again. The other browser gets the message."""
    server, gone = run_server(**QUICK), PushService(answers=[status])
    try:
        api = admin_api(server)
        subscribe(api, gone, "old phone")
        subscribe(api, service, "phone")
        fire(dial(server.base, "r1", server.token))
        eventually(lambda: api.states() == ["sent"], "the delivery")
    finally:
        gone.close()
    assert [item["name"] for item in api.get("/push")["items"]] == ["phone"]
    (attempt,) = api.get("/deliveries")["items"][0]["attempts"]
    assert attempt["detail"] == "sent to 1 browser; 127.0.0.1: the browser is no longer subscribed"
    assert (len(gone.received), len(service.received)) == (1, 1)


def test_only_the_browser_that_failed_is_tried_again(
    run_server: Start,
    dial: Any,
    service: PushService,
    admin_api: Any,
    eventually: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its push service is busy at first; the other browser is not notified twice."""
    monkeypatch.setattr(backoff, "FIRST_S", 0.1)
    server, busy = run_server(**QUICK), PushService(answers=[503, 201])
    try:
        api = admin_api(server)
        subscribe(api, busy)
        subscribe(api, service)
        fire(dial(server.base, "r1", server.token))
        eventually(lambda: api.states() == ["sent"], "the delivery")
    finally:
        busy.close()
    assert (len(busy.received), len(service.received)) == (2, 1)
    assert api.get("/deliveries")["items"][0]["attempts"][-1]["detail"] == "sent to 2 browsers"


def test_a_browser_is_not_notified_after_its_login_ended(
    run_server: Start, dial: Any, service: PushService, admin_api: Any, eventually: Any
) -> None:
    """Logging out on another page is enough; the browser of the other login is notified."""
    server = run_server(**QUICK)
    subscribe(admin_api(server), service)
    out = service.browser()
    with httpx.Client(base_url=server.base, headers={"origin": server.base}) as visitor:
        visitor.get("/login", params={"token": server.token})
        answer = visitor.put("/api/v1/push/subscriptions", json=out.subscription)
        assert answer.status_code == 200, answer.text
        visitor.post("/logout")
    fire(dial(server.base, "r1", server.token))
    eventually(lambda: service.received, "the push")
    eventually(lambda: admin_api(server).states() == ["sent"], "the end of the delivery")
    assert service.requests(out) == []


def test_the_key_stays_the_same_across_restarts(run_server: Start, tmp_path: Path, admin_api: Any) -> None:
    """Otherwise every browser would have to subscribe again."""
    keys = set()
    for _ in range(2):
        server = run_server(tmp_path)
        keys.add(admin_api(server).get("/push")["key"])
        server.stop()
    (key,) = keys
    assert len(data_of(key)) == 65


def test_a_private_address_is_not_called(run_server: Start, service: PushService, admin_api: Any) -> None:
    """Neither when a browser subscribes nor afterwards, should the setting change."""
    server = run_server()
    api = admin_api(server)
    browser = service.browser()
    answer = api.ask("PUT", "/push/subscriptions", **browser.subscription)
    assert (answer.status_code, answer.json()["subject"]) == (422, "endpoint")
    secure = browser.endpoint.replace("http:", "https:")
    answer = api.ask("PUT", "/push/subscriptions", **browser.subscription | {"endpoint": secure})
    assert answer.json()["expected"] == "a host outside the server's own network"
    keys = browser.subscription["keys"]
    row = SubscriptionRow(
        endpoint=browser.endpoint, public_key=keys["p256dh"], auth=keys["auth"], name="", token_id="admin",
        token_name="", digest=digest_of(server.token), session=None, created_ns=1, confirmed_ns=1,
    )  # fmt: skip
    server.services.writer.call(lambda it: push_subscriptions.put_subscription(it, row)).result(10)
    found = api.ask("POST", f"/push/subscriptions/{row.id}/test").json()
    assert not found["ok"]
    assert "expected a public address" in found["detail"]
    assert service.received == []


def test_the_number_of_browsers_is_limited(
    run_server: Start, service: PushService, admin_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A known browser can always confirm its subscription."""
    monkeypatch.setattr(push_subscriptions, "MOST_PER_TOKEN", 2)
    api = admin_api(run_server(**QUICK))
    first = subscribe(api, service)
    subscribe(api, service)
    answer = api.ask("PUT", "/push/subscriptions", **service.browser().subscription)
    assert (answer.status_code, answer.json()["subject"]) == (422, "subscriptions")
    assert api.ask("PUT", "/push/subscriptions", **first.subscription).status_code == 200
    assert len(api.get("/push")["items"]) == 2


def test_only_its_user_or_an_admin_removes_a_browser(
    run_server: Start, service: PushService, admin_api: Any
) -> None:
    """A reader can subscribe; another reader can neither unsubscribe that browser nor send to it."""
    api = admin_api(run_server(**QUICK))
    made = [api.ask("POST", "/tokens", name=name, scope="read").json()["token"] for name in ("a", "b")]
    browser = service.browser()

    def ask(token: str, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"}
        return httpx.request(
            method, f"{api.base}/api/v1/push/subscriptions{path}", headers=headers, json=body
        )

    place = f"/{ask(made[0], 'PUT', '', browser.subscription).json()['id']}"
    assert ask(made[1], "DELETE", place).status_code == 403
    assert ask(made[1], "POST", f"{place}/test").status_code == 403
    assert ask(made[0], "POST", f"{place}/test").json() == {"ok": True, "detail": "sent to 1 browser"}
    assert service.messages(browser)[0]["title"] == "tocsin: test"
    assert api.ask("DELETE", f"/push/subscriptions{place}").status_code == 204
    assert api.get("/push")["items"] == []


def test_no_response_and_no_log_contains_the_address_of_a_browser(
    run_server: Start, admin_api: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever knows it could send to the browser's push service."""
    api, service = admin_api(run_server(**QUICK)), PushService(answers=[400, 410])
    browser = SubscribedBrowser(f"{service.url}/hidden-hidden")
    try:
        made = api.ask("PUT", "/push/subscriptions", **browser.subscription)
        place = f"/push/subscriptions/{made.json()['id']}"
        answers = [made, api.ask("GET", "/push"), *(api.ask("POST", f"{place}/test") for _ in range(2))]
    finally:
        service.close()
    assert not [answer for answer in answers if "hidden-hidden" in answer.text]
    assert "hidden-hidden" not in caplog.text


@LONG
def test_a_push_service_that_hangs_does_not_delay_the_end_of_the_server(
    start_server: Start, dial: Any, admin_api: Any, eventually: Any
) -> None:
    """The notification stays in the outbox."""
    server, stuck = start_server(**QUICK_ENV | {"TOCSIN_NOTIFY_TIMEOUT_S": "300"}), PushService(["hang"])
    try:
        subscribe(admin_api(server), stuck)
        fire(dial(server.base, "r1", server.client_token))
        eventually(lambda: stuck.received, "the push")
        begun = time.monotonic()
        server.stop()
        assert time.monotonic() - begun < 20
    finally:
        stuck.close()
