"""Send the notifications in the outbox. Each channel has one task and thread, so that a hanging one delays no
other.

Claim, send and mark are three steps. If the server is killed between them, the claim expires and the
notification is sent again: delivery is at least once. A thread that exceeds its time is abandoned (it ends
with its sockets), and the channel continues with a new one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from tocsin_server.core.settings import Settings
from tocsin_server.delivery import updates
from tocsin_server.notify import backoff
from tocsin_server.notify.channel import Sending, scrubbed
from tocsin_server.notify.channels import kinds
from tocsin_server.notify.message import Message
from tocsin_server.notify.outcome import DeliveryError, Sent
from tocsin_server.notify.web_push import PushTargets
from tocsin_server.store import outbox
from tocsin_server.store.connection import Connection
from tocsin_server.store.damage import Damaged
from tocsin_server.store.database import Database
from tocsin_server.store.notification_config import ChannelRow, read_channel
from tocsin_server.store.outbox import Attempt, Notification
from tocsin_server.store.periodic_jobs import PeriodicJob
from tocsin_server.store.writer import StoreWriter

T = TypeVar("T")
log = logging.getLogger("tocsin.notify")

REQUESTS = 3
"""Maximum number of requests for one message in a channel that changes its messages, each with its own
timeout: the change, and a new message with and without its chart if it was deleted."""
GRACE_S = 5.0
"""How long to wait for a thread beyond its timeout before it is abandoned."""
Compose = Callable[[Notification, bool], Message]
"""Build the message of a notification, with a chart if the second argument is True; blocks."""


@dataclass(frozen=True, slots=True)
class SenderContext:
    """The state that all channel workers share."""

    settings: Settings
    database: Database
    writer: StoreWriter
    compose: Compose
    owner: str
    settled: Callable[[ChannelRow, Notification, str], None]
    """Called on the event loop with the outcome of each attempt once it is durable."""
    clock: Callable[[], int] = time.time_ns
    push: Callable[[], PushTargets] | None = None
    """Read the subscribed browsers; blocks."""

    @property
    def lease_ns(self) -> int:
        """Return the duration of a claim: longer than any attempt, so that no other worker sends too."""
        return int((REQUESTS * self.settings.notify_timeout_s + 2 * GRACE_S) * 1e9)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` on the writer's thread in a separate transaction."""
        return await asyncio.wrap_future(self.writer.call(work))


async def in_thread(work: Callable[[], T], timeout_s: float) -> T:
    """Run ``work`` in a new thread; on timeout, abandon the thread and raise TimeoutError."""
    future: Future[T] = Future()

    def run() -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - passed on to the waiting caller
                future.set_exception(error)

    threading.Thread(target=run, name="tocsin-channel", daemon=True).start()
    return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(future)), timeout_s)


async def deliver(context: SenderContext, channel: ChannelRow, item: Notification) -> Sent:
    """Send one notification. Raises DeliveryError."""
    kind = kinds().get(channel.kind)
    if kind is None:
        raise DeliveryError(f"this version has no channel of kind {channel.kind}", permanent=True)
    settings = context.settings
    if isinstance(channel.config, Damaged) or isinstance(channel.secret, Damaged):
        raise DeliveryError("The stored settings of this channel are damaged. Enter and save them again.")
    if isinstance(item.body, Damaged):
        raise DeliveryError(
            "The stored notification is damaged, so there is nothing to send.", permanent=True
        )
    values = {**channel.config, **channel.secret}

    def work() -> str | Sent:
        message = context.compose(item, kind.pictures)
        public = settings.public_url
        now_s = context.clock() / 1e9
        sending = Sending(settings.notify_timeout_s, settings.notify_private_addresses, now_s, public)
        if kind.per_incident:
            with context.database.reader.connect() as connection:
                sending = updates.continued(connection, item, sending)
        if kind.pushes and context.push is not None:
            done = item.body.get(outbox.RECEIPT, {})
            sending = replace(sending, partial=done, push=context.push())
        return kind.send(values, message, sending)

    limit_s = settings.notify_timeout_s * (REQUESTS if kind.updates else 1)
    try:
        answer = await in_thread(work, limit_s + GRACE_S)
        sent = answer if isinstance(answer, Sent) else Sent(answer)
        return Sent(scrubbed(sent.detail, channel.secret), sent.receipt)
    except TimeoutError:
        raise DeliveryError(f"did not finish within {limit_s:g} s") from None
    except DeliveryError as error:
        detail = scrubbed(error.detail, channel.secret)
        error.detail, error.args = detail, (detail,)
        raise
    except Exception as error:
        log.exception("channel %s crashed", channel.name)
        raise DeliveryError(f"the channel failed with {type(error).__name__}; the log says why") from error


