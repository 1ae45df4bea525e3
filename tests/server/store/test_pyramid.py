"""Merging buckets loses no extremes and no counts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.models import Column
from tocsin_server.store.pyramid import (
    mean_of,
    merge_values,
    pack_ranges,
    pack_values,
    ranges_of,
    reduce_to,
    unpack_ranges,
    unpack_values,
    values_of,
)

numbers = st.lists(st.floats(), min_size=1, max_size=300)


def plain(v: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, float, int, int, int]:
    """Return minimum, maximum and counts, computed in plain Python."""
    finite = [x for x in v.tolist() if np.isfinite(x)]
    low, high = (min(finite), max(finite)) if finite else (np.nan, np.nan)
    return low, high, int(np.isnan(v).sum()), int((v == np.inf).sum()), int((v == -np.inf).sum())


@given(numbers, st.integers(1, 70), st.integers(1, 20))
def test_merging_twice_equals_merging_once(values: list[float], size: int, fan: int) -> None:
    """Merged buckets have the same extremes and counts as the values themselves."""
    v = np.array(values)
    fine = values_of(Column(v), len(v), size)
    groups = np.arange(len(fine.n)) // fan
    coarse = merge_values(fine, groups, int(groups[-1]) + 1)
    for i in range(len(coarse.n)):
        part = v[i * size * fan : (i + 1) * size * fan]
        reported = (coarse.min[i], coarse.max[i], coarse.nan[i], coarse.pinf[i], coarse.ninf[i])
        np.testing.assert_array_equal(reported, plain(part))
        np.testing.assert_array_equal((coarse.first[i], coarse.last[i]), (part[0], part[-1]))
        assert coarse.n[i] == len(part)


@given(numbers, st.integers(1, 16))
def test_buckets_come_back_from_their_row(values: list[float], size: int) -> None:
    """Packed and unpacked, a row of buckets is exactly the same."""
    v = np.array(values)
    sent = values_of(Column(v), len(v), size)
    codec, body = pack_values(sent)
    back = unpack_values(codec, body, len(sent.n))
    for name in ("n", "nan", "pinf", "ninf", "min", "max", "first", "last", "sum"):
        np.testing.assert_array_equal(getattr(back, name), getattr(sent, name))


@given(st.lists(st.integers(-(2**60), 2**60), min_size=1, max_size=200), st.integers(1, 70))
def test_ranges_come_back_from_their_row(steps: list[int], size: int) -> None:
    """Ranges survive packing, also if steps decrease."""
    step = np.array(steps, dtype=np.int64)
    sent = ranges_of(step, step * 2, size)
    back = unpack_ranges(pack_ranges(sent))
    for name in ("step0", "step1", "t0", "t1", "weight"):
        np.testing.assert_array_equal(getattr(back, name), getattr(sent, name))


@given(numbers, st.integers(1, 50))
def test_reducing_keeps_every_fault(values: list[float], buckets: int) -> None:
    """For any number of buckets, extremes and non-finite counts are complete."""
    v = np.array(values)
    step = np.arange(len(v))
    ranges, out = reduce_to(ranges_of(step, step, 1), values_of(Column(v), len(v), 1), buckets)
    assert len(out.n) <= buckets
    assert int(ranges.weight.sum()) == len(v)
    low, high = (np.fmin.reduce(out.min), np.fmax.reduce(out.max))
    reported = (low, high, out.nan.sum(), out.pinf.sum(), out.ninf.sum())
    np.testing.assert_array_equal(reported, plain(v))


@given(numbers)
def test_a_mean_lies_between_the_extremes(values: list[float]) -> None:
    """Even if the sum overflows, the mean is finite and within the bucket."""
    v = np.array(values)
    out = values_of(Column(v), len(v), len(v))
    mean = mean_of(out)
    if np.isfinite(v).any():
        assert out.min[0] <= mean[0] <= out.max[0]
    else:
        assert np.isnan(mean[0])


def test_a_missing_value_is_no_value() -> None:
    """Buckets without values of a sparse series are empty, and do not count as NaN."""
    column = Column(np.array([np.nan]), np.array([130], dtype=np.uint32))
    out = values_of(column, 256, 64)
    assert (out.n.tolist(), out.nan.tolist()) == ([0, 0, 1, 0], [0, 0, 1, 0])
