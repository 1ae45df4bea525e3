"""Read the events of some kinds: gradient norms of layers, checkpoints, images and other objects."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, Text, cast, select

from tocsin_server.core.checkpoints import KINDS as CHECKPOINTS
from tocsin_server.core.models import RunEvent, Writer
from tocsin_server.store.damage import checked
from tocsin_server.store.tables import event, writer

NAMES, VECTORS, MEDIA = "layer-names", "layers", "media"
CONTENT = "media-content"


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


def _read(connection: Connection, run_id: str, wanted: ColumnElement[bool], limit: int) -> list[RunEvent]:
    query = (
        select(event, writer.c.attempt_no, writer.c.rank)
        .join(writer, (writer.c.run_id == event.c.run_id) & (writer.c.writer_no == event.c.writer_no))
        .where(event.c.run_id == run_id, wanted)
        .order_by(event.c.arrival.desc(), event.c.no.desc())
        .limit(limit)
    )
    return [
        RunEvent(
            Writer(run_id, row.writer_no, row.attempt_no, row.rank),
            row.arrival, row.no, row.kind, row.time_ns, row.step, checked(row.data, event, row, "data"),
        )
        for row in connection.execute(query)
    ]  # fmt: skip
