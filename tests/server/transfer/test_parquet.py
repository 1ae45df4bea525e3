"""Records as Parquet: exact, missing is not NaN, one row group in memory at a time."""

from __future__ import annotations

import io
import struct
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.models import Column
from tocsin_server.store.results import RecordPage
from tocsin_server.transfer.column_names import COORDINATES, heading
from tocsin_server.transfer.parquet import CELLS, MissingExtraError, parquet_bodies

PATTERNS = st.lists(st.none() | st.integers(0, 2**64 - 1), min_size=1, max_size=30)


def page(cells: list[int | None], name: str = "loss", first: int = 0) -> RecordPage:
    """Return a page of one series, given as bit patterns; None is a record without a value."""
    n = len(cells)
    rows = [row for row, cell in enumerate(cells) if cell is not None]
    values = np.frombuffer(struct.pack(f"<{len(rows)}Q", *(cells[row] or 0 for row in rows)), dtype="<f8")
    numbers = np.arange(first, first + n, dtype="i8")
    columns = {name: Column(values, None if len(rows) == n else np.array(rows, dtype="u4"))} if rows else {}
    return RecordPage(n, numbers, numbers, numbers, numbers, numbers, numbers, columns, None, numbers)


@given(PATTERNS, st.sampled_from(["loss", "rank", "value:rank", "train.loss", "a b\nü"]))
def test_every_bit_pattern_comes_back(cells: list[int | None], name: str) -> None:
    """Each NaN is exact, missing values stay missing, for any name of the series."""
    body = b"".join(parquet_bodies([page(cells, name)], [name]))
    table = pyarrow.parquet.read_table(io.BytesIO(body))
    assert table.schema.names == [*COORDINATES, heading(name)]
    assert {str(kind) for kind in table.schema.types} == {"int64", "double"}
    column = table.column(heading(name)).combine_chunks()
    assert column.is_valid().to_pylist() == [cell is not None for cell in cells]
    kept = column.drop_null().to_numpy(zero_copy_only=False)
    assert kept.view("<u8").tolist() == [cell for cell in cells if cell is not None]
    assert table.column("seq").to_pylist() == list(range(len(cells)))


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


def test_without_pyarrow_an_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised before anything is written."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"tocsin-server\[parquet\]"):
        parquet_bodies([], [])


NAMES = st.text(max_size=20) | st.sampled_from([*COORDINATES, *map(heading, COORDINATES), "value:"])


@given(NAMES, NAMES)
def test_no_two_series_share_a_heading(one: str, two: str) -> None:
    """A heading is never a coordinate, and identifies its series."""
    assert heading(one) not in COORDINATES
    assert (heading(one) == heading(two)) == (one == two)