class ChannelWorker:
    """The task of one channel."""

    def __init__(self, context: SenderContext, channel_id: str, work: PeriodicJob | None = None) -> None:
        self._context = context
        self._work = work or PeriodicJob("channels")
        self._id = channel_id
        self.wakeup = asyncio.Event()

    async def work(self) -> None:
        """Send due notifications until cancelled; retry if the database fails."""
        subject = f"channel {self._id}"
        while True:
            try:
                while await self._one():
                    self._work.passed(subject)
                self._work.passed(subject)
            except Exception as error:  # noqa: BLE001 - one delivery must not end its channel
                self._work.failed(subject, error)
            self.wakeup.clear()
            try:
                await asyncio.wait_for(self.wakeup.wait(), self._context.settings.notify_poll_s)
            except TimeoutError:
                continue

    async def _one(self) -> bool:
        """Send the oldest due notification; return False if there is none."""
        context, now_ns = self._context, self._context.clock()
        if not await asyncio.to_thread(self._is_due, now_ns):
            return False
        take = partial(
            outbox.claim, channel_id=self._id, owner=context.owner, now_ns=now_ns, lease_ns=context.lease_ns
        )
        item = await context.write(take)
        channel = await asyncio.to_thread(self._channel)
        if item is None or channel is None:
            return False
        await self._send(channel, item)
        return True

    def _is_due(self, now_ns: int) -> bool:
        with self._context.database.reader.connect() as connection:
            due = outbox.next_due(connection, self._id)
            return due is not None and due <= now_ns

    def _channel(self) -> ChannelRow | None:
        with self._context.database.reader.connect() as connection:
            return read_channel(connection, self._id)

    async def _send(self, channel: ChannelRow, item: Notification) -> None:
        begun_ns = self._context.clock()
        try:
            answer = await deliver(self._context, channel, item)
        except DeliveryError as error:
            await self._failed(channel, item, error, begun_ns)
        else:
            sent = Attempt(item.attempts, begun_ns, 0, "sent", answer.detail)
            await self._settle(channel, item, sent, outbox.SENT, begun_ns, answer.receipt)

    async def _failed(
        self, channel: ChannelRow, item: Notification, error: DeliveryError, begun_ns: int
    ) -> None:
        now_ns = self._context.clock()
        over = error.permanent or backoff.is_too_old(item.created_ns, now_ns)
        chance = random.random()  # noqa: S311 - jitter, not a secret
        pause_s = backoff.pause_s(item.attempts, chance, error.retry_after_s)
        attempt = Attempt(item.attempts, begun_ns, 0, "failed" if over else "retry", error.detail)
        log.warning("notification %s was not delivered (%s): %s", item.id, attempt.outcome, error.detail)
        state = outbox.FAILED if over else outbox.WAITING
        await self._settle(channel, item, attempt, state, now_ns + int(pause_s * 1e9), error.receipt)

    async def _settle(
        self,
        channel: ChannelRow,
        item: Notification,
        attempt: Attempt,
        state: str,
        due_ns: int,
        receipt: Mapping[str, Any] | None = None,
    ) -> None:
        took_ms = min(max(0, (self._context.clock() - attempt.at_ns) // 1_000_000), 2**31 - 1)
        line = replace(attempt, took_ms=took_ms)
        store = partial(outbox.settle, item=item, attempt=line, state=state, due_ns=due_ns, receipt=receipt)
        await self._context.write(store)
        self._context.settled(channel, item, attempt.outcome)
