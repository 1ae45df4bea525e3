"""Create or find the rows of a handshake: run, attempt and writer. For ``StoreWriter.call``."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, func, select

from tocsin.protocol import Hello, WriterId
from tocsin_server.core.errors import TocsinError
from tocsin_server.core.models import RunState, Writer
from tocsin_server.store.deletion import is_scheduled, may_stay
from tocsin_server.store.edits import called
from tocsin_server.store.handshake_rows import known_writer, update_run, update_writer
from tocsin_server.store.row_builder import insert_new
from tocsin_server.store.tables import attempt, project, run, writer
from tocsin_server.store.writer_cache import last_event, last_seq, series_numbers

ENDED = tuple(state for state in RunState if state.ended)
JOIN_WITHIN_NS = 120 * 1_000_000_000
"""Ranks without a launch id join one attempt if their first handshakes are this close together."""

# Built once: building a statement costs more than SQLite takes to execute it.
_OF_RUN: ColumnElement[str] = bindparam("of_run")
_WRITER_BY_KEY = select(writer).where(writer.c.run_id == _OF_RUN, writer.c.key == bindparam("of_key"))
_NEXT_WRITER = select(func.coalesce(func.max(writer.c.writer_no), -1) + 1).where(writer.c.run_id == _OF_RUN)
_NEW_WRITER = writer.insert()
_RUN = select(run).where(run.c.id == _OF_RUN)
_PROJECT_OF_RUN = select(run.c.project).where(run.c.id == _OF_RUN)
_LOCK_RUN = select(run.c.id).where(run.c.id == _OF_RUN).with_for_update()
_END_OF_RUN = select(run.c.state, run.c.ended_ns, run.c.error).where(run.c.id == _OF_RUN)
_ATTEMPTS = select(func.count(), func.max(attempt.c.attempt_no)).where(attempt.c.run_id == _OF_RUN)
_ATTEMPT_BY_KEY = select(attempt.c.attempt_no).where(
    attempt.c.run_id == _OF_RUN, attempt.c.key == bindparam("of_key")
)
_EDGES = select(func.min(attempt.c.attempt_no), func.max(attempt.c.attempt_no)).where(
    attempt.c.run_id == _OF_RUN
)
_START_OF_ATTEMPT = select(attempt.c.started_ns).where(
    attempt.c.run_id == _OF_RUN, attempt.c.attempt_no == bindparam("of_attempt")
)
_NEW_ATTEMPT = attempt.insert()


class ForeignRunError(TocsinError):
    """A handshake names a run of a project that its token may not write to."""

    def __init__(self) -> None:
        # The error must not reveal which project the run belongs to.
        super().__init__("The token may not write to this run: it belongs to another project.")


class LeavingRunError(Exception):
    """A run with this id is being deleted or imported. Arguments: what was expected, what was found."""

    def __init__(self) -> None:
        super().__init__(
            "a run with this id that is complete or deleted", "one that is being deleted or imported"
        )


@dataclass(frozen=True, slots=True)
class Registered:
    """Result of a handshake.

    ``last_seq`` and ``last_event`` are -1 before anything is durable. ``attempts`` counts those of the run;
    ``superseded``: a newer one exists, so this one only adds its records.
    """

    writer: Writer
    run_is_new: bool
    last_seq: int
    last_event: int
    series: dict[str, int]
    attempts: int
    superseded: bool


def register(connection: Connection, hello: Hello, now_ns: int, *, bound_to: str = "") -> Registered:
    """Find or create the run, attempt and writer of ``hello``; a known writer resumes.

    Args:
        connection: A writing connection.
        hello: The handshake.
        now_ns: Unix time.
        bound_to: The only project whose runs may be written to; empty for any.

    Raises:
        ForeignRunError: The run belongs to another project than ``bound_to``, however it was named.
            The caller must roll back.
    """
    key = writer_key(hello.writer)
    known = _known_writer(connection, hello, key)
    run_id = known.run_id if known else _run_of(connection, hello, now_ns)
    is_new = _ensure_run(connection, run_id, hello, now_ns)
    if bound_to and not _belongs_to(connection, run_id, bound_to):
        raise ForeignRunError
    if known is None:
        connection.execute(_LOCK_RUN, {"of_run": run_id})
        known = _writer_by_key(connection, run_id, key)
    is_known = known is not None
    who = _as_writer(known) if known else _new_writer(connection, run_id, key, hello, now_ns)
    attempts, newest = connection.execute(_ATTEMPTS, {"of_run": run_id}).one()
    superseded = who.attempt_no < newest
    update_writer(connection, who, hello, now_ns)
    if not superseded:
        before = connection.execute(_RUN, {"of_run": run_id}).one()
        update_run(connection, before, who, hello, now_ns, is_known=is_known)
    return Registered(
        who,
        is_new,
        last_seq(connection, run_id, who.writer_no),
        last_event(connection, run_id, who.writer_no),
        series_numbers(connection, run_id),
        attempts,
        superseded,
    )


def register_keeping_end(
    connection: Connection, hello: Hello, now_ns: int, *, bound_to: str = ""
) -> tuple[Registered, bool]:
    """Register ``hello`` as :func:`register` does; return also whether its run stays ended.

    A known writer may return to an ended run only to learn that everything is durable, and a process of an
    older attempt only to deliver what it recorded. Any other new process makes the run active again.

    Raises:
        ForeignRunError: As :func:`register`.
        LeavingRunError: The run is being deleted or imported. The caller must roll back.
    """
    returned = _return(connection, hello, now_ns, bound_to)
    if returned is not None:
        return returned
    ended = connection.execute(_END_OF_RUN, {"of_run": hello.run}).first()
    registered = register(connection, hello, now_ns, bound_to=bound_to)
    run_id = registered.writer.run_id
    stays = not registered.run_is_new and may_stay(connection, run_id, now_ns)
    if is_scheduled(connection, run_id) and not stays:
        raise LeavingRunError
    known = registered.superseded or registered.last_seq >= 0 or registered.last_event >= 0
    if ended is None or ended.state not in ENDED or not known:
        return registered, False
    kept = {"state": ended.state, "ended_ns": ended.ended_ns, "error": ended.error}
    connection.execute(run.update().where(run.c.id == run_id).values(kept))
    return registered, True


def _return(
    connection: Connection, hello: Hello, now_ns: int, bound_to: str
) -> tuple[Registered, bool] | None:
    """Register a known writer of a stored run, as :func:`register_keeping_end`, with a fourth of its queries.

    After a start, all clients return at once. Return None if it is another handshake.
    """
    found = known_writer(connection, hello.run, writer_key(hello.writer)) if hello.run else None
    if found is None:
        return None
    if bound_to and found.project != bound_to:
        raise ForeignRunError
    who = Writer(hello.run, found.writer_no, found.attempt_no, found.rank)
    seq, event = max(-1, found.handled_seq, found.sealed_seq, found.packed, found.unpacked), found.last_event
    superseded = found.attempt_no < found.newest
    stays_ended = found.state in ENDED and (superseded or seq >= 0 or event >= 0)
    update_writer(connection, who, hello, now_ns)
    if not superseded:
        update_run(connection, found, who, hello, now_ns, is_known=True, stays_ended=stays_ended)
    names = series_numbers(connection, hello.run)
    return Registered(who, False, seq, event, names, found.attempts, superseded), stays_ended


def writer_key(writer_id: WriterId) -> str:
    """Return a key for a process of an attempt, the same in each of its handshakes."""
    return _digest(writer_id.attempt, writer_id.rank, writer_id.boot, writer_id.pid, writer_id.started_ns)


def _as_writer(row: Row[Any]) -> Writer:
    return Writer(row.run_id, row.writer_no, row.attempt_no, row.rank)


def _digest(*parts: object) -> str:
    return hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).hexdigest()[:32]


def _known_writer(connection: Connection, hello: Hello, key: str) -> Row[Any] | None:
    if hello.run:
        return _writer_by_key(connection, hello.run, key)
    query = (
        select(writer)
        .join(run, run.c.id == writer.c.run_id)
        .where(called(connection, hello.project, hello.name), writer.c.key == key)
    )
    return connection.execute(query).first()


def _writer_by_key(connection: Connection, run_id: str, key: str) -> Row[Any] | None:
    return connection.execute(_WRITER_BY_KEY, {"of_run": run_id, "of_key": key}).first()


def _run_of(connection: Connection, hello: Hello, now_ns: int) -> str:
    """Return the run that ``hello`` names, else that of other ranks or earlier attempts, else a new id."""
    if hello.run:
        return hello.run
    fellow = _fellow_attempt(connection, hello, now_ns) or _restarted_attempt(connection, hello)
    if fellow is not None:
        return str(fellow.run_id)
    return "r_" + _digest(hello.project, hello.name, writer_key(hello.writer))[:20]


def _fellow_attempt(
    connection: Connection, hello: Hello, now_ns: int, run_id: str | None = None
) -> Row[Any] | None:
    """Return the newest attempt that this rank may join, or None.

    It must be recent and have the same rendezvous, world size and restarts, and the rank must be free.
    """
    if not hello.rendezvous or hello.world_size < 2 or hello.launch:
        return None
    began_ns = _began_ns(hello, now_ns)
    taken = select(writer.c.rank).where(
        writer.c.run_id == attempt.c.run_id,
        writer.c.attempt_no == attempt.c.attempt_no,
        writer.c.rank == hello.writer.rank,
    )
    query = (
        select(attempt)
        .join(run, run.c.id == attempt.c.run_id)
        .where(
            attempt.c.rendezvous == hello.rendezvous,
            attempt.c.started_ns.between(began_ns - JOIN_WITHIN_NS, began_ns + JOIN_WITHIN_NS),
            attempt.c.world_size == hello.world_size,
            attempt.c.restarts == hello.restarts,
            called(connection, hello.project, hello.name),
            ~taken.exists(),
        )
        .order_by(attempt.c.started_ns.desc())
    )
    if run_id is not None:
        query = query.where(attempt.c.run_id == run_id)
    return connection.execute(query).first()


def _restarted_attempt(connection: Connection, hello: Hello) -> Row[Any] | None:
    """Return the newest earlier attempt of a restarted launch, whose world size may have changed."""
    if not hello.rendezvous or hello.launch or not hello.restarts:
        return None
    query = (
        select(attempt)
        .join(run, run.c.id == attempt.c.run_id)
        .where(
            attempt.c.rendezvous == hello.rendezvous,
            attempt.c.restarts < hello.restarts,
            called(connection, hello.project, hello.name),
        )
        .order_by(attempt.c.started_ns.desc())
    )
    return connection.execute(query).first()


def _ensure_run(connection: Connection, run_id: str, hello: Hello, now_ns: int) -> bool:
    connection.execute(
        insert_new(connection, project),
        {"name": hello.project, "created_ns": now_ns, "settings": {}},
    )
    if connection.execute(_PROJECT_OF_RUN, {"of_run": run_id}).first() is not None:
        return False
    row = {
        "id": run_id,
        "project": hello.project,
        "name": hello.name,
        "state": RunState.RUNNING,
        "created_ns": now_ns,
        "last_seen_ns": now_ns,
        "host": hello.host,
        "notes": hello.notes,
    }
    made = insert_new(connection, run).returning(run.c.id)
    return connection.execute(made, row).first() is not None


def _belongs_to(connection: Connection, run_id: str, project_name: str) -> bool:
    return connection.execute(_PROJECT_OF_RUN, {"of_run": run_id}).scalar() == project_name


def _new_writer(connection: Connection, run_id: str, key: str, hello: Hello, now_ns: int) -> Writer:
    attempt_no = _attempt_of(connection, run_id, hello, now_ns)
    following = connection.execute(_NEXT_WRITER, {"of_run": run_id}).scalar_one()
    who = Writer(run_id, following, attempt_no, hello.writer.rank)
    row = {
        "run_id": run_id,
        "writer_no": who.writer_no,
        "attempt_no": attempt_no,
        "rank": who.rank,
        "key": key,
        "host": hello.host,
        "boot": hello.writer.boot,
        "pid": hello.writer.pid,
        "process_ns": hello.writer.started_ns,
        "handshake_ns": now_ns,
    }
    connection.execute(_NEW_WRITER, row)
    return who


def _attempt_of(connection: Connection, run_id: str, hello: Hello, now_ns: int) -> int:
    found = connection.execute(_ATTEMPT_BY_KEY, {"of_run": run_id, "of_key": hello.writer.attempt}).scalar()
    if found is not None:
        return int(found)
    fellow = _fellow_attempt(connection, hello, now_ns, run_id)
    if fellow is not None:
        return int(fellow.attempt_no)
    began_ns = _began_ns(hello, now_ns)
    number = _new_attempt_no(connection, run_id, began_ns, is_dead=hello.began_ns is not None)
    row = {
        "run_id": run_id,
        "attempt_no": number,
        "key": hello.writer.attempt,
        "launch": hello.launch,
        "restarts": hello.restarts,
        "rendezvous": hello.rendezvous,
        "world_size": hello.world_size,
        "started_ns": began_ns,
    }
    connection.execute(_NEW_ATTEMPT, row)
    return number


def _new_attempt_no(connection: Connection, run_id: str, began_ns: int, *, is_dead: bool) -> int:
    """Return the number of a new attempt: the next one, or one below all if a later one is known.

    A dead process that never reached the server may be delivered when its successor already trains.
    """
    lowest, highest = connection.execute(_EDGES, {"of_run": run_id}).one()
    if lowest is None:
        return 1
    newest = {"of_run": run_id, "of_attempt": highest}
    if is_dead and began_ns < connection.execute(_START_OF_ATTEMPT, newest).scalar_one():
        return int(lowest) - 1
    return int(highest) + 1


def _began_ns(hello: Hello, now_ns: int) -> int:
    """Return the time of the writer's first handshake on the server's clock; of a live one, now."""
    return now_ns if hello.began_ns is None else max(0, min(now_ns, hello.began_ns + now_ns - hello.time_ns))
