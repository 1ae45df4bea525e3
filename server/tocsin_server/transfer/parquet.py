"""Read and write records as Parquet: bit-exact float64, including NaN payloads; missing values are nulls.

Needs pyarrow, the optional extra ``parquet``. Columns use byte stream split and
zstd, without dictionaries, which would merge different NaNs.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tocsin_server.core.errors import TocsinError
from tocsin_server.core.models import Column
from tocsin_server.store.results import RecordPage
from tocsin_server.transfer.column_names import COORDINATES, heading, series_of

CELLS = 1 << 20
"""Values in a row group: 8 MiB, which bounds the memory of an export."""


class MissingExtraError(TocsinError):
    """pyarrow is not installed."""


class UnreadableError(TocsinError):
    """The file is not Parquet, or not as an export writes it."""


def require() -> ModuleType:
    """Return pyarrow.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(
            "parquet: expected pyarrow to be installed, got none: `pip install 'tocsin-server[parquet]'`"
        ) from error
    module: ModuleType = pyarrow
    return module


def parquet_bodies(pages: Iterable[RecordPage], names: Sequence[str]) -> Iterator[bytes]:
    """Return the records of ``pages`` as one Parquet file, in pieces; ``names`` are its series.

    Raises:
        MissingExtraError: pyarrow is not installed; raised before the first piece.
    """
    return _bodies(require(), pages, names)


class _Sink(io.RawIOBase):
    """In-memory file that pyarrow writes to and from which the pieces are read."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def taken(self) -> bytes:
        body = b"".join(self._parts)
        self._parts.clear()
        return body


def _bodies(arrow: Any, pages: Iterable[RecordPage], names: Sequence[str]) -> Iterator[bytes]:
    floats = [heading(name) for name in names]
    fields = [(name, arrow.int64()) for name in COORDINATES] + [(name, arrow.float64()) for name in floats]
    schema, sink = arrow.schema(fields), _Sink()
    options = {"compression": "zstd", "use_dictionary": False, "use_byte_stream_split": floats or False}
    with arrow.parquet.ParquetWriter(sink, schema, **options) as writer:
        for group in _groups(pages, len(fields)):
            writer.write_table(arrow.concat_tables(_table(arrow, schema, page, names) for page in group))
            yield sink.taken()
    yield sink.taken()


def _groups(pages: Iterable[RecordPage], width: int) -> Iterator[list[RecordPage]]:
    group: list[RecordPage] = []
    for page in pages:
        group.append(page)
        if sum(each.n for each in group) * width >= CELLS:
            yield group
            group = []
    if group:
        yield group


def _table(arrow: Any, schema: Any, page: RecordPage, names: Sequence[str]) -> Any:
    coordinates = [arrow.array(np.ascontiguousarray(getattr(page, name))) for name in COORDINATES]
    values = [_values(arrow, page.columns.get(name), page.n) for name in names]
    return arrow.Table.from_arrays([*coordinates, *values], schema=schema)


def _values(arrow: Any, column: Column | None, rows: int) -> Any:
    if column is None:
        return arrow.nulls(rows, arrow.float64())
    if column.at is None:
        return arrow.array(column.v)
    values, missing = np.zeros(rows), np.ones(rows, dtype=np.bool_)
    values[column.at], missing[column.at] = column.v, False
    return arrow.array(values, mask=missing)


def read_parquet(path: Path, rows: int) -> Iterator[RecordPage]:
    """Yield the records of an exported file, at most ``rows`` per page.

    Raises:
        MissingExtraError: pyarrow is not installed.
        UnreadableError: The file is not Parquet, or not as an export writes it.
    """
    arrow = require()
    try:
        with arrow.parquet.ParquetFile(path) as file:
            _check_schema(arrow, path, file.schema_arrow)
            for batch in file.iter_batches(batch_size=rows):
                yield _page(batch)
    except arrow.ArrowException as error:
        raise UnreadableError(f"{path}: expected Parquet as an export writes it, got: {error}") from error


def _check_schema(arrow: Any, path: Path, schema: Any) -> None:
    wanted = [*((name, arrow.int64()) for name in COORDINATES)]
    got = [(field.name, field.type) for field in schema]
    if got[: len(wanted)] != wanted or any(kind != arrow.float64() for _, kind in got[len(wanted) :]):
        columns = ", ".join(f"{name} {kind}" for name, kind in got)
        expected = f"columns {', '.join(COORDINATES)} of int64, then series of float64"
        raise UnreadableError(f"{path}: expected {expected}, got {columns}")


def _page(batch: Any) -> RecordPage:
    whole = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in COORDINATES}
    columns = {}
    for place in range(len(COORDINATES), batch.num_columns):
        column = _column(batch.column(place))
        if len(column.v):
            columns[series_of(batch.schema.names[place])] = column
    return RecordPage(n=batch.num_rows, columns=columns, next=None, **whole)


def _column(values: Any) -> Column:
    if not values.null_count:
        return Column(values.to_numpy())
    there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False)).astype(np.uint32)
    return Column(values.drop_null().to_numpy(), there)
