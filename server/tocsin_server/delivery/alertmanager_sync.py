"""Keep Alertmanagers up to date: push firing alerts repeatedly, and resolved ones for a while.

This needs no outbox: after a failed push, the next one sends the current state. Alertmanager does its own
grouping, repeating and silencing. Routes decide what it gets, and silences and inhibitions of tocsin apply to
it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin_server.core.models import AlertState
from tocsin_server.delivery.router import MIRRORED, marks_of, routed_alerts_of, routing_of, silence_of
from tocsin_server.notify.channels.alertmanager import alert_of, watchdog
from tocsin_server.notify.routing import channels_of
from tocsin_server.store import alert_groups, notification_config
from tocsin_server.store.acks import acks_in_force
from tocsin_server.store.connection import Connection
from tocsin_server.store.notification_config import ChannelRow
from tocsin_server.store.periodic_jobs import PeriodicJob

RESOLVED_NS = 15 * 60 * 10**9
"""How long resolved alerts are pushed, in case Alertmanager was down."""
ENDED_NS = 3 * 86_400 * 10**9
"""How long an alert that was firing when its run ended is pushed as firing, unless it is acknowledged."""


def pictures(
    connection: Connection, base: str, started_ns: int, now_ns: int, work: PeriodicJob | None = None
) -> list[tuple[ChannelRow, list[Any]]]:
    """Return the alerts to push to each enabled Alertmanager, and the watchdog alert."""
    rows = [row for row in notification_config.channels(connection) if row.enabled and row.kind == MIRRORED]
    if not rows:
        return []
    over = alert_groups.lately_over(connection, now_ns - RESOLVED_NS, now_ns - ENDED_NS)
    known = alert_groups.open_alerts(connection) | over
    routed_alerts = routed_alerts_of(known, acks_in_force(connection, {key[0] for key in over}))
    routing = routing_of(connection)
    work = work or PeriodicJob("alertmanagers")
    silences = [silence_of(row) for row in notification_config.silences(connection, ending_after_ns=now_ns)]
    marks = marks_of(routed_alerts.values(), routed_alerts.values(), silences, routing, now_ns, work)
    reported: Mapping[str, list[Any]] = {
        row.name: [watchdog(base, started_ns / 1e9, now_ns / 1e9)] for row in rows
    }
    for routed in routed_alerts.values():
        if routed.imported or routed.alert.late or routed.alert.state is AlertState.PENDING:
            continue
        with work.isolated(f"run {routed.alert.run_id}"):
            quiet = marks[routed.alert.id].suppressed and not routed.over
            names = {
                name for route in routing.routes_of(routed.labels) for name in channels_of(route, reported)
            }
            item = alert_of(routed, base, now_ns / 1e9, marked_over=quiet)
            for name in names:
                reported[name].append(item)
    return [(row, reported[row.name]) for row in rows]
