"""``/deliveries``: the delivery log with every attempt; ``/notifications``: browser notifications."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Annotated, Any, Literal, get_args

from fastapi import Query
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.responses import ExactJSON, Problem, shortened
from tocsin_server.delivery.browser_feed import note_of
from tocsin_server.http.api.permission import Editor, Reader
from tocsin_server.http.api.query import WHOLE, chosen, some_of
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.shapes import AlertRow, DeliveryState, row_of
from tocsin_server.http.services import services_of
from tocsin_server.store import notification_config, outbox
from tocsin_server.store.outbox import Attempt, Notification

router = resource("deliveries")

Limit = Annotated[int, Query(ge=1, le=1000), WHOLE]


class DeliveryAttempt(TypedDict):
    """One attempt: ``outcome`` is sent, retry or failed."""

    no: int
    at_ms: float
    took_ms: int
    outcome: Literal["sent", "retry", "failed"]
    detail: str


class DeliveryRow(TypedDict):
    """One notification to one channel; ``state`` is waiting, claimed, sent or failed."""

    id: str
    channel_id: str
    channel: str | None
    kind: str
    title: str
    state: DeliveryState
    created_ms: float
    due_ms: float | None
    sent_ms: float | None
    error: str | None
    attempts: list[DeliveryAttempt]


class DeliveryList(TypedDict):
    """Newest first; ``next`` is the cursor for ``before``, null at the end."""

    items: list[DeliveryRow]
    next: str | None


class DeliveredMessage(TypedDict):
    """A notification as plain text, without the links that acknowledge. Channels format it differently."""

    title: str
    text: str


class NotifiedAlert(AlertRow):
    """An alert when its notification was sent: ``new`` in its group, ``over``, or acknowledged."""

    new: bool
    over: bool
    acked: bool


class BrowserNote(TypedDict):
    """A browser notification."""

    id: str
    kind: str
    title: str
    created_ms: float
    reason: str
    alerts: list[NotifiedAlert]


class BrowserNotes(TypedDict):
    """Oldest first; ``next`` is the cursor for ``after``."""

    items: list[BrowserNote]
    next: str | None


@router.get("/deliveries", response_model=DeliveryList)
def deliveries(
    request: Request,
    _identity: Reader,
    channel: str | None = None,
    state: Annotated[str | None, some_of(get_args(DeliveryState))] = None,
    before: str | None = None,
    limit: Limit = 100,
) -> ExactJSON:
    """Return the delivery log."""
    states = chosen("state", state, get_args(DeliveryState))
    with services_of(request).database.reader.connect() as connection:
        ids = None if channel is None else [channel]
        found = outbox.listed(connection, channel_ids=ids, states=states, before=before, limit=limit)
        log = outbox.attempts_of(connection, [item.id for item in found])
        names = {row.id: row.name for row in notification_config.channels(connection)}
    items = [delivery_row(item, names.get(item.channel_id), log.get(item.id, [])) for item in found]
    return ExactJSON({"items": items, "next": found[-1].id if len(found) == limit else None})


@router.get("/deliveries/{notification_id}/message", response_model=DeliveredMessage)
def message(request: Request, notification_id: str, _identity: Reader) -> ExactJSON:
    """Return what a notification says. Runs that were deleted since are left out."""
    services = services_of(request)
    with services.database.reader.connect() as connection:
        item = outbox.read(connection, notification_id)
    if item is None:
        raise Problem(
            404,
            subject="notification",
            expected="the id of a notification",
            got=notification_id,
            detail=f"There is no notification with id {shortened(notification_id)}.",
        )
    shown = services.delivery.shown(item)
    return ExactJSON({"title": shown.title, "text": shown.text})


@router.post("/deliveries/{notification_id}/retry", response_model=DeliveryRow)
async def retry(request: Request, notification_id: str, _identity: Editor) -> ExactJSON:
    """Send a failed notification again, immediately."""
    services = services_of(request)
    again = partial(outbox.retry, notification_id=notification_id, now_ns=time.time_ns())
    if not await asyncio.wrap_future(services.writer.call(again)):
        detail = f"There is no failed notification with id {shortened(notification_id)}."
        raise Problem(
            404,
            subject="notification",
            expected="the id of one that failed",
            got=notification_id,
            detail=detail,
        )
    services.delivery.wake()
    with services.database.reader.connect() as connection:
        item = outbox.read(connection, notification_id)
        assert item is not None
        log = outbox.attempts_of(connection, [item.id])
        row = notification_config.read_channel(connection, item.channel_id)
    return ExactJSON(delivery_row(item, row.name if row else None, log.get(item.id, [])))


@router.get("/notifications", response_model=BrowserNotes)
def notifications(
    request: Request, _identity: Reader, after: str | None = None, limit: Limit = 100
) -> ExactJSON:
    """List the notifications of browser channels; without ``after``, the newest."""
    with services_of(request).database.reader.connect() as connection:
        ids = [
            row.id
            for row in notification_config.channels(connection)
            if row.kind == "browser" and row.enabled
        ]
        found = outbox.listed(connection, channel_ids=ids, states=[outbox.SENT], after=after, limit=limit)
    ordered = sorted(found, key=lambda item: item.id)
    items = [note_of(item) for item in ordered]
    return ExactJSON({"items": items, "next": ordered[-1].id if ordered else after})


def delivery_row(item: Notification, channel: str | None, log: list[Attempt]) -> dict[str, Any]:
    """Return a notification with its attempts as the API shows it."""
    return row_of(
        DeliveryRow,
        item,
        channel=channel,
        due_ms=item.due_ns / 1e6 if item.state == outbox.WAITING else None,
        attempts=[row_of(DeliveryAttempt, attempt) for attempt in log],
    )
