"""What open pages hear of deliveries: each notification of a browser channel, and how the channels do.

The first at once, after the commit that marks it as sent; the second whenever it changes. Both are
messages of the live socket; the queries ``/notifications`` and ``/health`` are the truth.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from tocsin_server.core import exact_json
from tocsin_server.runs.pubsub import Hub
from tocsin_server.store.notification_config import ChannelRow
from tocsin_server.store.outbox import SENT, Notification
from tocsin_server.store.periodic_jobs import PeriodicJob

LOOK_S = 5.0
"""The outbox is looked at so often, besides after every attempt: other servers send from it too."""
PAUSE_S = 0.2
"""But not more often than this, however many attempts are made."""
NAME = "deliveries"
BROWSER = "browser"
NAMED = 3
"""Channels in trouble that are named; the others are counted."""


def note_of(item: Notification) -> dict[str, Any]:
    """A notification as pages show it: BrowserNote of docs/reference/http-api.md."""
    return {
        "id": item.id,
        "kind": item.kind,
        "title": item.title,
        "created_ms": item.created_ns / 1e6,
        "reason": item.body["reason"],
        "alerts": item.body["alerts"],
        "runs": item.body.get("runs", []),
    }


def trouble(failing: Sequence[str], errors: Mapping[str, str]) -> str:
    """What is wrong with deliveries in a sentence, for the head of every page; empty: nothing."""
    reported = [f"{name}: {errors[name]}" if errors.get(name) else name for name in failing[:NAMED]]
    more = f", and {len(failing) - NAMED} more" if len(failing) > NAMED else ""
    return f"Notifications are not delivered by {'; '.join(reported)}{more}" if reported else ""


class BrowserNotifier:
    """``look`` reads the outbox (it blocks); ``attempts`` counts by channel, kind and outcome."""

    def __init__(self, hub: Hub, look: Callable[[], dict[str, Any]], work: PeriodicJob | None = None) -> None:
        self._work = work or PeriodicJob(NAME)
        self.newest: dict[str, Any] = {"waiting": 0, "failed": 0, "failing": [], "trouble": ""}
        """What ``look`` said last."""
        self.attempts: Counter[tuple[str, str, str]] = Counter()
        self._hub = hub
        self._look = look
        self._event = asyncio.Event()

    def settled(self, channel: ChannelRow, item: Notification, outcome: str) -> None:
        """An attempt came to its end, and that is durable. Call it on the event loop."""
        self.attempts[channel.name, channel.kind, outcome] += 1
        if outcome == SENT and channel.kind == BROWSER:
            self._hub.broadcast(exact_json.dumps({"type": "notification", "note": note_of(item)}))
        self._event.set()

    def refresh(self) -> None:
        """The outbox may have changed."""
        self._event.set()

    async def work(self) -> None:
        """Tells how deliveries do whenever that changes, until it is cancelled."""
        while True:
            self._event.clear()
            await self._work.once(self._refresh)
            await asyncio.sleep(PAUSE_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._event.wait(), LOOK_S)

    async def _refresh(self) -> None:
        self.newest = reported = await asyncio.to_thread(self._look)
        self._hub.broadcast_deliveries(exact_json.dumps({"type": "deliveries", **reported}))
