"""Serve the browsers' WebSocket: docs/reference/http-api.md, "Live socket".

The records of a run are sent right after their commit, but at most once per tick, and the changed rows of the
list of runs less often. All browsers share a tick: the changes of a run are encoded once, however many
browsers watch it. Alerts are sent immediately. Each browser has a bounded queue
(:mod:`subscriber`), so that a slow one does not affect the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from tocsin_server.core import exact_json
from tocsin_server.core.models import Transition
from tocsin_server.core.permissions import Identity, Scope
from tocsin_server.core.settings import Settings
from tocsin_server.http.live.delta import Delta
from tocsin_server.http.live.fleet_changes import FleetChanges
from tocsin_server.http.live.subscriber import Subscriber, SubscriptionError, View
from tocsin_server.http.services import Services, services_of
from tocsin_server.runs.health import health_of
from tocsin_server.runs.pipeline import Pipeline
from tocsin_server.runs.pubsub import Hub, Listener
from tocsin_server.runs.run_summary import alert_json

router = APIRouter()

PATH = "/api/v1/live"
IDLE_S = 0.25
"""Without new records, new subscriptions wait at most this long for their first message."""
PAGES = "some open pages"
NO_LOGIN, MAY_NOT_READ = 4401, 4403


class BroadcastServer:
    """All connected browsers, and the tick that serves them."""

    def __init__(self, pipeline: Pipeline, hub: Hub, settings: Settings) -> None:
        self.work = pipeline.jobs.round("live")
        self.settings = settings
        self.subscribers: set[Subscriber] = set()
        self.changes = FleetChanges()
        self._pipeline = pipeline
        self._hub = hub
        self._fleet_dirty: set[str] = set()
        self._fleet_at = float("-inf")
        """When the changed rows of the list of runs were sent last, s."""
        self._tasks: list[asyncio.Task[None]] = []
        self._recheck = asyncio.Event()

    def start(self) -> None:
        """Start the tick, push and heartbeat tasks."""
        loops = (self._ticking, self._pushing, self._beating)
        self._tasks = [asyncio.create_task(loop(), name=f"live{loop.__name__}") for loop in loops]

    async def stop(self) -> None:
        """Stop the tasks; the sockets end with their connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def join(self) -> Subscriber:
        """Return the subscriber of a new browser, with the server's status queued."""
        subscriber = Subscriber(self.settings.subscriber_bytes)
        subscriber.put(self._beat_text())
        if self._hub.deliveries:
            subscriber.put(self._hub.deliveries)
        self.subscribers.add(subscriber)
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """Remove a disconnected browser."""
        self.subscribers.discard(subscriber)

    def recheck(self) -> None:
        """Make every socket check its login now, because a session ended. Call it on the event loop."""
        due, self._recheck = self._recheck, asyncio.Event()
        due.set()

    async def login_check_due(self) -> None:
        """Return when a login must be checked again: every ``heartbeat_s``, and after :meth:`recheck`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._recheck.wait(), self.settings.heartbeat_s)

    def changed(self, what: str) -> None:
        """Tell pages to reload the configuration ``what``. Call it on the event loop."""
        for subscriber in self.subscribers:
            subscriber.put(f'{{"type":"changed","what":"{what}"}}')

    # Tasks

    async def _ticking(self) -> None:
        loop = asyncio.get_running_loop()
        with self._hub.listen() as listener:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(listener.wait(), IDLE_S)
                listener.take_alerts()
                listener.take_broadcasts()
                begun = loop.time()
                with self.work.isolated("tick"):
                    self.tick(listener, begun)
                interval_s = self._pipeline.pressure.tick_ms / 1000
                # At least half of the interval is left for other work, however long the tick took.
                await asyncio.sleep(max(begun + interval_s - loop.time(), interval_s / 2))

    async def _pushing(self) -> None:
        with self._hub.listen() as listener:
            while True:
                await listener.wait()
                listener.take_dirty()
                if listener.missed:
                    listener.missed = 0
                    with self.work.isolated("resync"):
                        self._resync_all()
                for transition in listener.take_alerts():
                    with self.work.isolated(f"alerts of run {transition.alert.run_id}"):
                        self._push_alert(transition)
                for word in listener.take_broadcasts():
                    with self.work.isolated("messages"):
                        self._send_all(word)

    async def _beating(self) -> None:
        while True:
            with self.work.isolated("beat"):
                self._beat()
            await asyncio.sleep(self.settings.heartbeat_s)

    # Messages

    def tick(self, listener: Listener, now_s: float) -> None:
        """Send every browser the changes that it has not received, at the monotonic time ``now_s``."""
        committed, changed = listener.take_dirty()
        dirty = changed | committed.keys()
        self.changes.note(dirty, now_s)
        self._fleet_dirty |= dirty
        rows: set[str] = set()
        if now_s - self._fleet_at >= self.settings.fleet_tick_ms / 1000:
            rows, self._fleet_dirty, self._fleet_at = self._fleet_dirty, set(), now_s
        cache = TickCache(self._pipeline)
        failure: Exception | None = None
        shown: set[str] = set()
        for subscriber in list(self.subscribers):
            try:
                self._show(subscriber, cache, dirty, rows)
                shown |= {view.run_id for view in subscriber.views.values() if view.run_id is not None}
            except Exception as error:  # noqa: BLE001 - the other pages must be served
                failure = error
        self._pipeline.pressure.watch(shown)
        if failure is None:
            self.work.passed(PAGES)
        else:
            self.work.failed(PAGES, failure)

    def _show(self, subscriber: Subscriber, cache: TickCache, dirty: set[str], rows: set[str]) -> None:
        for view in list(subscriber.views.values()):
            if view.run_id is None:
                self._show_fleet(subscriber, view, cache, rows)
            elif view.run_id in dirty or not view.initialized:
                with self.work.isolated(f"page of run {view.run_id}"):
                    self._show_run(subscriber, view, view.run_id, cache)

    def _show_fleet(self, subscriber: Subscriber, view: View, cache: TickCache, dirty: set[str]) -> None:
        if not view.initialized:
            since, view.since, view.initialized = view.since, None, True
            changed = None if since is None else self.changes.since(since)
            subscriber.put(
                cache.fleet_message(view.id, None)
                if changed is None
                else cache.rows_message(view.id, changed)
            )
        elif dirty:
            subscriber.put(cache.fleet_message(view.id, dirty))

    def _show_run(self, subscriber: Subscriber, view: View, run_id: str, cache: TickCache) -> None:
        head = cache.head(run_id)
        if view.cursor is None:
            view.cursor = head
        view.initialized = True
        if cache.row(run_id) is None:
            return
        body = cache.run(run_id, view.cursor, head, view.names)
        if body is None:
            subscriber.resync(view)
            return
        view.cursor = max(view.cursor, head)
        subscriber.put(f'{{"type":"run","id":{view.id},{body}}}')

    def _resync_all(self) -> None:
        """Make all views query the API, because alerts were dropped from the queue."""
        for subscriber in self.subscribers:
            for view in list(subscriber.views.values()):
                subscriber.resync(view)

    def _push_alert(self, transition: Transition) -> None:
        summary = self._pipeline.registry.summary(transition.alert.run_id)
        name, project = (summary.metadata.name, summary.metadata.project) if summary else ("", "")
        reported = exact_json.dumps(alert_json(transition.alert, run_name=name, project=project))
        for subscriber in self.subscribers:
            subscriber.put(f'{{"type":"alert","alert":{reported}}}')

    def _beat(self) -> None:
        self._send_all(self._beat_text())

    def _send_all(self, text: str) -> None:
        for subscriber in self.subscribers:
            subscriber.put(text)

    def _beat_text(self) -> str:
        health = health_of(self._pipeline)
        reported = {"type": "heartbeat", "now_ms": self._pipeline.clock() // 1_000_000}
        reported |= {name: health[name] for name in ("backlog_bytes", "lag_ms", "failing")}
        return exact_json.dumps(reported)


class TickCache:
    """Cache of the texts that one tick has encoded, so that nothing is encoded twice."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._now_ns = pipeline.clock()
        self._work = pipeline.jobs.round("live")
        self._rows: dict[str, str] = {}
        self._deltas: dict[tuple[str, int], Delta | None] = {}
        self._runs: dict[tuple[str, int, tuple[str, ...] | None], str] = {}
        self._fleets: dict[str, str] = {}
        self._messages: dict[tuple[int, bool], str] = {}

    def fleet_message(self, number: int, dirty: set[str] | None) -> str:
        """Return the fleet message for view ``number``: all rows, or those that changed.

        Browsers number their views alike, so nearly all of them share one text of about 100 KB.
        """
        key = (number, dirty is None)
        if key not in self._messages:
            body = self.whole_fleet() if dirty is None else self.fleet(dirty)
            self._messages[key] = f'{{"type":"fleet","id":{number},{body}}}'
        return self._messages[key]

    def rows_message(self, number: int, runs: set[str]) -> str:
        """Return the fleet message for view ``number`` with the rows of these runs."""
        return f'{{"type":"fleet","id":{number},{self._fleet_of(runs)}}}'

    def whole_fleet(self) -> str:
        """Return all rows."""
        if "all" not in self._fleets:
            rows: list[str] = []
            for summary in self._pipeline.registry.newest_first():
                with self._work.isolated(f"row of run {summary.metadata.id}"):
                    rows.append(summary.json(self._now_ns, sparks=False))
            self._fleets["all"] = self._fleet(rows, [])
        return self._fleets["all"]

    def fleet(self, dirty: set[str]) -> str:
        """Return the rows that changed, and the ids of removed runs."""
        if "dirty" not in self._fleets:
            self._fleets["dirty"] = self._fleet_of(dirty)
        return self._fleets["dirty"]

    def _fleet_of(self, runs: set[str]) -> str:
        rows, removed = [], []
        for run_id in sorted(runs):
            with self._work.isolated(f"row of run {run_id}"):
                row = self.row(run_id)
                if row is None:
                    removed.append(run_id)
                else:
                    rows.append(row)
        return self._fleet(rows, removed)

    def _fleet(self, rows: list[str], removed: list[str]) -> str:
        gone = exact_json.dumps(removed)
        return f'"items":[{",".join(rows)}],"removed":{gone},"now_ms":{self._now_ns // 1_000_000}'

    def row(self, run_id: str) -> str | None:
        """Return the row of a run without its sparklines, or None if the run was removed."""
        summary = self._pipeline.registry.summary(run_id)
        if summary is None:
            return None
        if run_id not in self._rows:
            self._rows[run_id] = summary.json(self._now_ns, sparks=False)
        return self._rows[run_id]

    def head(self, run_id: str) -> int:
        """Return the newest durable arrival number of a run, or -1 if it is not in memory."""
        run = self._pipeline.registry.active.get(run_id)
        return run.durable_arrival if run else -1

    def run(self, run_id: str, after: int, head: int, names: tuple[str, ...] | None) -> str | None:
        """Return row, series and events of a run after a cursor, or None if the cursor is too old."""
        key = (run_id, after, names)
        if key not in self._runs:
            delta = self._delta(run_id, after, head)
            if delta is None:
                return None
            cursor, row = max(after, head), self.row(run_id) or "null"
            series, events = delta.series(names), delta.events()
            found = f'"cursor":{cursor},"row":{row},"series":{series},"events":{events}'
            self._runs[key] = f'{found},"reported":{self._reported(run_id)}'
        return self._runs[key]

    def _reported(self, run_id: str) -> int:
        """Return how many series a run has reported, so that pages notice a new one."""
        run = self._pipeline.registry.active.get(run_id)
        return len(run.series) if run else 0

    def _delta(self, run_id: str, after: int, head: int) -> Delta | None:
        key = (run_id, after)
        if key not in self._deltas:
            run = self._pipeline.registry.active.get(run_id)
            items = run.recent.between(after, head) if run and after < head else []
            self._deltas[key] = None if items is None else Delta(items)
        return self._deltas[key]


