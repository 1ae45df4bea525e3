"""Read the events of some kinds: gradient norms of layers, checkpoints, images, lines of output."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, Text, cast, delete, func, select

from tocsin_server.core.checkpoints import KINDS as CHECKPOINTS
from tocsin_server.core.models import RunEvent, Writer
from tocsin_server.store.damage import checked
from tocsin_server.store.tables import event, writer

NAMES, VECTORS, MEDIA = "layer-names", "layers", "media"
CONTENT = "media-content"
CONSOLE = "console"
CONSOLE_CHARACTERS = 1 << 20
"""Characters of output that are kept of a run, about; the newest."""


def read_layers(
    connection: Connection, run_id: str, *, start: int | None, stop: int | None, limit: int
) -> list[RunEvent]:
    """Return the events with layer names, and the newest ``limit`` vectors of a range of steps.

    Args:
        connection: A connection.
        run_id: The run.
        start: First step; None for no limit.
        stop: Last step, included; None for no limit.
        limit: Maximum number of vectors, and of events with names.

    Returns:
        First the names, then the vectors, each in order of arrival.
    """
    steps = event.c.kind == VECTORS
    if start is not None:
        steps &= event.c.step >= start
    if stop is not None:
        steps &= event.c.step <= stop
    newest = _read(connection, run_id, steps, limit)
    return [*_read(connection, run_id, event.c.kind == NAMES, limit)[::-1], *newest[::-1]]


def read_checkpoints(connection: Connection, run_id: str, limit: int) -> list[RunEvent]:
    """Return the newest ``limit`` events about checkpoints, in order of arrival."""
    return _read(connection, run_id, event.c.kind.in_(CHECKPOINTS), limit)[::-1]


def read_media(connection: Connection, run_id: str, limit: int) -> list[RunEvent]:
    """Return the newest ``limit`` events about images and other objects, in order of arrival."""
    return _read(connection, run_id, event.c.kind == MEDIA, limit)[::-1]


def read_content(connection: Connection, run_id: str, digest: str) -> RunEvent | None:
    """Return the event with the content of an object, or None.

    Args:
        connection: A connection.
        run_id: The run.
        digest: The hash of the content, in hexadecimal digits.
    """
    wanted = (event.c.kind == CONTENT) & cast(event.c.data, Text).like(f"%{digest}%")
    found = _read(connection, run_id, wanted, 1)
    return found[0] if found else None


def read_console(
    connection: Connection, run_id: str, *, before: int | None, after: int | None, limit: int
) -> list[RunEvent]:
    """Return events with lines of output, in order of arrival.

    Args:
        connection: A connection.
        run_id: The run.
        before: Only events that arrived before this number.
        after: Only events that arrived after it; then the oldest of them are returned, else the newest.
        limit: Maximum number of events.
    """
    wanted = event.c.kind == CONSOLE
    if before is not None:
        wanted &= event.c.arrival < before
    if after is None:
        return _read(connection, run_id, wanted, limit)[::-1]
    return _read(connection, run_id, wanted & (event.c.arrival > after), limit, oldest=True)


def trim_console(connection: Connection, run_id: str, keep: int = CONSOLE_CHARACTERS) -> int:
    """Delete the oldest lines of output beyond ``keep`` characters; return how many events were deleted.

    The newest event of each process stays, because its number tells the process where to continue.
    """
    size = func.length(cast(event.c.data, Text))
    of_run = (event.c.run_id == run_id) & (event.c.kind == CONSOLE)
    total, last = 0, None
    query = select(event.c.arrival, size).where(of_run).order_by(event.c.arrival.desc())
    for arrival, length in connection.execute(query):
        total += length
        if total > keep:
            last = arrival
            break
    if last is None:
        return 0
    other = event.alias()
    newest = (
        select(func.max(other.c.no))
        .where(other.c.run_id == event.c.run_id, other.c.writer_no == event.c.writer_no)
        .scalar_subquery()
    )
    found = connection.execute(delete(event).where(of_run, event.c.arrival <= last, event.c.no < newest))
    return found.rowcount


def _read(
    connection: Connection, run_id: str, wanted: ColumnElement[bool], limit: int, *, oldest: bool = False
) -> list[RunEvent]:
    """Return the newest ``limit`` events, newest first; or the oldest, oldest first."""
    order = (event.c.arrival, event.c.no)
    query = (
        select(event, writer.c.attempt_no, writer.c.rank)
        .join(writer, (writer.c.run_id == event.c.run_id) & (writer.c.writer_no == event.c.writer_no))
        .where(event.c.run_id == run_id, wanted)
        .order_by(*(column if oldest else column.desc() for column in order))
        .limit(limit)
    )
    return [
        RunEvent(
            Writer(run_id, row.writer_no, row.attempt_no, row.rank),
            row.arrival, row.no, row.kind, row.time_ns, row.step, checked(row.data, event, row, "data"),
        )
        for row in connection.execute(query)
    ]  # fmt: skip
