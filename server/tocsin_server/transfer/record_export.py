"""Export every record of a run as JSON lines, CSV or Parquet, for the API and the command line.

JSON lines keep the value of every number: floats as Python writes them, NaN and infinities by name, the
time in nanoseconds. CSV writes ``nan``, ``inf``, ``-inf``; a missing value is empty.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tocsin_server.core import exact_json
from tocsin_server.core.errors import TocsinError
from tocsin_server.store.database import Database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import RecordPage
from tocsin_server.store.run_rows import created_ns
from tocsin_server.transfer.column_names import COORDINATES, heading
from tocsin_server.transfer.formats import Format
from tocsin_server.transfer.parquet import parquet_bodies

PAGE = 4096
"""Records read at a time; bounds the memory of an export of any length."""


class UnknownRun(TocsinError):  # noqa: N818 - reads well without "Error"
    """No run, or more than one, has that name."""


def every_page(
    reader: StoreReader,
    run_id: str,
    *,
    names: Sequence[str] | None = None,
    start: int | None = None,
    stop: int | None = None,
) -> Iterator[RecordPage]:
    """Yield all records of a run in pages, in order of (writer, seq).

    Raises:
        UnknownRun: The run was deleted meanwhile, so records are missing in the pages so far.
    """
    before = _created_ns(reader, run_id)
    after: str | None = None
    while True:
        page = reader.records(run_id, names=names, start=start, stop=stop, after=after, limit=PAGE)
        if page.n:
            yield page
        if page.next is None:
            break
        after = page.next
    if _created_ns(reader, run_id) != before:
        raise UnknownRun(f"Run {run_id} was deleted while it was being exported.")


def _created_ns(reader: StoreReader, run_id: str) -> int | None:
    with reader.consistent() as connection:
        return created_ns(connection, run_id)


def items(page: RecordPage) -> Iterator[dict[str, Any]]:
    """Yield each record of a page as in the API; ``values`` contains only values that the record has."""
    names = list(page.columns)
    rows = zip(*(page.columns[name].dense(page.n) for name in names), strict=True) if names else [()] * page.n
    for place, row in zip(_coordinates(page), rows, strict=True):
        writer, attempt, rank, seq, step, time_ns, arrival = place
        yield {
            "seq": seq,
            "writer": writer,
            "attempt": attempt,
            "rank": rank,
            "step": step,
            "time_ms": time_ns / 1e6,
            "time_ns": time_ns,
            "arrival": arrival,
            "values": {name: value for name, value in zip(names, row, strict=True) if value is not None},
        }


def packed_page(page: RecordPage) -> dict[str, Any]:
    """Return a page as arrays in base64, as in the API: int64, float64, and uint32 for rows."""
    columns = [
        {
            "name": name,
            "values": exact_json.packed(column.v),
            "rows": None if column.at is None else _packed("u4", column.at),
        }
        for name, column in page.columns.items()
    ]
    coordinates = {name: _packed("i8", getattr(page, name)) for name in COORDINATES}
    return {"n": page.n, **coordinates, "columns": columns}


def _packed(dtype: str, values: np.ndarray[Any, Any]) -> dict[str, str]:
    little = np.ascontiguousarray(values, dtype=f"<{dtype}")
    return {"dtype": dtype, "bdata": base64.b64encode(little.tobytes()).decode("ascii")}


def _coordinates(page: RecordPage) -> Iterator[tuple[int, ...]]:
    columns = (page.writer, page.attempt, page.rank, page.seq, page.step, page.time_ns, page.arrival)
    return zip(*(column.tolist() for column in columns), strict=True)


def jsonl(pages: Iterable[RecordPage]) -> Iterator[str]:
    """Yield the records of ``pages`` as JSON lines, one string per page."""
    for page in pages:
        yield "".join(exact_json.dumps(item) + "\n" for item in items(page))


def csv_text(pages: Iterable[RecordPage], names: Sequence[str]) -> Iterator[str]:
    """Yield the records of ``pages`` as CSV (RFC 4180): the header, then one string per page."""
    yield _csv_rows([[*COORDINATES, *map(heading, names)]])
    for page in pages:
        found = [page.columns[name].dense(page.n) if name in page.columns else None for name in names]
        yield _csv_rows(
            [*place, *(_cell(column[row]) if column else "" for column in found)]
            for row, place in enumerate(_coordinates(page))
        )


def _cell(value: float | None) -> str:
    return "" if value is None else repr(value)


def _csv_rows(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


def export_records(
    database: Database,
    run: str,
    form: Format,
    output: Path | None,
    advance: Callable[[int], object] = lambda _: None,
) -> int:
    """Write every record of a run to ``output`` (None: standard output); return how many.

    ``advance`` is called with the number of records of each page.

    Raises:
        UnknownRun: No run, or more than one, has that id or name.
    """
    reader = StoreReader(database)
    run_id = find_run(reader, run)
    count = 0

    def counted() -> Iterator[RecordPage]:
        nonlocal count
        for page in every_page(reader, run_id):
            count += page.n
            yield page
            advance(page.n)

    with _opened(output) as file:
        for body in bodies_of(counted(), form, series_names(reader, run_id)):
            file.write(body)
    return count


def bodies_of(pages: Iterable[RecordPage], form: Format, names: Sequence[str]) -> Iterator[bytes]:
    """Return ``pages`` in a format, in pieces; ``names`` are the columns of CSV and Parquet.

    Raises:
        parquet.MissingExtraError: Parquet was requested and pyarrow is not installed.
    """
    if form is Format.PARQUET:
        return parquet_bodies(pages, names)
    texts = jsonl(pages) if form is Format.JSONL else csv_text(pages, names)
    return (text.encode("utf-8", "replace") for text in texts)


def series_names(reader: StoreReader, run_id: str) -> list[str]:
    """Return the names of all series of a run in alphabetical order."""
    stored = reader.run(run_id)
    return sorted(series.name for series in stored.series) if stored else []


def file_name(run_id: str) -> str:
    """Return a run's id as a file name that is safe in headers and on every file system.

    If it differs from the id, a digest is appended, so that two runs never have the same name.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", run_id)[:100].strip(".") or "run"
    return name if name == run_id else f"{name}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"


def find_run(reader: StoreReader, run: str) -> str:
    """Return the id of the run with this id or name.

    Raises:
        UnknownRun: No run, or more than one, has that id or name.
    """
    if reader.run(run) is not None:
        return run
    named = [stored.id for stored in reader.runs() if stored.name == run]
    if len(named) == 1:
        return named[0]
    if named:
        raise UnknownRun(f"{len(named)} runs are named {run!r}. Pass an id: {', '.join(named)}.")
    raise UnknownRun(f"There is no run {run!r} in this database. Pass the id or the name of a run.")


@contextmanager
def _opened(output: Path | None) -> Iterator[BinaryIO]:
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with replacing(output) as file:
        yield file


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` when the block ends. If the block fails, ``path`` is unchanged."""
    if path.exists() and not path.is_file():  # a pipe or a device
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
