"""A text sparkline shows every spike and every non-finite value."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.offline.text_sparkline import INFINITE, NOT_A_NUMBER, frame_of, nonfinite, sparkline
from tocsin_server.runs.sparkline_buckets import Spark


def spark_of(values: list[float]) -> Spark:
    """Return a series with one value per step."""
    spark = Spark()
    spark.take(np.arange(len(values)), np.array(values, dtype=np.float64))
    return spark


@given(st.integers(100, 5000), st.data())
def test_a_spike_of_one_step_keeps_its_height(length: int, data: st.DataObject) -> None:
    """A spike at any of thousands of steps is visible, also downwards."""
    at = data.draw(st.integers(0, length - 1))
    up, down = [1.0] * length, [1.0] * length
    up[at], down[at] = 10.0, -10.0
    assert sparkline(spark_of(up)).count("█") == 1
    assert sparkline(spark_of(down)).count("▁") == 1


@given(st.integers(0, 4999), st.integers(0, 4999))
def test_non_finite_values_are_marked(nan: int, infinite: int) -> None:
    """One NaN and one infinity among 5000 steps."""
    values = [1.0] * 5000
    values[infinite] = math.inf
    values[nan] = math.nan
    line = sparkline(spark_of(values))
    assert NOT_A_NUMBER in line
    assert nonfinite(spark_of(values)) == (1, int(nan != infinite))
    assert INFINITE in line or nonfinite(spark_of(values))[1] == 0 or line.count(NOT_A_NUMBER) == 1


@given(st.lists(st.floats(), min_size=1, max_size=300))
def test_any_numbers_can_be_drawn(values: list[float]) -> None:
    """One character per bucket, for any floats."""
    assert 1 <= len(sparkline(spark_of(values))) <= 72


def test_an_empty_series_is_a_blank_line() -> None:
    """A series without a record."""
    assert sparkline(Spark()) == ""


@given(st.integers(0, 10_000), st.integers(1, 1000), st.integers(2, 60))
def test_regular_records_leave_no_gaps(first: int, stride: int, count: int) -> None:
    """Records at any distance and from any start leave no gaps."""
    spark = Spark()
    spark.take_few([first + stride * place for place in range(count)], [1.0] * count)
    line = sparkline(spark, frame_of([spark]))
    assert line.count(" ") <= len(line) // 8
    assert len(line) >= min(count, 12) // 2


def test_series_of_a_report_stand_below_each_other() -> None:
    """An evaluation at the end of a run is drawn at the end."""
    loss, late = Spark(), Spark()
    loss.take_few(list(range(0, 1000, 10)), [1.0] * 100)
    late.take_few([990], [2.0])
    frame = frame_of([loss, late])
    assert len(sparkline(loss, frame)) == len(sparkline(late, frame))
    assert sparkline(late, frame).lstrip() == "▁"
    assert frame_of([]) is None
