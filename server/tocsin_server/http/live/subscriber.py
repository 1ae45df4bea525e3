"""Hold the subscriptions and the send queue of one browser. No socket here.

At most ``limit_bytes`` are queued. If a browser reads more slowly, its queue is dropped and each of its views
gets ``resync``, after which it queries the API again (docs/reference/http-api.md).
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from dataclasses import dataclass

from tocsin_server.core import exact_json

MOST_VIEWS = 2_100
"""A comparison of a thousand runs that is zoomed in has two views per run."""
MOST_NAMES = 1024
LONGEST_CURSOR = 64


@dataclass(slots=True)
class View:
    """A subscription: the fleet, or series of a run after a cursor."""

    id: int
    run_id: str | None = None
    """None for the fleet."""
    names: tuple[str, ...] | None = None
    """None for all series."""
    cursor: int | None = None
    """The arrival number up to which the browser has everything; None for from now on."""
    since: str | None = None
    """Of the fleet: the cursor of the response with the rows that the browser has; None for all rows."""
    initialized: bool = False
    """Whether the first response was sent."""


class SubscriptionError(ValueError):
    """A browser's message that does not follow docs/reference/http-api.md; the text says expected and got."""


class Subscriber:
    """The views and the queue of one browser."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.views: dict[int, View] = {}
        self.waiting_bytes = 0
        self.dropped = 0
        self._queue: deque[str] = deque()
        self._event = asyncio.Event()

    def handle(self, text: str) -> None:
        """Process a message from the browser. Raises :class:`SubscriptionError`."""
        message = _parsed(text)
        kind, number = message.get("type"), message.get("id")
        if kind not in ("subscribe", "unsubscribe") or not isinstance(number, int):
            raise SubscriptionError(
                f"message: expected subscribe or unsubscribe with an id, got {text[:80]!r}"
            )
        if kind == "unsubscribe":
            self.views.pop(number, None)
            return
        if number not in self.views and len(self.views) >= MOST_VIEWS:
            raise SubscriptionError(f"views: expected at most {MOST_VIEWS}, got one more")
        self.views[number] = _view_of(number, message)

    def put(self, text: str) -> None:
        """Queue a message; drop the whole queue if it becomes too large."""
        self.waiting_bytes += sys.getsizeof(text)
        self._queue.append(text)
        if self.waiting_bytes > self.limit_bytes:
            self._start_over()
        self._event.set()

    def resync(self, view: View) -> None:
        """Tell the browser to query the API; a run's view pauses until it subscribes again."""
        if view.run_id is None:
            view.initialized, view.since = False, None
        else:
            self.views.pop(view.id, None)
        self.put(f'{{"type":"resync","id":{view.id}}}')

    def _start_over(self) -> None:
        self.dropped += len(self._queue)
        self._queue.clear()
        self.waiting_bytes = 0
        for view in list(self.views.values()):
            self.resync(view)

    async def next(self) -> str:
        """Return the next message to send; wait for one if necessary."""
        while not self._queue:
            self._event.clear()
            await self._event.wait()
        text = self._queue.popleft()
        self.waiting_bytes -= sys.getsizeof(text)
        return text


def _parsed(text: str) -> dict[str, object]:
    try:
        message = exact_json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SubscriptionError(f"message: expected JSON, got {text[:80]!r}") from error
    if not isinstance(message, dict):
        raise SubscriptionError(f"message: expected an object, got {text[:80]!r}")
    return message


def _view_of(number: int, message: dict[str, object]) -> View:
    view, run, names, cursor = (message.get(key) for key in ("view", "run", "names", "cursor"))
    if view == "fleet":
        if cursor is not None and (not isinstance(cursor, str) or len(cursor) > LONGEST_CURSOR):
            raise SubscriptionError(f"cursor: expected that of a list of runs, got {cursor!r:.80}")
        return View(number, since=cursor)
    if view != "run" or not isinstance(run, str):
        raise SubscriptionError(f"view: expected fleet, or run with a run, got {view!r} of {run!r}")
    if cursor is not None and (isinstance(cursor, bool) or not isinstance(cursor, int)):
        raise SubscriptionError(f"cursor: expected a whole number, got {cursor!r}")
    return View(number, run, _names_of(names), cursor)


def _names_of(names: object) -> tuple[str, ...] | None:
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SubscriptionError(f"names: expected a list of series, got {names!r:.80}")
    if len(names) > MOST_NAMES:
        raise SubscriptionError(f"names: expected at most {MOST_NAMES}, got {len(names)}")
    return tuple(dict.fromkeys(names))
