"""A browser's queue is bounded, and its messages are validated."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tocsin_server.http.live.subscriber import MOST_VIEWS, Subscriber, SubscriptionError


def subscribe(number: int, **view: Any) -> str:
    return json.dumps({"type": "subscribe", "id": number, **view})


async def drained(subscriber: Subscriber) -> list[str]:
    found = []
    while subscriber.waiting_bytes:
        found.append(await subscriber.next())
    return found


def test_a_slow_browser_gets_resync() -> None:
    """Above its limit, a queue is emptied, and each view gets resync once."""
    subscriber = Subscriber(limit_bytes=1000)
    subscriber.handle(subscribe(1, view="fleet"))
    subscriber.handle(subscribe(2, view="run", run="r"))
    for _ in range(7):
        subscriber.put("x" * 100)
    assert asyncio.run(drained(subscriber)) == ['{"type":"resync","id":1}', '{"type":"resync","id":2}']
    assert subscriber.dropped == 7
    assert list(subscriber.views) == [1]


def test_after_resync_the_fleet_is_whole_again() -> None:
    """What the browser had is older than its cursor says: messages were dropped since."""
    subscriber = Subscriber(limit_bytes=1000)
    subscriber.handle(subscribe(1, view="fleet", cursor="a-1"))
    view = subscriber.views[1]
    before = view.since
    subscriber.resync(view)
    assert (before, view.since, view.initialized) == ("a-1", None, False)


def test_messages_come_out_in_order() -> None:
    """First in, first out; a sender may wait for a message."""

    async def scene() -> list[str]:
        subscriber = Subscriber(1000)
        waiting = asyncio.create_task(subscriber.next())
        await asyncio.sleep(0)
        subscriber.put("a")
        subscriber.put("b")
        return [await waiting, await subscriber.next()]

    assert asyncio.run(scene()) == ["a", "b"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no json",
        "[" * 100_000,
        "[]",
        '{"type":"subscribe"}',
        subscribe(1, view="other"),
        subscribe(1, view="run"),
        subscribe(1, view="run", run="r", cursor="x"),
        subscribe(1, view="run", run="r", cursor=True),
        subscribe(1, view="run", run="r", names="loss"),
        subscribe(1, view="run", run="r", names=[1]),
        subscribe(1, view="run", run="r", names=["n"] * 2000),
    ],
)
def test_a_message_that_is_none_is_rejected(text: str) -> None:
    """Anything but a documented subscription is rejected with a description and changes nothing."""
    subscriber = Subscriber(1000)
    with pytest.raises(SubscriptionError, match="expected"):
        subscriber.handle(text)
    assert subscriber.views == {}


def test_views_are_bounded() -> None:
    """The views of a browser are limited; one that ends makes room."""
    subscriber = Subscriber(1000)
    for number in range(MOST_VIEWS):
        subscriber.handle(subscribe(number, view="fleet"))
    with pytest.raises(SubscriptionError, match=str(MOST_VIEWS)):
        subscriber.handle(subscribe(MOST_VIEWS, view="fleet"))
    subscriber.handle('{"type":"unsubscribe","id":0}')
    subscriber.handle(subscribe(MOST_VIEWS, view="fleet"))
