"""The outbox of notifications and the log of delivery attempts. Functions of a Connection.

A notification is claimed by compare-and-set with a lease, sent, and marked. If the server is killed before
the mark, the lease expires and the notification is sent again: delivery is at least once. Within a group,
a newer notification waits while an older one is being retried.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select, update
from sqlalchemy.orm import aliased

from tocsin_server.store.acks import Key
from tocsin_server.store.damage import values_of
from tocsin_server.store.tables import channel, delivery, notification, notified_alert

WAITING, CLAIMED, SENT, FAILED = "waiting", "claimed", "sent", "failed"
KEPT_NS = 90 * 86_400 * 10**9
"""How long sent and failed notifications are kept."""
RECEIPT = "receipt"
"""Entry of a sent notification's body: what finds its message again at the service."""
ALERTS, UPDATE = "alerts", "update"
"""Kinds of notifications about the current state of alerts; an update only changes a message."""
MOST_SEARCHED = 200
"""Number of notifications among which the last one about an incident is searched."""
MOST_KEPT = 20_000
"""Maximum number of sent and failed notifications; the newest are kept."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification for one channel. The message is built from ``body`` when it is sent."""

    id: str
    channel_id: str
    group_id: str
    kind: str
    title: str
    body: Mapping[str, Any] = field(default_factory=dict)
    state: str = WAITING
    attempts: int = 0
    created_ns: int = 0
    due_ns: int = 0
    owner: str | None = None
    lease_ns: int | None = None
    sent_ns: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One entry of the delivery log."""

    no: int
    at_ns: int
    took_ms: int
    outcome: str
    detail: str


def new_id(now_ns: int) -> str:
    """Return an id that sorts by time."""
    return f"n_{now_ns:016x}_{secrets.token_hex(3)}"


def enqueue(connection: Connection, item: Notification, alerts: Iterable[tuple[Key, str]] = ()) -> None:
    """Put a notification into the outbox, with the alerts it is about and their states."""
    connection.execute(notification.insert(), {name: getattr(item, name) for name in notification.c.keys()})  # noqa: SIM118
    rows = [
        {
            "run_id": key[0],
            "fingerprint": key[1],
            "episode": key[2],
            "notification_id": item.id,
            "state": state,
        }
        for key, state in dict(alerts).items()
    ]
    if rows:
        connection.execute(notified_alert.insert(), rows)


def claim(
    connection: Connection, channel_id: str, owner: str, now_ns: int, lease_ns: int
) -> Notification | None:
    """Claim the oldest notification that is due.

    Returns:
        The notification, or None if none is due or another worker claimed it first.
    """
    candidate = connection.execute(_due(channel_id, now_ns).limit(1)).first()
    if candidate is None:
        return None
    own = (notification.c.id == candidate.id) & _free(notification, now_ns)
    values = {"state": CLAIMED, "owner": owner, "lease_ns": now_ns + lease_ns}
    attempts = notification.c.attempts + 1
    taken = connection.execute(update(notification).where(own).values(**values, attempts=attempts)).rowcount
    return read(connection, candidate.id) if taken else None


def release(connection: Connection) -> int:
    """Release all claims, left by a server that stopped; return how many.

    Requires that no other server is running.
    """
    values = {"state": WAITING, "owner": None, "lease_ns": None}
    return connection.execute(
        update(notification).where(notification.c.state == CLAIMED).values(**values)
    ).rowcount


def _due(channel_id: str, now_ns: int) -> Any:
    """Return a query for the ids that may be sent now, oldest first.

    A notification is excluded while an older one of its group and channel is unsent.
    """
    older = aliased(notification)
    blocked = (
        select(older.c.id)
        .where(
            older.c.group_id == notification.c.group_id,
            older.c.channel_id == notification.c.channel_id,
            older.c.id < notification.c.id,
            older.c.state.in_((WAITING, CLAIMED)),
        )
        .exists()
    )
    own = (notification.c.channel_id == channel_id) & _free(notification, now_ns)
    return select(notification.c.id).where(own, ~blocked).order_by(notification.c.id)


def _free(table: Any, now_ns: int) -> ColumnElement[bool]:
    waiting = and_(table.c.state == WAITING, table.c.due_ns <= now_ns)
    abandoned = and_(table.c.state == CLAIMED, table.c.lease_ns <= now_ns)
    return or_(waiting, abandoned)


def settle(
    connection: Connection,
    item: Notification,
    attempt: Attempt,
    *,
    state: str,
    due_ns: int,
    receipt: Mapping[str, Any] | None = None,
) -> bool:
    """Store the result of an attempt; ``receipt``: what finds the sent message again.

    Returns:
        False if the claim had expired and another worker holds it.
    """
    own = (notification.c.id == item.id) & (notification.c.owner == item.owner)
    own &= (notification.c.state == CLAIMED) & (notification.c.attempts == item.attempts)
    sent = {"sent_ns": attempt.at_ns} if state == SENT else {}
    values: dict[str, Any] = {"state": state, "due_ns": due_ns, "owner": None, "lease_ns": None, **sent}
    if receipt is not None:
        values["body"] = {**item.body, RECEIPT: dict(receipt)}
    error = None if state == SENT else attempt.detail
    changed = connection.execute(update(notification).where(own).values(**values, error=error)).rowcount
    row = {"notification_id": item.id, "no": attempt.no, "at_ns": attempt.at_ns}
    reported = {"took_ms": attempt.took_ms, "outcome": attempt.outcome, "detail": attempt.detail}
    if read(connection, item.id) is not None and not _logged(connection, item.id, attempt.no):
        connection.execute(delivery.insert(), row | reported)
    return bool(changed)


def _logged(connection: Connection, notification_id: str, no: int) -> bool:
    own = (delivery.c.notification_id == notification_id) & (delivery.c.no == no)
    return connection.execute(select(delivery.c.no).where(own)).first() is not None


def read(connection: Connection, notification_id: str) -> Notification | None:
    """Return one notification, or None."""
    row = connection.execute(select(notification).where(notification.c.id == notification_id)).first()
    return None if row is None else _notification(row)


def listed(
    connection: Connection,
    *,
    channel_ids: Iterable[str] | None = None,
    states: Iterable[str] | None = None,
    before: str | None = None,
    after: str | None = None,
    limit: int = 100,
) -> list[Notification]:
    """Return notifications, newest first; with ``after``, those after that id, oldest first."""
    query = select(notification)
    if channel_ids is not None:
        query = query.where(notification.c.channel_id.in_(list(channel_ids)))
    if states is not None:
        query = query.where(notification.c.state.in_(list(states)))
    if before is not None:
        query = query.where(notification.c.id < before)
    order: Any = notification.c.id.desc()
    if after is not None:
        query, order = query.where(notification.c.id > after), notification.c.id
    return [_notification(row) for row in connection.execute(query.order_by(order).limit(limit))]


def attempts_of(connection: Connection, ids: Iterable[str]) -> dict[str, list[Attempt]]:
    """Return the delivery log of each notification, oldest attempt first."""
    found: dict[str, list[Attempt]] = {}
    query = select(delivery).where(delivery.c.notification_id.in_(list(ids))).order_by(delivery.c.no)
    for row in connection.execute(query):
        line = Attempt(row.no, row.at_ns, row.took_ms, row.outcome, row.detail)
        found.setdefault(row.notification_id, []).append(line)
    return found


def notifications_about(connection: Connection, key: Key) -> list[tuple[Notification, str]]:
    """Return the notifications about an alert, oldest first, each with the alert's state at the time."""
    table = notified_alert.c
    own = and_(table.run_id == key[0], table.fingerprint == key[1], table.episode == key[2])
    query = select(notification, table.state.label("state_then")).join(
        notified_alert, table.notification_id == notification.c.id
    )
    rows = connection.execute(query.where(own).order_by(notification.c.id))
    return [(_notification(row), row.state_then) for row in rows]


