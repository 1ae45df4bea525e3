"""What a notification is stored as: its line for lists, and what its message is built from. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin_server.core import exact_json
from tocsin_server.delivery.run_failures import run_row
from tocsin_server.notify.grouping import Batch
from tocsin_server.notify.labels import AlertFacts
from tocsin_server.runs.run_summary import alert_json
from tocsin_server.store.alert_groups import GroupRow

MOST_TOLD = 50
"""Alerts that one notification tells of in full; the others are counted."""


def every(batch: Batch, facts: Mapping[str, AlertFacts]) -> list[str]:
    """The ids of all that is told, runs that failed first, then what is new."""
    names = list(dict.fromkeys([*batch.new, *batch.firing, *batch.resolved]))
    return sorted(names, key=lambda name: facts[name].failure is None)


def title_of(batch: Batch, facts: Mapping[str, AlertFacts]) -> str:
    """One line for lists: what, and of which run."""
    names = every(batch, facts)
    first = facts[names[0]]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{first.alert.rule}{more}: {first.run_name}"


def body_of(row: GroupRow, batch: Batch, facts: Mapping[str, AlertFacts]) -> dict[str, Any]:
    """What the message is built from: runs and alerts as they are now, bounded."""
    names = every(batch, facts)
    told = names[:MOST_TOLD]
    runs = [run_row(facts[name], name in batch.resolved) for name in told if facts[name].failure is not None]
    alerts = [
        _alert(facts[name], name in batch.new, name in batch.resolved)
        for name in told
        if facts[name].failure is None
    ]
    return {
        "reason": batch.reason,
        "route": row.route,
        "group_labels": dict(row.labels),
        "alerts": exact_json.plain(alerts),
        "runs": exact_json.plain(runs),
        "left_out": max(0, len(names) - MOST_TOLD),
    }


def _alert(fact: AlertFacts, new: bool, over: bool) -> dict[str, Any]:
    row = alert_json(fact.alert, run_name=fact.run_name, project=fact.project)
    return row | {"labels": fact.labels, "new": new, "over": over, "acked": fact.acked}
