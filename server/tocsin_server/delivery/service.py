"""Run the alert path as a part of the server: started and stopped by ``app``, used by the API.

It never delays records: it listens to durable changes, reads concurrently with the writer, and its own writes
are short transactions between group commits.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from tocsin_server.core.permissions import Identity
from tocsin_server.core.settings import Settings
from tocsin_server.delivery import alertmanager_sync, browser_feed
from tocsin_server.delivery.browser_feed import BrowserNotifier
from tocsin_server.delivery.push import PushSubscriptions
from tocsin_server.delivery.router import RoutingPass, report_unread
from tocsin_server.delivery.sender import GRACE_S, ChannelWorker, SenderContext, deliver, in_thread
from tocsin_server.notify import chart_image, http, links
from tocsin_server.notify.channel import Sending, scrubbed
from tocsin_server.notify.channels import alertmanager
from tocsin_server.notify.message import IN_FULL, Links, Message, message_of, needs_action
from tocsin_server.notify.outcome import DeliveryError
from tocsin_server.runs.pubsub import Hub
from tocsin_server.store import alert_groups, notification_config, outbox
from tocsin_server.store.checkpoints import resume_from
from tocsin_server.store.connection import Connection, SQLAlchemyError
from tocsin_server.store.database import Database
from tocsin_server.store.notification_config import ChannelRow
from tocsin_server.store.outbox import Notification
from tocsin_server.store.periodic_jobs import PeriodicJobs
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.writer import StoreWriter

log = logging.getLogger("tocsin.notify")

PRUNE_S = 3600.0
AROUND = 200
"""Number of steps before and after an onset in a chart."""
FAILED_NS = 24 * 3600 * 10**9
"""How long a failed notification counts as a problem."""


class Delivery:
    """Route and send notifications, synchronize Alertmanagers, and ping an external monitor."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        writer: StoreWriter,
        reader: StoreReader,
        hub: Hub,
        *,
        jobs: PeriodicJobs | None = None,
        clock: Callable[[], int] = time.time_ns,
        still_valid: Callable[[Identity], bool] = lambda _: True,
    ) -> None:
        self._jobs = jobs or PeriodicJobs()
        self._routing_job = self._jobs.round("routing")
        self._sync_job = self._jobs.round("alertmanagers")
        self.settings = settings
        self.base = settings.public_url or f"http://{settings.host}:{settings.port}{settings.root_path}"
        """Base URL of the pages; ``serve`` corrects it if the system chose the port."""
        self.key = b""
        self._database = database
        self._writer = writer
        self._reader = reader
        self._hub = hub
        self._clock = clock
        self._started_ns = clock()
        self.browser_notifier = BrowserNotifier(hub, self.health, self._jobs.round(browser_feed.NAME))
        owner, settled = secrets.token_hex(8), self.browser_notifier.settled
        self.push = PushSubscriptions(database, writer, still_valid)
        self._context = SenderContext(
            settings, database, writer, self.compose, owner, settled, clock, self.push.targets
        )
        self._workers: dict[str, tuple[ChannelWorker, asyncio.Task[None]]] = {}
        self._pushed: dict[str, str] = {}
        """Result of the last push by the name of the Alertmanager; "" on success."""
        self._tasks: list[asyncio.Task[None]] = []
        self._wakeup = asyncio.Event()
        self._set_back_ns = 0
        """By how much the clock was set back, for queued items that have not been shifted yet."""

    async def start(self) -> None:
        """Start to route and to send."""
        self.key = bytes.fromhex(await self._signing_key())
        if self._database.dialect == "sqlite":  # one server at a time: no claim is active
            with suppress_and_log("claims expire by themselves"):
                await self._context.write(outbox.release)
        with suppress_and_log("stored routes and silences were not checked"):
            await asyncio.to_thread(self._report_unread)
        loops: list[Callable[[], Coroutine[Any, Any, None]]] = [self._routing, self._syncing, self._tidying]
        loops.append(self.browser_notifier.work)
        if self.settings.ping_url:
            loops.append(self._pinging)
        self._tasks = [asyncio.create_task(loop(), name=f"notify-{loop.__name__}") for loop in loops]

    async def stop(self) -> None:
        """Stop immediately: claimed and waiting notifications stay in the outbox."""
        tasks = [*self._tasks, *(task for _, task in self._workers.values())]
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks, self._workers = [], {}

    def wake(self) -> None:
        """Route and send now, because something changed. Call it on the event loop."""
        self._wakeup.set()
        self.browser_notifier.refresh()
        for worker, _ in self._workers.values():
            worker.wakeup.set()

    def clock_was_set(self, jump_ns: int) -> None:
        """Shift the due times of queued items after the clock was set back, so that they do not wait longer.

        A clock that was set forward only sends them earlier. Call it on the event loop.
        """
        if jump_ns < 0:
            self._set_back_ns += jump_ns
            self.wake()

    async def _signing_key(self) -> str:
        """Return the installation's signing key; if the database fails, a temporary key for this process."""
        try:
            return await self._context.write(self._link_key)
        except SQLAlchemyError as error:
            log.warning("the key of acknowledging links could not be stored: %s", error)
            return secrets.token_hex(32)

    def _link_key(self, connection: Connection) -> str:
        known = notification_config.read_choice(connection, notification_config.LINK_KEY)
        for keep in (True, False):  # a damaged key is replaced, which invalidates the links signed with it
            if not _is_key(known):
                made = secrets.token_hex(32)
                notification_config.write_choice(
                    connection, notification_config.LINK_KEY, made, self._clock(), keep=keep
                )
                known = notification_config.read_choice(connection, notification_config.LINK_KEY)
        return str(known)

    # Routing

    async def _routing(self) -> None:
        waiter = asyncio.create_task(self._listen())
        try:
            while True:
                self._wakeup.clear()
                await self._routing_job.once(self._route_and_start_workers)
                pause_s = await asyncio.to_thread(self._pause_s)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wakeup.wait(), pause_s)
        finally:
            waiter.cancel()

    async def _listen(self) -> None:
        with self._hub.listen() as listener:
            while True:
                await listener.wait()
                listener.take_dirty()
                listener.missed = 0
                if listener.take_alerts():
                    self._wakeup.set()

    async def _route_and_start_workers(self) -> None:
        if self._set_back_ns:
            jump_ns = self._set_back_ns
            await self._context.write(partial(_shift, jump_ns=jump_ns))
            self._set_back_ns -= jump_ns
        await self.route()
        await self._start_workers()

    async def route(self) -> None:
        """Run routing passes until nothing is due."""
        while await asyncio.to_thread(self._is_due):
            reported, more = await self._context.write(self._route_once)
            if reported:
                self.browser_notifier.refresh()
            for channel_id in reported:
                if channel_id in self._workers:
                    self._workers[channel_id][0].wakeup.set()
            if not more:
                return

    def _route_once(self, connection: Connection) -> tuple[set[str], bool]:
        alert_groups.lock(connection)
        one = RoutingPass(connection, self._clock(), self._routing_job)
        return (one.notified, True) if one.run() else (one.notified, False)

    def _report_unread(self) -> None:
        with self._database.reader.connect() as connection:
            report_unread(connection, self._clock())

    def _is_due(self) -> bool:
        with self._database.reader.connect() as connection:
            return alert_groups.is_anything_due(connection, self._clock())[0]

    def _pause_s(self) -> float:
        """Return the seconds until the next group is due, at most ``notify_poll_s``."""
        most = self.settings.notify_poll_s
        try:
            with self._database.reader.connect() as connection:
                due = alert_groups.is_anything_due(connection, self._clock())[1]
        except Exception:  # noqa: BLE001 - database outage: retry soon
            return most
        return most if due is None else min(max((due - self._clock()) / 1e9, 0.01), most)

    async def _start_workers(self) -> None:
        """Start a worker for each enabled channel, and end those of removed channels."""
        rows = await asyncio.to_thread(self._channels)
        wanted = {row.id for row in rows if row.enabled}
        for channel_id in wanted - self._workers.keys():
            worker = ChannelWorker(self._context, channel_id, self._jobs.round("channels"))
            task = asyncio.create_task(worker.work(), name=f"channel-{channel_id}")
            self._workers[channel_id] = (worker, task)
        for channel_id in self._workers.keys() - wanted:
            self._workers.pop(channel_id)[1].cancel()

    def _channels(self) -> list[ChannelRow]:
        with self._database.reader.connect() as connection:
            return notification_config.channels(connection)

    # Messages

    def compose(self, item: Notification, pictured: bool) -> Message:
        """Return the message of a notification as of now. A chart that cannot be drawn is left out."""
        now_s = self._clock() / 1e9
        item = replace(item, body=self._without_deleted(item.body))
        image = self._picture(item) if pictured else None
        return self._message(
            item, lambda alert: links.acknowledging(self.base, self.key, alert["id"], now_s), image
        )

    def shown(self, item: Notification) -> Message:
        """Return the message of a notification for the delivery log.

        It has no links that acknowledge, because who reads the log may not be allowed to.
        """
        return self._message(replace(item, body=self._without_deleted(item.body)), lambda _: "", None)

    def _message(
        self, item: Notification, acknowledge: Callable[[Mapping[str, Any]], str], image: bytes | None
    ) -> Message:
        asked = Links(
            lambda alert: links.page(self.base, alert),
            acknowledge,
            lambda alert: links.silencing(self.base, alert),
        )
        return message_of(item.id, item.kind, self._with_checkpoints(item.body), asked, image)

    def _without_deleted(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the body without the alerts of runs that were deleted since it was enqueued."""
        known = self._reader.existing_runs({alert["run_id"] for alert in body["alerts"]})
        return {**body, "alerts": [alert for alert in body["alerts"] if alert["run_id"] in known]}

    def _with_checkpoints(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the body with the last good checkpoint of each incident that the message describes."""
        known: dict[str, dict[str, Any] | None] = {}
        alerts = []
        for alert in body["alerts"]:
            name = alert.get("incident")
            if name and name not in known and len(known) < IN_FULL and needs_action(alert):
                known[name] = self._resume(name)
            found = known.get(name)
            alerts.append({**alert, "resume": found} if found else alert)
        return {**body, "alerts": alerts}

    def _resume(self, incident_id: str) -> dict[str, Any] | None:
        """Return where to resume after an incident, or None if that is not known or cannot be read."""
        try:
            stored = self._reader.incident(incident_id)
            found = None if stored is None else resume_from(self._reader, stored.incident)
        except Exception:
            log.exception("no checkpoint for a message about incident %s", incident_id)
            return None
        return None if found is None or found.checkpoint is None else found.resume()

    def _picture(self, item: Notification) -> bytes | None:
        shown = _shown(item)
        if shown is None:
            return None
        run, name, onset = shown
        span = (None, None) if onset is None else (onset - AROUND, onset + AROUND)
        try:
            answer = self._reader.series(run["run_id"], [name], start=span[0], stop=span[1], buckets=600)
            layer = next(iter(answer.series.get(name, ())), None)
            if layer is None:
                return None
            curve = chart_image.curve_of(layer)
            return chart_image.draw(f"{name} · {run['run_name']}", curve, onset)
        except Exception:
            log.exception("no picture for notification %s", item.id)
            return None

    async def test(self, channel: ChannelRow) -> str:
        """Send a test immediately, without the outbox. Raises DeliveryError."""
        return (await deliver(self._context, channel, self._test_of(channel.id))).detail

    async def test_push(self, subscription_id: str) -> str:
        """Send a test to one subscribed browser immediately. Raises DeliveryError."""
        context = replace(self._context, push=partial(self.push.targets, subscription_id))
        item, channel = self._test_of(""), ChannelRow("", "push", "push")
        return (await deliver(context, channel, item)).detail

    def _test_of(self, channel_id: str) -> Notification:
        now_ns = self._clock()
        body = {"reason": "test", "route": "", "group_labels": {}, "alerts": [], "left_out": 0}
        return Notification(
            outbox.new_id(now_ns), channel_id, "", "test", "tocsin: test", body, created_ns=now_ns
        )

    # Alertmanagers

    async def _syncing(self) -> None:
        with self._hub.listen() as listener:
            while True:
                await self._sync_job.once(self.sync_alertmanagers)
                ends = time.monotonic() + alertmanager.PUSH_S
                while time.monotonic() < ends and not listener.take_alerts():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(listener.wait(), min(1.0, self.settings.notify_poll_s))
                    listener.take_dirty()

    async def sync_alertmanagers(self) -> None:
        """Push all alerts to all Alertmanagers, each in its own thread."""
        found = await asyncio.to_thread(self._sync_state)
        self._pushed = {
            name: reported
            for name, reported in self._pushed.items()
            if name in {row.name for row, _ in found}
        }
        await asyncio.gather(*(self._push(row, alerts) for row, alerts in found))
        self.browser_notifier.refresh()

    def _sync_state(self) -> list[tuple[ChannelRow, list[Any]]]:
        with self._database.reader.connect() as connection:
            now_ns, work = self._clock(), self._sync_job
            return alertmanager_sync.pictures(connection, self.base, self._started_ns, now_ns, work)

    async def _push(self, row: ChannelRow, alerts: list[Any]) -> None:
        with self._sync_job.isolated(f"channel {row.name}"):
            await self._push_to(row, alerts)

    async def _push_to(self, row: ChannelRow, alerts: list[Any]) -> None:
        settings = self.settings
        values = {**row.config, **row.secret}
        sending = Sending(settings.notify_timeout_s, settings.notify_private_addresses, self._clock() / 1e9)
        try:
            work = partial(alertmanager.push, values, alerts, sending)
            await in_thread(work, settings.notify_timeout_s + GRACE_S)
            self._pushed[row.name] = ""
        except (DeliveryError, TimeoutError) as error:
            detail = scrubbed(str(error) or "no answer in time", row.secret)
            if self._pushed.get(row.name) != detail:
                log.warning("channel %s: the push failed: %s", row.name, detail)
            self._pushed[row.name] = detail

    @property
    def pushes(self) -> Mapping[str, str]:
        """Return the result of the last push by the name of the Alertmanager; "" on success."""
        return dict(self._pushed)

    def push_error(self, name: str) -> str:
        """Return why the last push to this Alertmanager failed, or "" on success."""
        return self._pushed.get(name, "")

    # Health

    async def _pinging(self) -> None:
        work = self._jobs.round("ping")
        while True:
            await work.once(self._ping)
            await asyncio.sleep(self.settings.ping_s)

    async def _ping(self) -> None:
        trouble = await asyncio.to_thread(self._trouble)
        url = self.settings.ping_url.rstrip("/") + ("/fail" if trouble else "")
        call = partial(http.send, url, None, {}, timeout_s=20.0, private=True, method="GET")
        http.check(await in_thread(call, 30.0))

    def _trouble(self) -> bool:
        try:
            return bool(self._writer.failing or self.health()["failing"])
        except Exception:  # noqa: BLE001 - any error means unhealthy
            return True

    @property
    def standing(self) -> dict[str, Any]:
        """Return the last result of :meth:`health`, a few seconds old, without a query."""
        return self.browser_notifier.newest

    def health(self) -> dict[str, Any]:
        """Return the delivery status for all pages: waiting and failed notifications, failing channels."""
        since_ns = self._clock() - FAILED_NS
        with self._database.reader.connect() as connection:
            found = outbox.counts(connection, since_ns)
            reported = outbox.standings(connection, since_ns) if found else {}
            names = {row.id: row.name for row in notification_config.channels(connection)}
        errors = {names[key]: each.error for key, each in reported.items() if key in names and each.error}
        errors |= {name: error for name, error in self._pushed.items() if error}
        failing = sorted({each.channel for each in found if each.retrying or each.failed} | errors.keys())
        return {
            "waiting": sum(each.waiting for each in found),
            "failed": sum(each.failed for each in found),
            "failing": failing,
            "trouble": browser_feed.trouble(failing, errors),
        }

    async def _tidying(self) -> None:
        await self._jobs.round("old notifications").keep(self._prune, PRUNE_S)

    async def _prune(self) -> None:
        await self._context.write(partial(outbox.prune, now_ns=self._clock()))
        await self._context.write(partial(alert_groups.prune, before_ns=self._clock() - 2 * FAILED_NS))


def _shift(connection: Connection, jump_ns: int) -> None:
    alert_groups.shift(connection, jump_ns)
    outbox.shift(connection, jump_ns)


def _is_key(value: object) -> bool:
    try:
        return isinstance(value, str) and len(bytes.fromhex(value)) == 32
    except ValueError:
        return False


def _shown(item: Notification) -> tuple[Mapping[str, Any], str, int | None] | None:
    """Return run, series and step of a notification's chart.

    They are those of its first alert.
    """
    for alert in item.body["alerts"]:
        return alert, alert["subject"] or "loss", alert["onset_step"]
    return None


class suppress_and_log:  # noqa: N801 - used as a statement, as contextlib.suppress is
    """Log an error of one pass so that the next one retries; a cancellation is passed on."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> bool:
        if error is None or not isinstance(error, Exception):
            return False
        log.warning("%s: %s: %s", self._what, type(error).__name__, error)
        return True
