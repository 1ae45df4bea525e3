"""Records as Parquet: exact, missing is not NaN, one row group in memory at a time."""

from __future__ import annotations

import io
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.models import Column
from tocsin_server.store.results import RecordPage
from tocsin_server.transfer.column_names import COORDINATES, heading, series_of
from tocsin_server.transfer.parquet import (
    CELLS,
    MissingExtraError,
    UnreadableError,
    parquet_bodies,
    read_parquet,
)

PATTERNS = st.lists(st.none() | st.integers(0, 2**64 - 1), min_size=1, max_size=30)


def page(cells: list[int | None], name: str = "loss", first: int = 0) -> RecordPage:
    """Return a page of one series, given as bit patterns; None is a record without a value."""
    n = len(cells)
    rows = [row for row, cell in enumerate(cells) if cell is not None]
    values = np.frombuffer(struct.pack(f"<{len(rows)}Q", *(cells[row] or 0 for row in rows)), dtype="<f8")
    numbers = np.arange(first, first + n, dtype="i8")
    columns = {name: Column(values, None if len(rows) == n else np.array(rows, dtype="u4"))} if rows else {}
    return RecordPage(n, numbers, numbers, numbers, numbers, numbers, numbers, columns, None, numbers)


def read_back(body: bytes, file: Path) -> list[RecordPage]:
    file.write_bytes(body)
    return list(read_parquet(file, 4096))


@given(PATTERNS, st.sampled_from(["loss", "rank", "value:rank", "train.loss", "a b\nü"]))
def test_every_bit_pattern_comes_back(
    tmp_path_factory: pytest.TempPathFactory, cells: list[int | None], name: str
) -> None:
    """Each NaN is exact, missing values stay missing, for any name of the series."""
    file = tmp_path_factory.mktemp("parquet") / "records.parquet"
    (found,) = read_back(b"".join(parquet_bodies([page(cells, name)], [name])), file)
    there = [row for row, cell in enumerate(cells) if cell is not None]
    assert list(found.columns) == ([name] if there else [])
    if there:
        column = found.columns[name]
        assert column.v.view("<u8").tolist() == [cells[row] for row in there]
        assert (list(range(len(cells))) if column.at is None else column.at.tolist()) == there
    assert found.seq.tolist() == list(range(len(cells)))


def test_bodies_come_as_pages_do() -> None:
    """The first group is written before the second is read: memory does not grow with the run."""
    rows, asked = CELLS // (len(COORDINATES) + 1) + 1, []

    def pages() -> Iterator[RecordPage]:
        for number in range(3):
            asked.append(number)
            yield page([number] * rows)

    bodies = parquet_bodies(pages(), ["loss"])
    assert len(next(bodies)) > 0
    assert asked == [0]
    assert sum(len(body) for body in bodies) > 0


def test_without_pyarrow_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Immediately, before anything is written."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"tocsin-server\[parquet\]"):
        parquet_bodies([], [])


def test_another_table_is_refused(tmp_path: Path) -> None:
    """With its columns."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"step": [1], "loss": ["x"]})
    body = io.BytesIO()
    pyarrow.parquet.write_table(table, body)
    with pytest.raises(UnreadableError, match=r"got step int64, loss (large_)?string"):
        read_back(body.getvalue(), tmp_path / "x.parquet")


@given(st.text(max_size=20) | st.sampled_from([*COORDINATES, "value:rank", "value:"]))
def test_no_two_series_share_a_heading(name: str) -> None:
    """A heading is never a coordinate, and identifies its series."""
    assert heading(name) not in COORDINATES
    assert series_of(heading(name)) == name
