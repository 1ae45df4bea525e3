"""``POST /routes/test`` and ``POST /silences/test``: try a document on the alerts that are open now.

Nothing is stored and nothing is sent.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

from pydantic import Field, StringConstraints
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.responses import ExactJSON
from tocsin_server.delivery.router import MIRRORED, marks_of, routed_alerts_of, routing_of, silence_of
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.routes import check_channels
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import services_of
from tocsin_server.notify.labels import NO_MARKS, Labels, Marks, RoutedAlert
from tocsin_server.notify.matching import all_hold
from tocsin_server.notify.routing import MatchedRoute, Routing, match_of, read_routing
from tocsin_server.notify.silences import read_matchers
from tocsin_server.store import alert_groups, notification_config
from tocsin_server.store.connection import Connection

router = resource("routes")

MOST_TRIED = 200
"""Maximum number of open alerts that are shown, newest first."""
MOST_LABELS = 100
Short = Annotated[str, StringConstraints(max_length=1000)]


class RoutesTrial(Body):
    """``routing``: the document to test, null for the one in effect. ``labels``: those of a hypothetical
    alert, null for all open alerts.
    """

    routing: dict[str, Any] | None = None
    labels: Annotated[dict[Short, Short], Field(max_length=MOST_LABELS)] | None = None


class MatchedRouteRow(TypedDict):
    """A route that matches the alert: its channels, group, wait time, and whether it is muted now."""

    name: str
    channels: list[str]
    group: dict[str, str]
    wait_s: float
    muted: bool


class TrialRow(TypedDict):
    """The routes of one alert; ``alert`` is null for a hypothetical one. Imported alerts are never sent."""

    alert: str | None
    labels: dict[str, str]
    routes: list[MatchedRouteRow]
    silenced_by: list[str]
    inhibited_by: list[str]
    imported: bool


class RoutesAnswer(TypedDict):
    """The routes of open alerts; ``left_out`` counts those beyond the newest 200."""

    items: list[TrialRow]
    left_out: int


class SilenceTrial(Body):
    """Matchers of a silence to test."""

    matchers: list[str]


class SilenceAnswer(TypedDict):
    """Ids of the matching open alerts, and the number of open alerts."""

    items: list[str]
    open: int


@router.post("/routes/test", response_model=RoutesAnswer)
def try_routes(request: Request, wanted: RoutesTrial, _identity: Reader) -> ExactJSON:
    """Return the routes that match the open alerts, or an alert with the given labels."""
    with services_of(request).database.reader.connect() as connection:
        routing = _routing(connection, wanted.routing)
        names = [
            row.name
            for row in notification_config.channels(connection)
            if row.enabled and row.kind != MIRRORED
        ]
        if wanted.labels is not None:
            row = _row(None, wanted.labels, match_of(routing, wanted.labels, names, time.time_ns()))
            return ExactJSON({"items": [row], "left_out": 0})
        return ExactJSON(ways_of_open(connection, routing, names, time.time_ns()))


@router.post("/silences/test", response_model=SilenceAnswer)
def try_silence(request: Request, wanted: SilenceTrial, _identity: Reader) -> ExactJSON:
    """Return the open alerts that a silence with these matchers would mute."""
    matchers = read_matchers(wanted.matchers)
    with services_of(request).database.reader.connect() as connection:
        routed_alerts = routed_alerts_of(alert_groups.open_alerts(connection), ())
    matching = [name for name, routed in routed_alerts.items() if all_hold(matchers, routed.labels)]
    return ExactJSON({"items": matching, "open": len(routed_alerts)})


def _routing(connection: Connection, body: dict[str, Any] | None) -> Routing:
    """Return the document to test. Raises a 422 Problem that names an invalid field."""
    if body is None:
        return routing_of(connection)
    routing = read_routing(body)
    check_channels(connection, routing)
    return routing


def ways_of_open(
    connection: Connection, routing: Routing, channels: list[str], now_ns: int
) -> dict[str, Any]:
    """Return the routes of each open alert, newest first, and what would mute it."""
    every = routed_alerts_of(alert_groups.open_alerts(connection), ())
    newest = sorted(every.values(), key=lambda routed: routed.alert.onset_ns or 0, reverse=True)
    tried = newest[:MOST_TRIED]
    rows = notification_config.silences(connection, ending_after_ns=now_ns)
    silences = [silence_of(row) for row in rows]
    marks = marks_of(tried, every.values(), silences, routing, now_ns)
    items = [
        _tried(routed, marks[routed.alert.id], match_of(routing, routed.labels, channels, now_ns))
        for routed in tried
    ]
    return {"items": items, "left_out": len(newest) - len(tried)}


def _tried(routed: RoutedAlert, marks: Marks, way: list[MatchedRoute]) -> dict[str, Any]:
    return _row(routed.alert.id, routed.labels, way, marks, routed.imported)


def _row(
    alert: str | None,
    labels: Labels,
    way: list[MatchedRoute],
    marks: Marks = NO_MARKS,
    imported: bool = False,
) -> dict[str, Any]:
    return {
        "alert": alert,
        "labels": dict(labels),
        "routes": [row_of(MatchedRouteRow, taken, name=taken.route.name) for taken in way],
        "silenced_by": list(marks.silenced_by),
        "inhibited_by": list(marks.inhibited_by),
        "imported": imported,
    }
