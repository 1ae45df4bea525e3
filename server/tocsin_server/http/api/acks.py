"""``/alerts/{id}/ack`` and ``/alerts/{id}/history``: acknowledge an alert, and read its timeline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import StringConstraints
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.models import Alert, AlertState
from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.delivery.router import marks_of, routed_alerts_of, routing_of, silence_of
from tocsin_server.delivery.updates import show_acknowledged
from tocsin_server.http.api.deletion import actor_of
from tocsin_server.http.api.permission import Editor, Reader
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.shapes import AlertRow, DeliveryState
from tocsin_server.http.services import Services, services_of
from tocsin_server.runs.run_summary import alert_json
from tocsin_server.store import alert_groups, audit, notification_config
from tocsin_server.store.acks import Ack, Key, acks_in_force, add_ack
from tocsin_server.store.alert_rows import alert_key
from tocsin_server.store.alert_timeline import timeline_of
from tocsin_server.store.connection import Connection

router = resource("alerts")


class NewAck(Body):
    """A note for other users; may be empty."""

    note: Annotated[str, StringConstraints(strip_whitespace=True, max_length=1000)] = ""


class AckRow(TypedDict):
    """Who acknowledged an alert, when, and with which note."""

    by: str
    at_ms: float
    note: str


class AcknowledgedAlertRow(AlertRow):
    """An alert, and its acknowledgement; null if there is none or it was withdrawn."""

    ack: AckRow | None


class AlertMarks(TypedDict):
    """What currently keeps notifications of an open alert from being sent."""

    id: str
    ack: AckRow | None
    silenced_by: list[str]
    inhibited_by: list[str]


class LifeLine(TypedDict):
    """One entry in an alert's timeline: ``kind`` is transition, run, ack, unack or notification."""

    kind: Literal["transition", "run", "ack", "unack", "notification"]
    at_ms: float
    text: str
    state: AlertState | DeliveryState | Literal[""]
    by: str


class AlertLife(TypedDict):
    """An alert's timeline, oldest entry first, and its current marks."""

    items: list[LifeLine]
    marks: AlertMarks


@router.post("/alerts/{alert_id:path}/ack", response_model=AlertMarks)
async def acknowledge(request: Request, alert_id: str, wanted: NewAck, identity: Editor) -> ExactJSON:
    """Acknowledge an alert: reminders stop, but its end is still notified."""
    return await _act(request, alert_id, Ack(time.time_ns(), actor_of(identity), wanted.note))


@router.delete("/alerts/{alert_id:path}/ack", response_model=AlertMarks)
async def give_back(request: Request, alert_id: str, identity: Editor) -> ExactJSON:
    """Withdraw the acknowledgement: if the alert still fires, reminders resume."""
    return await _act(request, alert_id, Ack(time.time_ns(), actor_of(identity), "", undone=True))


@router.get("/alerts/{alert_id:path}/history", response_model=AlertLife)
def history(request: Request, alert_id: str, _identity: Reader) -> ExactJSON:
    """Return the timeline of an alert: transitions, acknowledgements and notifications."""
    key = known_key(alert_id)
    with services_of(request).database.reader.connect() as connection:
        lines = timeline_of(connection, alert_id, key)
        if not lines:
            raise _unknown(alert_id)
        marks = marks_now(connection, alert_id, key)
    return ExactJSON({"items": lines, "marks": marks})


async def _act(request: Request, alert_id: str, ack: Ack) -> ExactJSON:
    services, key = services_of(request), known_key(alert_id)
    if not await store_ack(services, key, ack):
        raise _unknown(alert_id)
    with services.database.reader.connect() as connection:
        return ExactJSON(marks_now(connection, alert_id, key))


async def store_ack(services: Services, key: Key, ack: Ack) -> bool:
    """Store an acknowledgement or its withdrawal and audit it; return False if there is no such alert."""
    return bool(await stored_acks(services, partial(_write, key=key, ack=ack), undone=ack.undone))


async def stored_acks(
    services: Services, write: Callable[[Connection], list[Key]], *, undone: bool
) -> list[Key]:
    """Run ``write`` on the writer thread, show its acknowledgements, and return their keys."""

    def stored(connection: Connection) -> list[Key]:
        keys = write(connection)
        show_acknowledged(connection, keys)
        return keys

    keys = await asyncio.wrap_future(services.writer.call(stored))
    for key in keys:
        services.pipeline.changes.acknowledge(f"{key[0]}.{key[1]}.{key[2]}", undone=undone)
    services.live.changed("acks")
    services.delivery.wake()
    return keys


def _write(connection: Connection, key: Key, ack: Ack) -> list[Key]:
    if not add_ack(connection, key, ack):
        return []
    action = "alert.unack" if ack.undone else "alert.ack"
    audit.note(connection, ack.at_ns, ack.actor, action, f"{key[0]}.{key[1]}.{key[2]}", {"note": ack.note})
    return [key]


def known_key(alert_id: str) -> Key:
    """Return the key of an alert id. Raises a 404 Problem if the id is malformed."""
    key = alert_key(alert_id)
    if key is None:
        raise _unknown(alert_id)
    return key


def _unknown(alert_id: str) -> Problem:
    return Problem(404, subject="alert", expected="the id of an alert", got=alert_id)


def marks_now(connection: Connection, alert_id: str, key: Key) -> dict[str, Any]:
    """Return the current marks of an alert. Raises a 404 Problem if there is no such alert."""
    known = alert_groups.known_alerts(connection, [key])
    if not known:
        raise _unknown(alert_id)
    now_ns = time.time_ns()
    silences = [silence_of(row) for row in notification_config.silences(connection, ending_after_ns=now_ns)]
    others = routed_alerts_of(alert_groups.open_alerts(connection, [key[0]]), ())
    routed_alerts = routed_alerts_of(known, ())
    marks = marks_of(routed_alerts.values(), others.values(), silences, routing_of(connection), now_ns)[
        alert_id
    ]
    ack = acks_in_force(connection, [key[0]]).get(key)
    return {
        "id": alert_id,
        "ack": ack_row(ack),
        "silenced_by": list(marks.silenced_by),
        "inhibited_by": list(marks.inhibited_by),
    }


def alert_row(alert: Alert, run_name: str, project: str, acks: Mapping[Key, Ack]) -> dict[str, Any]:
    """Return an alert as the API shows it, given the acknowledgements in force."""
    ack = acks.get((alert.run_id, alert.fingerprint, alert.episode))
    return {**alert_json(alert, run_name=run_name, project=project), "ack": ack_row(ack)}


def ack_row(ack: Ack | None) -> dict[str, Any] | None:
    """Return an acknowledgement as the API shows it."""
    return None if ack is None else {"by": ack.actor, "at_ms": ack.at_ns / 1e6, "note": ack.note}
