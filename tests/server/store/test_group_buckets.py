"""Runs aggregated by group: each counts once in a bucket, and NaN and Inf are counted, never averaged."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tocsin_server.store.group_buckets import GroupBuckets, Span
from tocsin_server.store.results import SeriesLayer

BUCKETS = 7
VALUES = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -math.inf]))
RUNS = st.lists(st.dictionaries(st.integers(0, 20), VALUES, min_size=1, max_size=21), min_size=1, max_size=5)


def layer(records: dict[int, float], attempt: int = 1, rank: int = 0) -> SeriesLayer:
    """Return exact records by step."""
    x = np.array(sorted(records), dtype=np.float64)
    v = np.array([records[int(step)] for step in x])
    counts = (np.isnan(v), v == np.inf, v == -np.inf)
    nan, pinf, ninf = (count.astype(np.float64) for count in counts)
    return SeriesLayer(attempt, rank, 0, True, x, x, x, v, np.ones(len(v)), nan, pinf, ninf)


def bucket_values(records: dict[int, float], span: Span) -> list[float | None]:
    """Return the value of one run in each bucket, plainly: None without a value."""
    width = (span.last - span.first) / span.buckets or 1.0
    found: dict[int, list[float]] = {}
    for step, value in records.items():
        found.setdefault(min(int((step - span.first) // width), span.buckets - 1), []).append(value)
    own = {place: [v for v in each if math.isfinite(v)] for place, each in found.items()}
    mean = {place: statistics.fmean(each) if each else None for place, each in own.items()}
    out: list[float | None] = []
    for place in range(span.buckets):
        left = max((p for p in mean if p <= place), default=None)
        right = min((p for p in mean if p >= place), default=None)
        a, b = (None if p is None else mean[p] for p in (left, right))
        if a is None or b is None or left is None or right is None:
            out.append(None)
        else:
            out.append(a if left == right else a + (place - left) / (right - left) * (b - a))
    return out


@given(runs=RUNS)
def test_each_bucket_is_the_mean_over_the_runs(runs: list[dict[int, float]]) -> None:
    """Mean, deviation, number of runs and counts of non-finite values equal a plain computation."""
    span = Span(min(map(min, runs)), max(map(max, runs)), BUCKETS)
    group = GroupBuckets(span)
    group.add([[layer(run)] for run in runs[:2]])
    group.add([[layer(run)] for run in runs[2:]])
    plain = [bucket_values(run, span) for run in runs]
    own = sorted({int(place) for run in runs for place in span.places(np.array([*run], dtype=np.float64))})
    columns = group.columns()
    assert len(columns["x"]) == len(own)
    for i, place in enumerate(own):
        here = [value for run in plain if (value := run[place]) is not None]
        assert columns["n"][i] == len(here)
        if here:
            assert columns["mean"][i] == pytest.approx(statistics.fmean(here), rel=1e-6, abs=1e-6)
            deviation = statistics.stdev(here) if len(here) > 1 else 0.0
            assert columns["std"][i] == pytest.approx(deviation, rel=1e-6, abs=1e-6)
        else:
            assert np.isnan([columns[name][i] for name in ("mean", "std", "min", "max")]).all()
    every = [value for run in runs for value in run.values()]
    assert columns["nan"].sum() == sum(map(math.isnan, every))
    assert columns["pinf"].sum() + columns["ninf"].sum() == sum(map(math.isinf, every))


@given(runs=RUNS)
@example(runs=[dict.fromkeys(range(3), 941241.5)])
def test_the_range_is_that_of_all_values(runs: list[dict[int, float]]) -> None:
    """The lowest and the highest finite value of any run is in a bucket."""
    group = GroupBuckets(Span(0, 20, BUCKETS))
    group.add([[layer(run)] for run in runs])
    finite = [value for run in runs for value in run.values() if math.isfinite(value)]
    if finite:
        columns = group.columns()
        assert (np.nanmin(columns["min"]), np.nanmax(columns["max"])) == (min(finite), max(finite))


def test_the_newest_attempt_counts_from_its_first_step() -> None:
    """Replayed steps of the older attempt and other ranks are left out, as in a chart."""
    group = GroupBuckets(Span(0, 3, 4))
    newest, rank, older = {2: 5.0, 3: 6.0}, {2: 50.0, 3: 60.0}, {0: 1.0, 1: 2.0, 2: 3.0, 3: math.nan}
    group.add([[layer(newest, 2), layer(rank, 2, 1), layer(older, 1)]])
    columns = group.columns()
    assert columns["mean"].tolist() == [1.0, 2.0, 5.0, 6.0]
    assert (columns["nan"].sum(), group.runs) == (0, 1)


def test_newest_values_that_are_not_finite_are_counted() -> None:
    """They are not in the mean of the newest values, and a run without the series does not count."""
    group = GroupBuckets(Span(0, 1, BUCKETS))
    for last in (1.0, 3.0, math.nan, math.inf):
        group.add([[layer({0: 0.0, 1: last})], []])
    mean, std = group.newest.result()
    assert (mean[0], std[0], group.newest.n[0]) == (2.0, pytest.approx(math.sqrt(2)), 2)
    assert (group.runs, group.nonfinite) == (4, 2)


def test_equal_values_have_no_deviation() -> None:
    """The table of groups shows 941241.5, not 941241.5 ± 1e-10."""
    group = GroupBuckets(Span(0, 0, 1))
    for runs in (1, 3, 7):
        group.add([[layer({0: 941241.1})]] * runs)
    mean, std = group.newest.result()
    assert (mean[0], std[0], group.columns()["std"][0]) == (941241.1, 0.0, 0.0)


def test_equal_huge_values_stay_exact() -> None:
    """No product of a count and a value overflows."""
    group = GroupBuckets(Span(0, 9, 2))
    for _ in range(3):
        group.add([[layer(dict.fromkeys(range(10), 1.5e308))]])
    assert group.columns()["mean"].tolist() == pytest.approx([1.5e308] * 2)