def latest(
    connection: Connection,
    channel_id: str,
    run_ids: Iterable[str],
    states: Iterable[str],
    group_id: str | None = None,
) -> list[Notification]:
    """Return the newest notifications of a channel about the state of these runs' alerts, newest first."""
    table = notification.c
    about = notified_alert.c.notification_id == table.id
    mine = select(notified_alert.c.run_id).where(about, notified_alert.c.run_id.in_(sorted(set(run_ids))))
    own = (table.channel_id == channel_id) & table.kind.in_((ALERTS, UPDATE)) & table.state.in_(list(states))
    own = own if group_id is None else own & (table.group_id == group_id)
    query = select(notification).where(own, mine.exists()).order_by(table.id.desc()).limit(MOST_SEARCHED)
    return [_notification(row) for row in connection.execute(query)]


def retry(connection: Connection, notification_id: str, now_ns: int) -> bool:
    """Retry a failed notification now and reset its age; return False if it has not failed."""
    own = (notification.c.id == notification_id) & (notification.c.state == FAILED)
    values = {"state": WAITING, "due_ns": now_ns, "created_ns": now_ns, "error": None}
    return bool(connection.execute(update(notification).where(own).values(values)).rowcount)


def next_due(connection: Connection, channel_id: str) -> int | None:
    """Return when the next notification of this channel may be sent, or None."""
    when = func.coalesce(notification.c.lease_ns, notification.c.due_ns)
    own = (notification.c.channel_id == channel_id) & notification.c.state.in_((WAITING, CLAIMED))
    return connection.execute(select(func.min(when)).where(own)).scalar()


