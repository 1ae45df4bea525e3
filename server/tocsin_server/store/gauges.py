"""Counts over the tables, for ``/metrics``. One consistent snapshot, indexed columns only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from tocsin_server.store.alert_rows import OPEN_STATES
from tocsin_server.store.outbox import CLAIMED, WAITING, ChannelCount, counts
from tocsin_server.store.tables import alert, alert_transition, channel, notification, run


@dataclass(frozen=True, slots=True)
class Gauges:
    """Counts for ``/metrics``.

    Attributes:
        runs: Runs by state.
        alerts: Pending, firing and recovering alerts by (state, severity).
        channels: Deliveries by channel.
        oldest_s: Age in seconds of the oldest waiting notification, by channel.
        unrouted: Transitions that are not routed yet.
    """

    runs: Mapping[str, int]
    alerts: Mapping[tuple[str, str], int]
    channels: list[ChannelCount]
    oldest_s: Mapping[str, float]
    unrouted: int


def read_gauges(connection: Connection, now_ns: int, failed_since_ns: int) -> Gauges:
    """Return the current counts."""
    runs = connection.execute(select(run.c.state, func.count()).group_by(run.c.state))
    open_alerts = select(alert.c.state, alert.c.severity, func.count()).where(alert.c.state.in_(OPEN_STATES))
    alerts = connection.execute(open_alerts.group_by(alert.c.state, alert.c.severity))
    waits = notification.c.state.in_((WAITING, CLAIMED))
    oldest = select(channel.c.name, func.min(notification.c.created_ns)).join(
        notification, notification.c.channel_id == channel.c.id
    )
    unrouted = select(func.count()).where(alert_transition.c.routed_ns.is_(None))
    return Gauges(
        {row[0]: row[1] for row in runs},
        {(row[0], row[1]): row[2] for row in alerts},
        counts(connection, failed_since_ns),
        {
            row[0]: max(0.0, (now_ns - row[1]) / 1e9)
            for row in connection.execute(oldest.where(waits).group_by(channel.c.name))
        },
        connection.execute(unrouted.select_from(alert_transition)).scalar_one(),
    )
