"""``GET /alerts/marks``: which open alerts are acknowledged, silenced or inhibited."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.responses import ExactJSON
from tocsin_server.delivery.router import key_of, marks_of, routed_alerts_of, routing_of, silence_of
from tocsin_server.http.api.acks import AlertMarks, ack_row
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.silences import SilenceItem, silence_item
from tocsin_server.http.services import services_of
from tocsin_server.notify.labels import Marks
from tocsin_server.store import alert_groups, notification_config
from tocsin_server.store.acks import Ack, acks_in_force
from tocsin_server.store.connection import Connection

router = resource("alerts")


ENDED = 1000
"""Maximum number of alerts whose run ended while they were firing."""


class MarkList(TypedDict):
    """Open and ended alerts that have a mark, and the silences that match any of them."""

    items: list[AlertMarks]
    silences: list[SilenceItem]


@router.get("/alerts/marks", response_model=MarkList)
def all_marks(request: Request, _identity: Reader) -> ExactJSON:
    """List the marks of all open and ended alerts that have any."""
    with services_of(request).database.reader.connect() as connection:
        return ExactJSON(every_mark(connection, time.time_ns()))


def every_mark(connection: Connection, now_ns: int) -> dict[str, Any]:
    """Return the marks of all open alerts and of the newest ended ones, and the silences among them."""
    known = alert_groups.open_alerts(connection) | alert_groups.ended_alerts(connection, ENDED)
    acks = acks_in_force(connection, {key[0] for key in known})
    routed_alerts = routed_alerts_of(known, acks)
    rows = notification_config.silences(connection, ending_after_ns=now_ns)
    routing = routing_of(connection)
    silences = [silence_of(row) for row in rows]
    marks = marks_of(routed_alerts.values(), routed_alerts.values(), silences, routing, now_ns)
    items = [marks_row(name, acks.get(key_of(name)), marks[name]) for name in routed_alerts]
    reported = [item for item in items if item["ack"] or item["silenced_by"] or item["inhibited_by"]]
    named = {name for item in reported for name in item["silenced_by"]}
    return {"items": reported, "silences": [silence_item(row) for row in rows if row.id in named]}


def marks_row(alert_id: str, ack: Ack | None, marks: Marks) -> dict[str, Any]:
    """Return the marks of one alert as the API shows them."""
    return {
        "id": alert_id,
        "ack": ack_row(ack),
        "silenced_by": list(marks.silenced_by),
        "inhibited_by": list(marks.inhibited_by),
    }