@router.websocket(PATH)
async def live(websocket: WebSocket) -> None:
    """Serve one browser from login to disconnect."""
    services = services_of(websocket)
    if not services.gate.same_origin(websocket):
        await websocket.close(1008)  # before accepting: the browser of another site gets a plain 403
        return
    identity = services.gate.session_of(websocket)
    await websocket.accept()
    code = _refused(identity)
    if code is not None or identity is None:
        await websocket.close(code or NO_LOGIN)
        return
    subscriber = services.live.join()
    try:
        await _serve(websocket, subscriber, services, identity)
    finally:
        services.live.leave(subscriber)


def _refused(identity: Identity | None) -> int | None:
    if identity is None:
        return NO_LOGIN
    return None if identity.may(Scope.READ) else MAY_NOT_READ


async def _serve(
    websocket: WebSocket, subscriber: Subscriber, services: Services, identity: Identity
) -> None:
    """Read, write and check the login concurrently; when one ends, cancel the others."""
    parts: list[Coroutine[Any, Any, None]] = [
        _read(websocket, subscriber),
        _write(websocket, subscriber),
        _still_valid(websocket, services, identity),
    ]
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(websocket: WebSocket, subscriber: Subscriber) -> None:
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        try:
            subscriber.handle(message.get("text") or "")
        except SubscriptionError as error:
            subscriber.put(exact_json.dumps({"type": "refused", "detail": str(error)}))


async def _write(websocket: WebSocket, subscriber: Subscriber) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):
        while True:
            await websocket.send_text(await subscriber.next())


async def _still_valid(websocket: WebSocket, services: Services, identity: Identity) -> None:
    """Return when the token behind this login is revoked, or its session ended."""
    while True:
        await services.live.login_check_due()
        if not services.gate.still_valid(identity):
            break
    with suppress(WebSocketDisconnect, RuntimeError):
        await websocket.close(NO_LOGIN)
