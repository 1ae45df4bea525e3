"""Write records as Parquet: bit-exact float64, including NaN payloads; missing values are nulls.

Needs pyarrow, the optional extra ``parquet``. Columns use byte stream split and
zstd, without dictionaries, which would merge different NaNs.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tocsin_server.core.errors import TocsinError
from tocsin_server.core.models import Column
from tocsin_server.store.results import RecordPage
from tocsin_server.transfer.column_names import COORDINATES, heading

CELLS = 1 << 20
"""Values in a row group: 8 MiB, which bounds the memory of an export."""


class MissingExtraError(TocsinError):
    """pyarrow is not installed."""


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
            "Parquet needs pyarrow, which is not installed. Install it with "
            "`pip install 'tocsin-server[parquet]'`."
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
