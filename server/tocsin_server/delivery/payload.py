"""Build the stored form of a notification: its title for lists, and the data of its message. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin_server.core import exact_json
from tocsin_server.core.models import RUN_FAILED
from tocsin_server.notify.grouping import Batch
from tocsin_server.notify.labels import RoutedAlert
from tocsin_server.runs.run_summary import alert_json
from tocsin_server.store.alert_groups import GroupRow

MOST_REPORTED = 50
"""Number of alerts that one notification describes; the others are counted."""


def every(batch: Batch, routed_alerts: Mapping[str, RoutedAlert]) -> list[str]:
    """Return the ids of everything that is notified: failed runs first, then what is new."""
    names = list(dict.fromkeys([*batch.new, *batch.firing, *batch.over]))
    return sorted(names, key=lambda name: not _leads(routed_alerts[name], batch))


def _leads(routed: RoutedAlert, batch: Batch) -> bool:
    """Return whether this is the failure of a run, or its continuation if nothing else is new."""
    continues = routed.over and not routed.ended
    return routed.alert.rule == RUN_FAILED and not (continues and batch.new)


def title_of(batch: Batch, routed_alerts: Mapping[str, RoutedAlert]) -> str:
    """Return the title for lists: what happened, and in which run."""
    names = every(batch, routed_alerts)
    first = routed_alerts[names[0]]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{first.alert.rule}{more}: {first.run_name}"


def body_of(
    row: GroupRow, batch: Batch, routed_alerts: Mapping[str, RoutedAlert], incident: str = ""
) -> dict[str, Any]:
    """Return the data of a message: the alerts as they are now, bounded in size.

    ``incident``: the incident that all of them belong to, if the channel gets one message for each.
    """
    names = every(batch, routed_alerts)
    alerts = [
        _alert(routed_alerts[name], name in batch.new, name in batch.over) for name in names[:MOST_REPORTED]
    ]
    about = {"incident": incident} if incident else {}
    return about | {
        "reason": batch.reason,
        "route": row.route,
        "group_labels": dict(row.labels),
        "alerts": exact_json.plain(alerts),
        "left_out": max(0, len(names) - MOST_REPORTED),
    }


def _alert(routed: RoutedAlert, new: bool, over: bool) -> dict[str, Any]:
    row = alert_json(routed.alert, run_name=routed.run_name, project=routed.project)
    return row | {"labels": routed.labels, "new": new, "over": over, "acked": routed.acked}
