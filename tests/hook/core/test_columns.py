"""Rows are converted to columns: dense if every row has the value, otherwise sparse."""

from __future__ import annotations

import math
import struct
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from tocsin.core.columns import columns_of
from tocsin.protocol import Column, Sparse

NAMES = st.sets(st.sampled_from("abcdef"), max_size=4).map(lambda names: tuple(sorted(names)))


def rows_of(column: Column, n: int) -> dict[int, bytes]:
    """Return the value of each row that has one, as its eight bytes."""
    at = range(n) if isinstance(column, bytes) else struct.unpack(f"<{len(column.at) // 4}I", column.at)
    values = column if isinstance(column, bytes) else column.v
    return {row: values[8 * index : 8 * index + 8] for index, row in enumerate(at)}


@given(
    st.lists(
        NAMES.flatmap(
            lambda names: st.tuples(
                st.just(names), st.lists(st.floats(), min_size=len(names), max_size=len(names))
            )
        ),
        min_size=1,
        max_size=30,
    )
)
def test_columns_hold_exactly_the_values_of_the_rows(
    shapes: list[tuple[tuple[str, ...], list[float]]],
) -> None:
    """For any mix of shapes, every value is at its row, bit for bit, and there are no others."""
    rows = [(step, step, names, *values) for step, (names, values) in enumerate(shapes)]
    _, _, columns = columns_of(rows)
    found = {
        (row, name): value
        for name, column in columns.items()
        for row, value in rows_of(column, len(rows)).items()
    }
    expected = {
        (row, name): struct.pack("<d", value)
        for row, (names, values) in enumerate(shapes)
        for name, value in zip(names, values, strict=True)
    }
    assert found == expected


def test_a_column_of_every_row_is_dense_and_another_is_sparse() -> None:
    """Two optimizers in one batch: their columns do not fill each other's rows."""
    rows: list[tuple[Any, ...]] = [(0, 0, ("loss", "lr"), 1.0, 0.1), (0, 0, ("loss",), 2.0)]
    _, _, columns = columns_of(rows)
    assert columns["loss"] == struct.pack("<2d", 1.0, 2.0)
    assert columns["lr"] == Sparse(struct.pack("<I", 0), struct.pack("<d", 0.1))


def test_a_value_that_is_not_a_number_is_missing() -> None:
    """None, text and a tensor with two elements are left out; the other values stay."""
    values = [1.0, None, "x", torch.zeros(2), torch.tensor(math.nan), True]
    _, _, columns = columns_of([(0, 0, ("loss",), value) for value in values])
    assert columns["loss"] == Sparse(struct.pack("<3I", 0, 4, 5), struct.pack("<3d", 1.0, math.nan, 1.0))


def test_a_column_without_any_number_is_left_out() -> None:
    """A name that never has a value makes no column."""
    assert columns_of([(0, 0, ("loss",), None)])[2] == {}


def test_an_invalid_step_is_rejected_by_the_server_and_not_lost_here() -> None:
    """Text, or more than 2**53, becomes -1: the server answers `negative-step`."""
    given = ["x", 2**70, 2**53 + 1, 2**53, torch.tensor(7)]
    steps, times, _ = columns_of([(step, at, ()) for at, step in enumerate(given)])
    assert (steps, times) == ([-1, -1, -1, 2**53, 7], [0, 1, 2, 3, 4])
