"""Store failed runs for notification, as rows of ``alert_transition`` without an alert.

No rule reports a failure of a run, so it has no alert. It uses the
inbox of the transitions (``routed_ns`` is null) and is written in the transaction that ends its run. Its
key is (run, :data:`FINGERPRINT`, attempt), which no alert can have, because fingerprints of alerts
are hexadecimal. Functions of a Connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, select, tuple_

from tocsin_server.core.models import Failure, RunState, Severity
from tocsin_server.store.acks import Key
from tocsin_server.store.damage import choice, texts
from tocsin_server.store.tables import alert_transition, attempt, event, run

FINGERPRINT = "failed"
FAILED, LATE = "failed", "failed-late"
"""``state`` of such a row: whether the failure was reported in time or late."""


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A failure with the current metadata of its run. ``over``: the run continues in another attempt."""

    failure: Failure
    run_name: str
    project: str
    host: str
    tags: tuple[str, ...]
    imported: bool
    over: bool
    error: Mapping[str, Any]
    ended_ns: int | None


def failure_row(failure: Failure) -> dict[str, Any]:
    """Return the row of a failure, not routed yet."""
    return {
        "run_id": failure.run_id,
        "fingerprint": FINGERPRINT,
        "episode": failure.attempt_no,
        "state": LATE if failure.late else FAILED,
        "severity": failure.severity,
        "previous": None,
        "at_ns": failure.at_ns,
        "step": failure.step,
        "summary": failure.summary,
    }


def known_failures(connection: Connection, keys: Iterable[Key]) -> dict[Key, KnownFailure]:
    """Return the failures among these keys; those of deleted runs are missing."""
    wanted = sorted(key for key in set(keys) if key[1] == FINGERPRINT)
    line = alert_transition.c
    return (
        _known(connection, tuple_(line.run_id, line.fingerprint, line.episode).in_(wanted)) if wanted else {}
    )


def lately_failed(connection: Connection, since_ns: int) -> dict[Key, KnownFailure]:
    """Return the failures after ``since_ns``."""
    line = alert_transition.c
    return _known(connection, (line.fingerprint == FINGERPRINT) & (line.at_ns > since_ns))


def turns(connection: Connection, run_id: str, since_ns: int, until_ns: int | None) -> list[tuple[int, str]]:
    """Return the failures and new attempts of a run while an alert of it was open, as (Unix ns, sentence)."""
    line, last = alert_transition.c, until_ns or (1 << 62)
    failed = select(line.at_ns, line.summary).where(line.run_id == run_id, line.fingerprint == FINGERPRINT)
    begun = select(attempt.c.started_ns, attempt.c.attempt_no).where(attempt.c.run_id == run_id)
    found = [
        (row.at_ns, f"The run failed: {row.summary}")
        for row in connection.execute(failed.where(line.at_ns.between(since_ns, last)))
    ]
    found += [
        (row.started_ns, f"Attempt {row.attempt_no} began")
        for row in connection.execute(begun.where(attempt.c.started_ns.between(since_ns + 1, last)))
        if row.attempt_no > 1
    ]
    return sorted(found)


def _known(connection: Connection, condition: Any) -> dict[Key, KnownFailure]:
    imported = select(event.c.run_id).where(event.c.run_id == run.c.id, event.c.kind == "imported").exists()
    newest = (
        select(func.max(attempt.c.attempt_no))
        .where(attempt.c.run_id == run.c.id)
        .correlate(run)
        .scalar_subquery()
    )
    columns = (
        run.c.name,
        run.c.project,
        run.c.host,
        run.c.tags,
        run.c.environment,
        run.c.error,
        run.c.ended_ns,
    )
    query = select(
        alert_transition,
        *columns,
        run.c.state.label("run_state"),
        newest.label("newest"),
        imported.label("imported"),
    ).join(run, run.c.id == alert_transition.c.run_id)
    return {
        (row.run_id, row.fingerprint, row.episode): _failure(row)
        for row in connection.execute(query.where(condition))
    }


def _failure(row: Row[Any]) -> KnownFailure:
    over = row.run_state != RunState.FAILED or (row.newest or 0) > row.episode
    severity = choice(Severity.CRITICAL, row.severity, alert_transition, row, "severity")
    reported = Failure(
        row.run_id, row.episode, severity, row.at_ns, row.step, row.summary, late=row.state == LATE
    )
    return KnownFailure(
        reported,
        row.name,
        row.project,
        row.host,
        texts(row.tags),
        bool(row.imported) or "imported" in (row.environment or {}),
        over,
        {} if over else dict(row.error or {}),
        row.ended_ns,
    )
