"""Send open pages each browser notification, and the delivery status.

Notifications are sent immediately after the commit that marks them as sent, the status whenever it changes.
Both are messages of the live socket; the endpoints ``/notifications`` and ``/health`` are authoritative.
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
"""Interval of checking the outbox, besides after each attempt, because other servers send from it too."""
PAUSE_S = 0.2
"""Minimum interval between checks, regardless of the number of attempts."""
NAME = "deliveries"
BROWSER = "browser"
NAMED = 3
"""Number of failing channels that are named; the others are counted."""


def note_of(item: Notification) -> dict[str, Any]:
    """Return a notification as pages show it: BrowserNote of docs/reference/http-api.md."""
    return {
        "id": item.id,
        "kind": item.kind,
        "title": item.title,
        "created_ms": item.created_ns / 1e6,
        "reason": item.body["reason"],
        "alerts": item.body["alerts"],
    }


def trouble(failing: Sequence[str], errors: Mapping[str, str]) -> str:
    """Return one sentence on delivery problems for the header of every page, or "" if there are none."""
    reported = [f"{name}: {errors[name]}" if errors.get(name) else name for name in failing[:NAMED]]
    more = f", and {len(failing) - NAMED} more" if len(failing) > NAMED else ""
    return f"Notifications are not delivered by {'; '.join(reported)}{more}" if reported else ""


class BrowserNotifier:
    """Publish deliveries to pages. ``look`` reads the outbox and blocks; ``attempts`` counts by channel, kind
    and outcome.
    """

    def __init__(self, hub: Hub, look: Callable[[], dict[str, Any]], work: PeriodicJob | None = None) -> None:
        self._work = work or PeriodicJob(NAME)
        self.newest: dict[str, Any] = {"waiting": 0, "failed": 0, "failing": [], "trouble": ""}
        """Last result of ``look``."""
        self.attempts: Counter[tuple[str, str, str]] = Counter()
        self._hub = hub
        self._look = look
        self._event = asyncio.Event()

    def settled(self, channel: ChannelRow, item: Notification, outcome: str) -> None:
        """Handle the durable outcome of an attempt. Call it on the event loop."""
        self.attempts[channel.name, channel.kind, outcome] += 1
        if outcome == SENT and channel.kind == BROWSER:
            self._hub.broadcast(exact_json.dumps({"type": "notification", "note": note_of(item)}))
        self._event.set()

    def refresh(self) -> None:
        """Check the outbox soon, because it may have changed."""
        self._event.set()

    async def work(self) -> None:
        """Publish the delivery status whenever it changes, until cancelled."""
        while True:
            self._event.clear()
            await self._work.once(self._refresh)
            await asyncio.sleep(PAUSE_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._event.wait(), LOOK_S)

    async def _refresh(self) -> None:
        self.newest = reported = await asyncio.to_thread(self._look)
        self._hub.broadcast_deliveries(exact_json.dumps({"type": "deliveries", **reported}))
