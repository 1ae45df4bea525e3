"""Convert runs, attempts, writers and series to rows and back. Functions of a Connection."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, Row, Select, bindparam, func, select, tuple_, update

from tocsin_server.core.models import RunState, Writer
from tocsin_server.store.alert_rows import OPEN_STATES
from tocsin_server.store.arrays import Points
from tocsin_server.store.chunk_reader import tail_points
from tocsin_server.store.chunks import rows_of
from tocsin_server.store.damage import choice, texts, valid_environment, values_of
from tocsin_server.store.results import StoredAttempt, StoredRun, StoredSeries, StoredWriter
from tocsin_server.store.series_window import writer_rows
from tocsin_server.store.tables import alert, attempt, deletion, event, latest, run, series
from tocsin_server.store.writer_cache import series_numbers

ENDED = (RunState.FINISHED, RunState.FAILED)


class ListedRun(NamedTuple):
    """One run in a list."""

    id: str
    project: str
    state: RunState
    created_ns: int


def existing(connection: Connection, run_ids: Iterable[str]) -> set[str]:
    """Return those of these runs that are not deleted."""
    return set(connection.execute(select(run.c.id).where(run.c.id.in_(sorted(run_ids)))).scalars())


def read_runs(
    connection: Connection, *, active: bool = False, run_ids: Collection[str] | None = None
) -> list[StoredRun]:
    """Return all runs or these, newest first; with ``active`` only those that have not ended."""
    query = _rows().order_by(run.c.created_ns.desc(), run.c.id)
    counted = select(attempt.c.run_id, func.count().label("n")).group_by(attempt.c.run_id)
    if active:
        query = query.where(run.c.state.not_in(ENDED))
    if run_ids is not None:
        query, counted = query.where(run.c.id.in_(run_ids)), counted.where(attempt.c.run_id.in_(run_ids))
    attempts = {row.run_id: row.n for row in connection.execute(counted)}
    return [_facts(row, attempts.get(row.id, 0)) for row in connection.execute(query)]


def read_unsettled(connection: Connection) -> list[StoredRun]:
    """Return the failed runs with an alert that is not over."""
    waits = select(alert.c.run_id).where(alert.c.run_id == run.c.id, alert.c.state.in_(OPEN_STATES))
    query = _rows().where(run.c.state == RunState.FAILED, waits.exists())
    return [_facts(row, 0) for row in connection.execute(query)]


def created_ns(connection: Connection, run_id: str) -> int | None:
    """Return when a run was created, or None if there is no such run."""
    found: int | None = connection.execute(select(run.c.created_ns).where(run.c.id == run_id)).scalar()
    return found


def listed(
    connection: Connection,
    *,
    project: str | None = None,
    ids: Collection[str] | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> list[ListedRun]:
    """Return what is needed to select runs, newest first; skips the stored summaries.

    Args:
        connection: The database.
        project: Only the runs of this project.
        ids: Only these runs.
        after: Only the runs that follow this one.
        limit: Maximum number of runs.

    Raises:
        LookupError: There is no run ``after``, or it is in another project.
    """
    place = (run.c.created_ns, run.c.id)
    wanted = select(run.c.id, run.c.project, run.c.state, run.c.created_ns)
    if project is not None:
        wanted = wanted.where(run.c.project == project)
    if after is not None:
        last = connection.execute(wanted.where(run.c.id == after)).first()
        if last is None:
            raise LookupError(after)
        wanted = wanted.where(tuple_(*place) < tuple_(last.created_ns, last.id))
    if ids is not None:
        wanted = wanted.where(run.c.id.in_(ids))
    wanted = wanted.order_by(*(column.desc() for column in place)).limit(limit)
    return [
        ListedRun(row.id, row.project, choice(RunState.LOST, row.state, run, row, "state"), row.created_ns)
        for row in connection.execute(wanted)
    ]


def configs(connection: Connection, project: str | None = None) -> dict[str, Any]:
    """Return the configurations of all runs, or of those of one project, by run; unset ones are left out."""
    wanted = select(run.c.id, run.c.config)
    if project is not None:
        wanted = wanted.where(run.c.project == project)
    return {row.id: row.config for row in connection.execute(wanted) if row.config is not None}


def fill_board(connection: Connection, run_id: str, board: Mapping[str, Any]) -> None:
    """Store the summary of a run if none is stored."""
    connection.execute(update(run).where(run.c.id == run_id, run.c.summary.is_(None)).values(summary=board))


def is_there(connection: Connection, run_id: str) -> bool:
    """Return whether there is such a run."""
    return connection.execute(select(run.c.id).where(run.c.id == run_id)).first() is not None


def read_run(connection: Connection, run_id: str) -> StoredRun | None:
    """Return one run with its attempts, writers and series, including unsealed records, or None."""
    row = connection.execute(_HEAD, {"of_run": run_id}).first()
    if row is None:
        return None
    found = writer_rows(connection, run_id)
    tails = {
        w.writer_no: tail_points(connection, run_id, w.writer_no, w.sealed_seq, skip_damaged=True)
        for w in found
    }
    events = _event_counts(connection, run_id)
    last_ns = _last_ns(connection, run_id)
    writers = tuple(_writer(w, tails[w.writer_no], events.get(w.writer_no, 0)) for w in found)
    rows = connection.execute(_ATTEMPTS, {"of_run": run_id}).all()
    attempts = tuple(_attempt(each, writers, last_ns) for each in rows)
    reached = [each.last_step for each in attempts if each.last_step is not None]
    return replace(
        _facts(row, len(attempts)),
        last_step=reached[-1] if reached else row.last_step,  # the row is updated only now and then
        attempts_list=attempts,
        writers=writers,
        series=_series(connection, run_id, found, tails),
    )


def read_head(connection: Connection, run_id: str) -> StoredRun | None:
    """Return one run with the times of its attempts, without what depends on its records, or None."""
    row = connection.execute(_HEAD, {"of_run": run_id}).first()
    if row is None:
        return None
    found = connection.execute(_ATTEMPTS, {"of_run": run_id})
    attempts = tuple(StoredAttempt(one.attempt_no, one.started_ns, None, None) for one in found)
    return replace(_facts(row, len(attempts)), attempts_list=attempts)


def _rows() -> Select[Any]:
    """Return a query for runs, each with the time of its scheduled deletion."""
    return select(run, deletion.c.due_ns).outerjoin(deletion, deletion.c.run_id == run.c.id)


_HEAD = _rows().where(run.c.id == bindparam("of_run"))
_ATTEMPTS = select(attempt).where(attempt.c.run_id == bindparam("of_run")).order_by(attempt.c.attempt_no)


def _facts(row: Row[Any], attempts: int) -> StoredRun:
    state = choice(RunState.LOST, row.state, run, row, "state")
    values = values_of(run, row)
    values |= {
        "state": state,
        "environment": valid_environment(values["environment"]),
        "tags": list(texts(values["tags"])),
    }
    return StoredRun(**values, attempts=attempts, deletion_ns=row.due_ns)


def _event_counts(connection: Connection, run_id: str) -> dict[int, int]:
    query = select(event.c.writer_no, func.count().label("n")).where(event.c.run_id == run_id)
    return {row.writer_no: row.n for row in connection.execute(query.group_by(event.c.writer_no))}


def _last_ns(connection: Connection, run_id: str) -> dict[int, int]:
    """Return when the newest record or event of each writer was made."""
    found: dict[int, int] = {}
    for table in (latest, event):
        newest = select(table.c.writer_no, func.max(table.c.time_ns).label("at_ns"))
        for row in connection.execute(newest.where(table.c.run_id == run_id).group_by(table.c.writer_no)):
            found[row.writer_no] = max(row.at_ns, found.get(row.writer_no, row.at_ns))
    return found


def _writer(row: Row[Any], unsealed: Points, events: int) -> StoredWriter:
    ends = [] if row.first_step is None else [row.first_step, row.last_step]
    ends += [int(unsealed.step.min()), int(unsealed.step.max())] if unsealed.n else []
    who = Writer(row.run_id, row.writer_no, row.attempt_no, row.rank)
    return StoredWriter(
        who,
        row.host,
        row.pid,
        row.handshake_ns,
        row.sealed_records + unsealed.n,
        events,
        min(ends, default=None),
        max(ends, default=None),
    )


def _attempt(row: Row[Any], writers: Iterable[StoredWriter], last_ns: Mapping[int, int]) -> StoredAttempt:
    own = [w for w in writers if w.writer.attempt_no == row.attempt_no]
    first = min((w.first_step for w in own if w.first_step is not None), default=None)
    last = max((w.last_step for w in own if w.last_step is not None), default=None)
    ends_ns = [last_ns[w.writer.writer_no] for w in own if w.writer.writer_no in last_ns]
    return StoredAttempt(row.attempt_no, row.started_ns, first, last, max(ends_ns, default=None))


def _series(
    connection: Connection, run_id: str, writers: list[Row[Any]], tails: dict[int, Points]
) -> tuple[StoredSeries, ...]:
    """Return each series over all writers, in order of first appearance."""
    names = {col: name for name, col in series_numbers(connection, run_id).items()}
    found = connection.execute(select(series).where(series.c.run_id == run_id)).all()
    sealed = {(row.writer_no, row.col_id): row for row in found}
    out = []
    for col, name in sorted(names.items()):
        reported = [
            stored
            for who in writers
            if (stored := _of_writer(name, sealed.get((who.writer_no, col)), tails[who.writer_no], col))
        ]
        if reported:
            out.append(_over_writers(reported))
    return tuple(out)


def _of_writer(name: str, row: Row[Any] | None, unsealed: Points, col: int) -> StoredSeries | None:
    sealed = None if row is None else StoredSeries(name, row.n, row.first_step, row.last_step, row.last_value)
    column = unsealed.columns.get(col)
    if column is None:
        return sealed
    step = unsealed.step[rows_of(column, unsealed.n)]
    newer = StoredSeries(name, len(step), int(np.min(step)), int(step[-1]), float(column.v[-1]))
    if sealed is None:
        return newer
    return replace(newer, n=newer.n + sealed.n, first_step=min(newer.first_step, sealed.first_step))


def _over_writers(reported: list[StoredSeries]) -> StoredSeries:
    """Combine counts over all writers.

    The last value is that of the newest attempt's lowest rank, which is listed first.
    """
    return replace(
        reported[0],
        n=sum(stored.n for stored in reported),
        first_step=min(stored.first_step for stored in reported),
        last_step=max(stored.last_step for stored in reported),
    )
