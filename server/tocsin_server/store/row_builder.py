"""Convert a group of write batches to the rows of one transaction. Has no thread; see ``writer``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, Update, bindparam, case, func, select
from sqlalchemy.dialects import postgresql, sqlite

from tocsin.protocol import MOST_STEP
from tocsin_server.core.models import Alert, RecordBatch, RunEvent, Transition, WriteBatch, Writer
from tocsin_server.store import batch_codec
from tocsin_server.store import environment as run_environment
from tocsin_server.store.compactor import OVER
from tocsin_server.store.latest_values import Latest
from tocsin_server.store.nonfinite_onsets import Onset
from tocsin_server.store.tables import (
    alert,
    alert_transition,
    attempt,
    event,
    latest,
    metric,
    nonfinite_onset,
    rule_state,
    run,
    tail,
    writer,
)
from tocsin_server.store.writer_cache import WriterCache

Row = dict[str, Any]
Insert = sqlite.Insert | postgresql.Insert
RUN_COLUMNS = frozenset(column.name for column in run.c) - {"id", "created_ns"}
SEEN_EVERY_NS = 1_000_000_000
"""``last_step`` and ``last_seen_ns`` of a run row are updated from its records at most this often."""


@dataclass(slots=True)
class Rows:
    """Rows of a group of write batches, by table, in the order of the batches."""

    metrics: list[Row] = field(default_factory=list)
    tails: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    alerts: dict[tuple[str, str, int], Row] = field(default_factory=dict)
    transitions: list[Row] = field(default_factory=list)
    rule_states: dict[str, Row] = field(default_factory=dict)
    runs: dict[str, Row] = field(default_factory=dict)
    handled: dict[tuple[str, int], int] = field(default_factory=dict)
    onsets: list[Row] = field(default_factory=list)
    recovered: list[Row] = field(default_factory=list)
    latest: list[Row] = field(default_factory=list)


class RowBuilder:
    """Converts write batches to rows and skips data that is already durable."""

    def __init__(self, cache: WriterCache, clock: Callable[[], float] = time.monotonic) -> None:
        self.cache = cache
        self.latest = Latest()
        self._clock = clock
        self._seen: dict[str, int] = {}

    def apply(
        self, connection: Connection, writes: Sequence[WriteBatch], *, all_latest: bool = False
    ) -> None:
        """Write the rows of ``writes`` without committing; database errors are raised.

        The newest values are included if they are due, or with ``all_latest``.
        """
        rows, now_s = Rows(), self._clock()
        for write_batch in writes:
            if self.cache.exists(connection, write_batch.run_id):
                self._fold(connection, write_batch, rows)
        if all_latest or now_s >= self.latest.due:
            there = [row for row in self.latest.begin() if self.cache.exists(connection, row["run_id"])]
            rows.latest = there
        write(connection, rows)

    def committed(self) -> None:
        """Confirm that the transaction of the last :meth:`apply` was committed."""
        self.latest.committed()

    def rolled_back(self) -> None:
        """Discard cached values of the last :meth:`apply`, which was rolled back."""
        self.cache.clear()
        self.latest.rolled_back(self._clock())

    def forget(self, run_id: str) -> None:
        """Drop the newest values of a deleted run, so that they are not written if its id is used again."""
        self.latest.forget(run_id)
        self._seen.pop(run_id, None)

    def _fold(self, connection: Connection, write_batch: WriteBatch, rows: Rows) -> None:
        if write_batch.batch is not None and write_batch.batch.n:
            self._fold_batch(connection, write_batch.batch, rows)
        if write_batch.rejected_to_seq is not None:
            self._fold_rejected(connection, *write_batch.rejected_to_seq, rows)
        if write_batch.event is not None:
            rows.events.append(_event_row(write_batch.event))
            if write_batch.event.kind in run_environment.KINDS and write_batch.event.writer.rank == 0:
                self._learn(connection, write_batch.event, rows)
        for transition in write_batch.transitions:
            row = _alert_row(transition.alert)
            rows.alerts[row["run_id"], row["fingerprint"], row["episode"]] = row
            if transition.first:
                rows.transitions.append(_transition_row(transition))
        if write_batch.rule_state is not None:
            state = write_batch.rule_state
            rows.rule_states[state.run_id] = {
                "run_id": state.run_id,
                "arrival": state.arrival,
                "body": state.body,
            }
        if write_batch.changes:
            rows.runs.setdefault(write_batch.run_id, {}).update(_checked(write_batch.changes))
            if write_batch.changes.get("state") in OVER:
                self.cache.end(write_batch.run_id, self._clock())

    def _learn(self, connection: Connection, item: RunEvent, rows: Rows) -> None:
        """Update the run's environment and configuration, starting from the pending row or the stored one."""
        row = rows.runs.setdefault(item.run_id, {})

        def known(name: str) -> Any:
            if row.get(name) is not None:
                return row[name]
            return connection.execute(select(run.c[name]).where(run.c.id == item.run_id)).scalar() or {}

        learned = run_environment.learned(known("environment"), item.kind, item.data)
        row["environment"] = run_environment.storable(learned)
        planned = item.data.get("planned_steps")
        if type(planned) is int and 0 < planned <= MOST_STEP:
            row["planned_steps"] = planned
        config = item.data.get("config")
        if isinstance(config, Mapping) and self._is_newest_attempt(connection, item):
            row["config"] = run_environment.storable(run_environment.added(known("config"), config))

    def _is_newest_attempt(self, connection: Connection, item: RunEvent) -> bool:
        """Return whether an event is of the newest attempt; a spool may deliver those of an earlier one."""
        newest = select(func.max(attempt.c.attempt_no)).where(attempt.c.run_id == item.run_id)
        return item.writer.attempt_no >= (connection.execute(newest).scalar() or 0)

    def _fold_batch(self, connection: Connection, batch: RecordBatch, rows: Rows) -> None:
        key = (batch.run_id, batch.writer.writer_no)
        skip = self.cache.last_seq(connection, key) + 1 - batch.seq
        if skip >= batch.n:
            return
        fresh = batch_codec.trimmed(batch, skip) if skip > 0 else batch
        named = self.cache.number(connection, batch.run_id, list(fresh.columns))
        rows.metrics += [{"run_id": batch.run_id, "name": name, "col_id": col} for name, col in named]
        rows.tails.append(_tail_row(fresh, self.cache.numbers[batch.run_id]))
        self.cache.last[key] = fresh.seq + fresh.n - 1
        self.cache.add_to_tail(key, fresh.n, self._clock())
        self._note_nonfinite(connection, fresh, rows)
        self.latest.take(fresh, self.cache.numbers[batch.run_id], self._clock())
        self._see(fresh, rows)

    def _note_nonfinite(self, connection: Connection, batch: RecordBatch, rows: Rows) -> None:
        tracker, numbers = self.cache.tracker(connection, batch.run_id), self.cache.numbers[batch.run_id]
        for name, column in batch.columns.items():
            for found in tracker.take(batch, numbers[name], column):
                if isinstance(found, Onset):
                    rows.onsets.append({"run_id": batch.run_id} | asdict(found))
                else:
                    rows.recovered.append(
                        {f"to_{k}": v for k, v in asdict(found).items()} | {"of_run": batch.run_id}
                    )

    def _fold_rejected(self, connection: Connection, who: Writer, seq: int, rows: Rows) -> None:
        key = (who.run_id, who.writer_no)
        if seq > self.cache.last_seq(connection, key):
            self.cache.last[key] = rows.handled[key] = seq

    def _see(self, batch: RecordBatch, rows: Rows) -> None:
        newest = int(batch.time_ns[-1])
        if newest - self._seen.get(batch.run_id, 0) < SEEN_EVERY_NS and batch.run_id not in rows.runs:
            return
        self._seen[batch.run_id] = newest
        seen = {"last_step": int(batch.step.max()), "last_seen_ns": newest}
        rows.runs[batch.run_id] = rows.runs.get(batch.run_id, {}) | seen


