"""A sparkline loses no spike and no non-finite value, in any order of arrival."""

from __future__ import annotations

import json
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core import exact_json
from tocsin_server.runs.sparkline_buckets import MOST_BUCKETS, Spark, bucket_of

VALUES = st.one_of(st.floats(allow_nan=True, allow_infinity=True, width=64))
POINTS = st.lists(st.tuples(st.integers(0, 5000), VALUES), min_size=1, max_size=60)


def spark_of(batches: list[list[tuple[int, float]]]) -> Spark:
    spark = Spark()
    for batch in batches:
        steps, values = zip(*batch, strict=True)
        spark.take(np.array(steps, np.int64), np.array(values, np.float64))
    return spark


@given(st.lists(POINTS, min_size=1, max_size=8))
def test_extremes_and_nonfinite_counts_survive_every_merge(batches: list[list[tuple[int, float]]]) -> None:
    """At most 72 buckets have the exact minimum, maximum and counts of all values."""
    values = [value for batch in batches for _, value in batch]
    finite = [value for value in values if math.isfinite(value)]
    buckets = list(spark_of(batches).buckets.values())
    assert len(buckets) <= MOST_BUCKETS
    assert min(bucket.low for bucket in buckets) == min(finite, default=math.inf)
    assert max(bucket.high for bucket in buckets) == max(finite, default=-math.inf)
    assert sum(bucket.count for bucket in buckets) == len(finite)
    assert sum(bucket.nan for bucket in buckets) == sum(math.isnan(value) for value in values)
    assert sum(bucket.pinf for bucket in buckets) == values.count(math.inf)
    assert sum(bucket.ninf for bucket in buckets) == values.count(-math.inf)


@given(st.lists(POINTS, min_size=1, max_size=4))
def test_every_value_lies_in_the_bucket_of_its_step(batches: list[list[tuple[int, float]]]) -> None:
    """A bucket covers exactly the values of its range of steps."""
    spark = spark_of(batches)
    row = spark.row()
    assert row["x0"] == min(step for batch in batches for step, _ in batch)
    assert row["x1"] == max(step for batch in batches for step, _ in batch)
    for step, value in (point for batch in batches for point in batch):
        bucket = spark.buckets[step // spark.width]
        assert not math.isfinite(value) or bucket.low <= value <= bucket.high


@given(st.lists(POINTS, min_size=1, max_size=4))
def test_a_spark_survives_being_saved(batches: list[list[tuple[int, float]]]) -> None:
    """Saved as JSON and restored, a sparkline behaves the same."""
    spark = spark_of(batches)
    again = Spark.restore(exact_json.loads(exact_json.dumps(spark.saved())))
    for one in (spark, again):
        one.take(np.array([7, 9000], np.int64), np.array([1.0, math.nan]))
    assert again.json() == spark.json()


@given(st.lists(POINTS, min_size=1, max_size=4))
def test_the_text_is_the_row(batches: list[list[tuple[int, float]]]) -> None:
    """The cached text of a bucket is the JSON of the row, also after more values."""
    spark = spark_of(batches[:1])
    spark.json()
    for batch in batches[1:]:
        steps, values = zip(*batch, strict=True)
        spark.take(np.array(steps), np.array(values))
    assert json.loads(spark.json()) == exact_json.loads(exact_json.dumps(spark.row()))


def test_a_stretch_without_steps_is_null() -> None:
    """A range without steps has no bucket; one with only NaN has no mean."""
    spark = spark_of([[(0, 1.0), (2, math.nan)]])
    assert spark.row()["buckets"] == [[1.0, 1.0, 1.0, 0, 0, 0], None, [None, None, None, 1, 0, 0]]
    assert Spark().row() == {"x0": None, "x1": None, "buckets": []}


def test_a_mean_of_huge_values_stays_finite() -> None:
    """The sum of values near the largest float overflows; the mean does not."""
    mean = bucket_of(np.array([1.7e308, 1.7e308])).cells()[2]
    assert mean == 1.7e308
