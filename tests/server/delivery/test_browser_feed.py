"""Open pages receive notifications and delivery failures by push."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tocsin_server.delivery.browser_feed import trouble

Start = Callable[..., Any]
QUICK = {"notify_private_addresses": True, "notify_poll_s": 0.05}
AT_ONCE = {"routes": [{"name": "all", "group_wait_s": 0}]}


def fire(client: Any) -> None:
    client.acked(client.train([0, 1], loss=[1.0, math.nan]))


def test_an_open_page_gets_each_notification(
    run_server: Start, dial: Any, watch: Any, admin_api: Any
) -> None:
    """A notification is pushed as soon as it is stored, and equals the item of the query."""
    server = run_server(**QUICK)
    api = admin_api(server)
    api.ask("POST", "/channels", name="pages", kind="browser")
    api.ask("PUT", "/routes", **AT_ONCE)
    page = watch(server.base, server.token)
    page.receive("heartbeat")
    fire(dial(server.base, "r1", server.token))
    note = page.receive("notification")["note"]
    assert note["alerts"][0]["rule"] == "nonfinite-loss"
    assert api.get("/notifications")["items"] == [note]


def test_pages_show_failing_and_recovered_deliveries(
    run_server: Start, dial: Any, watch: Any, admin_api: Any, receive: Any
) -> None:
    """Pages get the channel and the reason; a page that is opened later gets them immediately."""
    server, receiver = run_server(**QUICK), receive(404, 200)
    api = admin_api(server)
    page = watch(server.base, server.token)
    assert page.receive("deliveries")["trouble"] == ""
    api.hook(receiver.url, "phone")
    fire(dial(server.base, "r1", server.token))
    reported = page.receive("deliveries", lambda message: message["failed"] == 1)
    assert reported["failing"] == ["phone"]
    assert reported["trouble"] == "Notifications are not delivered by phone: 404 Not Found"
    late = watch(server.base, server.token)
    assert late.receive("deliveries") == reported
    (item,) = api.get("/deliveries")["items"]
    api.ask("POST", f"/deliveries/{item['id']}/retry")
    page.receive("deliveries", lambda message: message["failing"] == [] and message["waiting"] == 0)


def test_problems_of_many_channels_are_one_sentence() -> None:
    """The first three channels by name and reason, the others as a count; empty if all work."""
    assert trouble([], {}) == ""
    text = trouble(["a", "b", "c", "d", "e"], {"a": "503"})
    assert text == "Notifications are not delivered by a: 503; b; c, and 2 more"