_END_OF_FAULT = (
    nonfinite_onset.update()
    .where(
        nonfinite_onset.c.run_id == bindparam("of_run"),
        nonfinite_onset.c.writer_no == bindparam("to_writer_no"),
        nonfinite_onset.c.col_id == bindparam("to_col_id"),
        nonfinite_onset.c.seq == bindparam("to_seq"),
    )
    .values(end_seq=bindparam("to_end_seq"), end_step=bindparam("to_end_step"))
)

_HANDLED = (
    writer.update()
    .where(writer.c.run_id == bindparam("of_run"), writer.c.writer_no == bindparam("of_writer"))
    .values(handled_seq=bindparam("to"))
)


def write(connection: Connection, rows: Rows) -> None:
    """Write every row, with one statement per table."""
    _add(connection, metric, rows.metrics)
    _add(connection, tail, rows.tails)
    _add(connection, event, rows.events)
    _put(connection, alert, list(rows.alerts.values()))
    _add(connection, alert_transition, rows.transitions)
    _put(connection, rule_state, list(rows.rule_states.values()))
    _change_runs(connection, rows.runs)
    _add(connection, nonfinite_onset, rows.onsets)
    _put(connection, latest, rows.latest)
    if rows.recovered:
        connection.execute(_END_OF_FAULT, rows.recovered)
    if rows.handled:
        connection.execute(
            _HANDLED,
            [{"of_run": key[0], "of_writer": key[1], "to": seq} for key, seq in rows.handled.items()],
        )


