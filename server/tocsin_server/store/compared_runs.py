"""Read what a comparison shows of many runs besides their series. Functions of a Connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, Connection, bindparam, func, select

from tocsin_server.core.models import AlertState, RunState, Severity
from tocsin_server.store.alert_rows import OPEN_STATES
from tocsin_server.store.damage import checked, choice, texts
from tocsin_server.store.series_window import NS_PER_MS
from tocsin_server.store.tables import alert, run

MOST_ALERTS = 50
"""Alerts of one run in each state that is over, the newest; all that are not over are read."""


@dataclass(frozen=True, slots=True)
class AlertLine:
    """An alert without its diagnosis."""

    id: str
    run_id: str
    rule: str
    severity: Severity
    state: AlertState
    onset_step: int | None
    onset_ms: int
    fired_ms: int | None
    summary: str


class ComparedRun(NamedTuple):
    """A run in a comparison."""

    id: str
    project: str
    name: str
    state: RunState
    tags: list[str]
    config: Any


_SOME: BindParameter[Sequence[str]] = bindparam("of_runs", expanding=True)
_RUNS = select(run.c.id, run.c.project, run.c.name, run.c.state, run.c.tags, run.c.config).where(
    run.c.id.in_(_SOME)
)
_KEYS = (alert.c.run_id, alert.c.fingerprint, alert.c.episode)
_RANKED = (
    select(
        *_KEYS,
        *(alert.c.rule, alert.c.severity, alert.c.state, alert.c.summary),
        *(alert.c.onset_step, alert.c.onset_ns, alert.c.fired_ns, alert.c.updated_ns),
        func.row_number()
        .over(partition_by=(alert.c.run_id, alert.c.state), order_by=(alert.c.updated_ns.desc(), *_KEYS))
        .label("place"),
    )
    .where(alert.c.run_id.in_(_SOME))
    .subquery()
)
_ALERTS = (
    select(_RANKED)
    .where((_RANKED.c.place <= MOST_ALERTS) | _RANKED.c.state.in_(OPEN_STATES))
    .order_by(_RANKED.c.run_id, _RANKED.c.updated_ns.desc(), _RANKED.c.fingerprint)
)


def read_compared(connection: Connection, run_ids: Sequence[str]) -> dict[str, ComparedRun]:
    """Return those of these runs that exist, by id."""
    return {
        row.id: ComparedRun(
            row.id,
            row.project,
            row.name,
            choice(RunState.LOST, row.state, run, row, "state"),
            list(texts(checked(row.tags, run, row, "tags"))),
            checked(row.config, run, row, "config"),
        )
        for row in connection.execute(_RUNS, {"of_runs": list(run_ids)})
    }


def read_compared_alerts(connection: Connection, run_ids: Sequence[str]) -> dict[str, list[AlertLine]]:
    """Return the alerts of these runs by run, the newest change first."""
    found: dict[str, list[AlertLine]] = {run_id: [] for run_id in run_ids}
    for row in connection.execute(_ALERTS, {"of_runs": list(run_ids)}):
        found[row.run_id].append(
            AlertLine(
                f"{row.run_id}.{row.fingerprint}.{row.episode}",
                row.run_id,
                row.rule,
                choice(Severity.CRITICAL, row.severity, alert, row, "severity"),
                choice(AlertState.RESOLVED, row.state, alert, row, "state"),
                row.onset_step,
                row.onset_ns // NS_PER_MS,
                None if row.fired_ns is None else row.fired_ns // NS_PER_MS,
                row.summary,
            )
        )
    return found
