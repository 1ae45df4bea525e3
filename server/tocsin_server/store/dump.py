"""Read and write everything of a run except its records and events, as rows, for export and import.

Functions of a Connection. Rows keep the names of their columns, without ``run_id``.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, select

from tocsin_server.store.row_builder import upsert
from tocsin_server.store.series_window import last_arrival
from tocsin_server.store.tables import (
    alert,
    alert_transition,
    attempt,
    metric,
    project,
    rule_state,
    run,
    writer,
)
from tocsin_server.store.writer_cache import last_seq

Item = dict[str, Any]

SEALING = ("sealed_seq", "sealed_arrival", "sealed_records", "first_step", "last_step", "chunks")
"""Columns of a writer about its chunks; an import creates new chunks."""
HISTORY_KEY = ("run_id", "fingerprint", "episode")
NOT_OF_THE_RUN = (*HISTORY_KEY, "routed_ns")
"""Columns left out of exported alert history: what this installation notified does not belong to the run."""


@dataclass(frozen=True, slots=True)
class Dump:
    """A consistent copy of a run, up to ``last_seq`` of each writer and ``last_arrival``."""

    run: Item
    attempts: list[Item]
    writers: list[Item]
    series: list[str]
    alerts: list[Item]
    rule_state: Item | None
    last_seq: dict[int, int]
    last_arrival: int


def read_dump(connection: Connection, run_id: str) -> Dump | None:
    """Return everything except records and events, or None if there is no such run."""
    row = connection.execute(select(run).where(run.c.id == run_id)).mappings().first()
    if row is None:
        return None
    writers = _rows(connection, writer, run_id, ("run_id", *SEALING))
    for item in writers:
        item["handled_seq"] = last_seq(connection, run_id, item["writer_no"])
    return Dump(
        dict(row),
        _rows(connection, attempt, run_id),
        writers,
        [item["name"] for item in _rows(connection, metric, run_id)],
        _alerts(connection, run_id),
        _rule_state(connection, run_id),
        {item["writer_no"]: item["handled_seq"] for item in writers},
        last_arrival(connection, run_id),
    )


def _rows(
    connection: Connection, table: Table, run_id: str, without: Iterable[str] = ("run_id",)
) -> list[Item]:
    columns = [column for column in table.c if column.name not in without]
    query = select(*columns).where(table.c.run_id == run_id).order_by(*table.primary_key)
    return [dict(row) for row in connection.execute(query).mappings()]


def _alerts(connection: Connection, run_id: str) -> list[Item]:
    """Return the alerts, each with its ``history`` in order of time."""
    history: dict[tuple[str, int], list[Item]] = {}
    order = (alert_transition.c.at_ns, alert_transition.c.state, alert_transition.c.severity)
    query = select(alert_transition).where(alert_transition.c.run_id == run_id).order_by(*order)
    for row in connection.execute(query).mappings():
        step = {name: value for name, value in row.items() if name not in NOT_OF_THE_RUN}
        history.setdefault((row["fingerprint"], row["episode"]), []).append(step)
    return [
        item | {"history": history.get((item["fingerprint"], item["episode"]), [])}
        for item in _rows(connection, alert, run_id)
    ]


def _rule_state(connection: Connection, run_id: str) -> Item | None:
    row = connection.execute(select(rule_state).where(rule_state.c.run_id == run_id)).first()
    if row is None:
        return None
    return {"arrival": row.arrival, "body": base64.b64encode(row.body).decode("ascii")}


def write_frame(
    connection: Connection,
    run_id: str,
    attempts: list[Item],
    writers: list[Item],
    series: list[str],
    first: int,
) -> None:
    """Write attempts, writers and series, so that records can be added.

    Writers start without handled records; otherwise their records would be skipped as duplicates.
    ``first`` is the number of the first series.
    """
    _insert(connection, attempt, run_id, attempts)
    _insert(connection, writer, run_id, [row | {"handled_seq": -1} for row in writers])
    numbered = [{"col_id": first + place, "name": name} for place, name in enumerate(series)]
    _insert(connection, metric, run_id, numbered)


def write_alerts(connection: Connection, run_id: str, alerts: Iterable[Item]) -> None:
    """Write alerts with their histories. Only rows are written, so no notification is sent."""
    for item in alerts:
        own = {name: value for name, value in item.items() if name != "history"}
        key = {name: item[name] for name in HISTORY_KEY if name in item}
        _insert(connection, alert, run_id, [own])
        reported = [key | step | {"routed_ns": step["at_ns"]} for step in item["history"]]
        _insert(connection, alert_transition, run_id, reported)


def write_ends(connection: Connection, run_id: str, writers: list[Item]) -> None:
    """Set the last handled record of each writer, which is acked if the writer reconnects."""
    for row in writers:
        own = (writer.c.run_id == run_id) & (writer.c.writer_no == row["writer_no"])
        connection.execute(writer.update().where(own).values(handled_seq=row["handled_seq"]))


def write_run(connection: Connection, row: Mapping[str, Any], state: Item | None, now_ns: int) -> None:
    """Write the run row, which makes the run visible."""
    if state is not None:
        body = base64.b64decode(state["body"])
        _insert(connection, rule_state, row["id"], [{"arrival": state["arrival"], "body": body}])
    named = {"name": row["project"], "created_ns": now_ns, "settings": {}}
    connection.execute(upsert(connection, project).on_conflict_do_nothing(), named)
    connection.execute(run.insert(), dict(row))


def _insert(connection: Connection, table: Table, run_id: str, rows: list[Item]) -> None:
    if rows:
        connection.execute(table.insert(), [row | {"run_id": run_id} for row in rows])
