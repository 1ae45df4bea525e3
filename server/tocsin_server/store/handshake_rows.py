"""Read and update the rows of a run and a writer for a handshake. Functions of a Connection."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from sqlalchemy import ColumnElement, Connection, Row, Table, Update, bindparam, func, select

from tocsin.protocol import Hello
from tocsin_server.core.models import RunState, Writer
from tocsin_server.store.damage import valid_environment
from tocsin_server.store.edits import edits_of
from tocsin_server.store.environment import SHOWN, storable
from tocsin_server.store.tables import attempt, deletion, event, packed, run, tail, writer

DESCRIPTION = ("config", "tags", "notes", "planned_steps", "host", "environment", "world_size")
"""Columns of a run that a handshake may change besides its state."""


def _of_writer(table: Table) -> ColumnElement[bool]:
    return (table.c.run_id == writer.c.run_id) & (table.c.writer_no == writer.c.writer_no)


def _newest(table: Table) -> ColumnElement[int]:
    """Return a subquery for the last record number of the writer in a table of batches, or -1."""
    last = select(table.c.seq + table.c.n - 1).where(_of_writer(table)).order_by(table.c.seq.desc()).limit(1)
    return func.coalesce(last.scalar_subquery(), -1)


def _attempts(value: ColumnElement[int]) -> Any:
    return select(value).where(attempt.c.run_id == run.c.id).scalar_subquery()


_KNOWN = (
    select(
        *(run.c[name] for name in ("project", "state", "ended_ns", "error", *DESCRIPTION)),
        *(writer.c[name] for name in ("writer_no", "attempt_no", "rank", "handled_seq", "sealed_seq")),
        _newest(packed).label("packed"),
        _newest(tail).label("unpacked"),
        func.coalesce(
            select(func.max(event.c.no)).where(_of_writer(event)).scalar_subquery(), -1
        ).label("last_event"),
        _attempts(func.count()).label("attempts"),
        _attempts(func.max(attempt.c.attempt_no)).label("newest"),
    )
    .join(writer, writer.c.run_id == run.c.id)
    .where(
        run.c.id == bindparam("of_run"),
        writer.c.key == bindparam("of_key"),
        ~select(deletion.c.run_id).where(deletion.c.run_id == run.c.id).exists(),
    )
)  # fmt: skip
_HANDSHAKE = writer.update().where(
    writer.c.run_id == bindparam("of_run"), writer.c.writer_no == bindparam("of_writer")
)


def known_writer(connection: Connection, run_id: str, key: str) -> Row[Any] | None:
    """Return what a handshake needs of a known writer and its run.

    Args:
        connection: A writing connection.
        run_id: The run.
        key: See ``registration.writer_key``.

    Returns:
        The columns of ``DESCRIPTION`` and the end of the run, the writer's numbers, the last record number
        in each table (-1 for none), and the count and the newest of the run's attempts. None if there is no
        such writer, or if its run was deleted, is being imported, or is scheduled for deletion.
    """
    found: object = connection.execute(_KNOWN, {"of_run": run_id, "of_key": key}).first()
    return cast("Row[Any] | None", found)


def update_writer(connection: Connection, who: Writer, hello: Hello, now_ns: int) -> None:
    """Update the time and the clock of a writer from its handshake."""
    times = {"handshake_ns": now_ns, "clock_offset_ns": now_ns - hello.time_ns}
    connection.execute(_HANDSHAKE, {"of_run": who.run_id, "of_writer": who.writer_no, **times})


def update_run(
    connection: Connection,
    before: Row[Any],
    who: Writer,
    hello: Hello,
    now_ns: int,
    *,
    is_known: bool,
    stays_ended: bool = False,
) -> None:
    """Update the run from the handshake; it becomes active again unless it ``stays_ended``.

    Args:
        connection: A writing connection.
        before: The row of the run, with at least the columns of ``DESCRIPTION``.
        who: The writer.
        hello: The handshake.
        now_ns: Unix time.
        is_known: Whether this process connected before.
        stays_ended: Whether the state of the run is kept.
    """
    reported = _described(hello, before) if who.rank == 0 or before.config is None else {}
    environment = valid_environment(before.environment)
    if who.rank == 0 and not is_known:
        # Another attempt: its events say what holds now.
        environment = {name: value for name, value in environment.items() if name not in SHOWN}
    environment |= {"world_size": hello.world_size, "hosts": _hosts(environment, hello.host)}
    if who.rank == 0 or "versions" not in environment:
        environment |= {
            "versions": hello.versions,
            "optimizers": hello.optimizers,
            "scalers": hello.scalers,
            "schedulers": hello.schedulers,
        }
    reported |= {"environment": storable(environment), "world_size": hello.world_size}
    # Compared as text: 1, 1.0 and True are equal, but not stored alike.
    changed = {name: value for name, value in reported.items() if repr(value) != repr(getattr(before, name))}
    alive = {} if stays_ended else {"state": RunState.RUNNING, "ended_ns": None, "error": None}
    values = {f"to_{name}": value for name, value in (changed | alive).items()}
    statement = _update_of_run((*changed, *alive))
    connection.execute(statement, {"of_run": who.run_id, "to_last_seen_ns": now_ns, **values})


@lru_cache(maxsize=256)
def _update_of_run(names: tuple[str, ...]) -> Update:
    values = {name: bindparam(f"to_{name}", type_=run.c[name].type) for name in (*names, "last_seen_ns")}
    return run.update().where(run.c.id == bindparam("of_run")).values(values)


def _described(hello: Hello, before: Row[Any]) -> dict[str, Any]:
    """Return the run's description from the handshake.

    Fields that the handshake leaves out keep their value, and so do those edited in the web UI.
    """
    edited = edits_of(before.environment)
    return {
        "config": before.config if hello.config is None else storable(hello.config),
        "tags": before.tags if "tags" in edited else hello.tags or before.tags,
        "notes": before.notes if "notes" in edited else hello.notes or before.notes,
        "planned_steps": before.planned_steps if hello.planned_steps is None else hello.planned_steps,
        "host": hello.host or before.host,
    }


def _hosts(environment: dict[str, Any], host: str) -> list[str]:
    known = list(environment.get("hosts", ()))
    return known if not host or host in known else [*known, host]