def upsert(connection: Connection, table: Table) -> Insert:
    """Return the dialect's INSERT, which supports ON CONFLICT."""
    return _upsert(connection.dialect.name, table)


def insert_new(connection: Connection, table: Table) -> Insert:
    """Return an INSERT that skips rows that exist."""
    return _insert_new(connection.dialect.name, table)


# Building a statement takes longer than executing it, so each is built once.


def _upsert(dialect: str, table: Table) -> Insert:
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


@cache
def _insert_new(dialect: str, table: Table) -> Insert:
    return _upsert(dialect, table).on_conflict_do_nothing()


@cache
def _replace(dialect: str, table: Table, names: tuple[str, ...]) -> Insert:
    insert = _upsert(dialect, table)
    keys = [column.name for column in table.primary_key]
    values = {name: insert.excluded[name] for name in names if name not in keys}
    return insert.on_conflict_do_update(index_elements=keys, set_=values)


def _add(connection: Connection, table: Table, rows: list[Row]) -> None:
    if rows:
        connection.execute(insert_new(connection, table), rows)


def _put(connection: Connection, table: Table, rows: list[Row]) -> None:
    if rows:
        connection.execute(_replace(connection.dialect.name, table, tuple(rows[0])), rows)


def _change_runs(connection: Connection, changes: Mapping[str, Row]) -> None:
    alike: dict[tuple[str, ...], list[Row]] = {}
    for run_id, values in changes.items():
        row = {f"to_{name}": value for name, value in values.items()}
        alike.setdefault(tuple(sorted(values)), []).append(row | {"of_run": run_id})
    for names, rows in alike.items():
        connection.execute(_update_of_run(names), rows)


@lru_cache(maxsize=256)
def _update_of_run(names: tuple[str, ...]) -> Update:
    statement = run.update().where(run.c.id == bindparam("of_run"))
    return statement.values({name: _change(name) for name in names})


def _change(name: str) -> ColumnElement[Any]:
    """Return the new value of a run column. Late records must not move ``last_seen_ns`` back."""
    reported: ColumnElement[Any] = bindparam(f"to_{name}", type_=run.c[name].type)
    return case((run.c[name] > reported, run.c[name]), else_=reported) if name == "last_seen_ns" else reported


def _checked(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    unknown = set(changes) - RUN_COLUMNS
    if unknown:
        raise ValueError(f"changes of a run: expected {sorted(RUN_COLUMNS)}, got {sorted(unknown)}")
    return changes


def _tail_row(batch: RecordBatch, numbers: Mapping[str, int]) -> Row:
    return {
        "run_id": batch.run_id,
        "writer_no": batch.writer.writer_no,
        "seq": batch.seq,
        "n": batch.n,
        "arrival": batch.arrival,
        "body": batch_codec.encode(batch, numbers),
    }


def _event_row(item: RunEvent) -> Row:
    return {
        "run_id": item.run_id,
        "writer_no": item.writer.writer_no,
        "no": item.no,
        "arrival": item.arrival,
        "kind": item.kind,
        "step": item.step,
        "time_ns": item.time_ns,
        "data": item.data,
    }


def _alert_row(item: Alert) -> Row:
    return {column.name: getattr(item, column.name) for column in alert.c}


def _transition_row(item: Transition) -> Row:
    return {
        "run_id": item.alert.run_id,
        "fingerprint": item.alert.fingerprint,
        "episode": item.alert.episode,
        "state": item.alert.state,
        "severity": item.alert.severity,
        "previous": item.previous,
        "at_ns": item.at_ns,
        "step": item.alert.resolved_step if item.alert.resolved_ns else item.alert.fired_step,
        "summary": item.reason or item.alert.summary,
    }