def sent_since(connection: Connection, channel_id: str, since_ns: int) -> int:
    """Return how many notifications of alerts were created for a channel since then, without digests."""
    own = (notification.c.channel_id == channel_id) & (notification.c.kind == "alerts")
    query = select(func.count()).select_from(notification).where(own, notification.c.created_ns > since_ns)
    return connection.execute(query).scalar_one()


@dataclass(frozen=True, slots=True)
class ChannelCount:
    """Counts of the notifications of one channel."""

    channel: str
    waiting: int
    retrying: int
    failed: int


def counts(connection: Connection, failed_since_ns: int) -> list[ChannelCount]:
    """Return counts per channel; failed notifications are counted after ``failed_since_ns``."""
    table = notification.c
    waiting = table.state.in_((WAITING, CLAIMED))
    retrying = waiting & table.error.is_not(None)
    failed = (table.state == FAILED) & (table.created_ns > failed_since_ns)

    def of(condition: ColumnElement[bool]) -> Any:
        return func.count().filter(condition)

    query = select(channel.c.name, of(waiting), of(retrying), of(failed)).join(
        channel, channel.c.id == table.channel_id
    )
    return [ChannelCount(*row) for row in connection.execute(query.group_by(channel.c.name))]


@dataclass(frozen=True, slots=True)
class Standing:
    """Delivery status of one channel: the last delivery, and the newest unresolved error."""

    sent_ns: int | None = None
    error: str = ""


UNKNOWN = Standing()
"""Status of a channel that has never sent anything."""


def standings(connection: Connection, failed_since_ns: int) -> dict[str, Standing]:
    """Return the status of each channel with notifications, by its id."""
    table = notification.c
    sent = select(table.channel_id, func.max(table.sent_ns)).group_by(table.channel_id)
    found = {row[0]: Standing(row[1]) for row in connection.execute(sent)}
    pending = table.state.in_((WAITING, CLAIMED)) | (
        (table.state == FAILED) & (table.created_ns > failed_since_ns)
    )
    newest = select(func.max(table.id)).where(pending, table.error.is_not(None)).group_by(table.channel_id)
    errors = select(table.channel_id, table.error).where(table.id.in_(newest))
    for channel_id, error in connection.execute(errors):
        found[channel_id] = Standing(found.get(channel_id, UNKNOWN).sent_ns, error)
    return found


def shift(connection: Connection, jump_ns: int) -> None:
    """Move the times of waiting and claimed notifications by ``jump_ns`` after the clock was set."""
    times = {name: notification.c[name] + jump_ns for name in ("due_ns", "lease_ns")}
    connection.execute(update(notification).where(notification.c.state.in_((WAITING, CLAIMED))).values(times))


def drop_unsent(connection: Connection, run_id: str) -> int:
    """Delete the notifications that are only about this run and not sent yet; return how many.

    The result of one that is being sent is dropped too.
    """
    others = aliased(notified_alert)
    about = select(notified_alert.c.notification_id).where(notified_alert.c.run_id == run_id)
    elsewhere = (
        select(others.c.run_id)
        .where(others.c.notification_id == notification.c.id, others.c.run_id != run_id)
        .exists()
    )
    unsent = notification.c.state.in_((WAITING, CLAIMED)) & notification.c.id.in_(about)
    ids = select(notification.c.id).where(unsent, ~elsewhere)
    found = list(connection.execute(ids).scalars())
    for table, column in ((delivery, delivery.c.notification_id), (notification, notification.c.id)):
        connection.execute(delete(table).where(column.in_(found)))
    return len(found)


def prune(connection: Connection, now_ns: int) -> int:
    """Delete done notifications that are old, too many, or only about deleted runs; return how many."""
    table = notification.c
    reported = (
        select(notified_alert.c.notification_id).where(notified_alert.c.notification_id == table.id).exists()
    )
    done = table.state.in_((SENT, FAILED))
    floor = connection.execute(select(table.id).order_by(table.id.desc()).offset(MOST_KEPT).limit(1)).scalar()
    old = or_(table.created_ns < now_ns - KEPT_NS, and_(table.kind != "test", ~reported))
    old = old if floor is None else or_(old, table.id <= floor)
    gone = connection.execute(delete(notification).where(done, old)).rowcount
    left = select(table.id).where(table.id == delivery.c.notification_id).exists()
    connection.execute(delete(delivery).where(~left))
    named = select(table.id).where(table.id == notified_alert.c.notification_id).exists()
    connection.execute(delete(notified_alert).where(~named))
    return gone


def _notification(row: Any) -> Notification:
    return Notification(**values_of(notification, row))
