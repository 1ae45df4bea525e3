"""The pyramid: aggregates of records that lose no extreme and no non-finite value. Pure functions.

A bucket keeps the range of steps and times, the count, minimum, maximum and sum of the finite
values, the first and last value, and the counts of NaN, +Inf and -Inf. Merging buckets keeps
every extreme and every count exactly, so a one-step spike or a single NaN is visible at any zoom.
(Sampling methods do not: docs/internals/storage.md.) Buckets are cut by records, not by values, so that
all series of a writer share their ranges.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tocsin_server.core.models import F64, I64, Column
from tocsin_server.store.chunks import FLOAT32, compress, expand, narrow, rows_of, shuffle, unshuffle

Mask = NDArray[np.bool_]

LEVELS = (64, 256, 1024, 4096, 16_384, 65_536, 262_144)
"""Bucket sizes in records. The first level is written with each chunk, the others when a row is full.

With a ratio of four, at most four buckets are read for each requested one.
"""
FAN_OUT = 4
"""Buckets of one level in a bucket of the next level."""
ROW = 256
"""Buckets in a row of the upper levels. Unpacked, reading 2000 of them takes 35 ms (measured)."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """Smallest and largest step and time of each bucket, i64[m]; ``weight`` is the number of records."""

    step0: I64
    step1: I64
    t0: I64
    t1: I64
    weight: I64


@dataclass(frozen=True, slots=True)
class Values:
    """Aggregates of one series over the same buckets: counts i64[m], floats f64[m].

    ``min`` and ``max`` are NaN without a finite value, ``first`` and ``last`` without any value.
    """

    n: I64
    nan: I64
    pinf: I64
    ninf: I64
    min: F64
    max: F64
    first: F64
    last: F64
    sum: F64


def ranges_of(step: I64, time_ns: I64, size: int) -> Ranges:
    """Return buckets of ``size`` records each; the last may hold fewer."""
    cuts = np.arange(0, len(step), size)
    return Ranges(
        np.minimum.reduceat(step, cuts),
        np.maximum.reduceat(step, cuts),
        np.minimum.reduceat(time_ns, cuts),
        np.maximum.reduceat(time_ns, cuts),
        np.diff(cuts, append=len(step)),
    )


def values_of(column: Column, rows: int, size: int) -> Values:
    """Return the column's values in buckets of ``size`` records out of ``rows``."""
    v = column.v
    if column.at is None and rows and rows % size == 0:
        return _values_of_blocks(v.reshape(-1, size))
    finite = np.isfinite(v)
    known = np.where(finite, v, np.nan)
    single = Values(
        np.ones(len(v), dtype=np.int64),
        np.isnan(v).astype(np.int64),
        np.isposinf(v).astype(np.int64),
        np.isneginf(v).astype(np.int64),
        known,
        known,
        v,
        v,
        np.where(finite, v, 0.0),
    )
    groups = rows_of(column, rows).astype(np.int64) // size
    return merge_values(single, groups, (rows + size - 1) // size)


def _values_of_blocks(v: F64) -> Values:
    """Return the values of full buckets [m, size] of a dense column; the fast path."""
    count = np.full(len(v), v.shape[1], dtype=np.int64)
    first, last = v[:, 0].copy(), v[:, -1].copy()
    with np.errstate(all="ignore"):
        if np.isfinite(v).all():
            zero = np.zeros(len(v), dtype=np.int64)
            return Values(count, zero, zero, zero, v.min(1), v.max(1), first, last, v.sum(1))
        nan, pinf, ninf = (np.asarray(test(v).sum(1)) for test in (np.isnan, np.isposinf, np.isneginf))
        finite = np.isfinite(v)
        known = np.where(finite, v, np.nan)
        low, high = np.fmin.reduce(known, axis=1), np.fmax.reduce(known, axis=1)
        return Values(count, nan, pinf, ninf, low, high, first, last, np.where(finite, v, 0.0).sum(1))


def merge_values(values: Values, groups: I64, count: int) -> Values:
    """Merge buckets of the same group (ascending numbers below ``count``); unused groups are empty."""
    held = values.n > 0
    if not held.all():
        values, groups = chosen_values(values, held), groups[held]
    out = empty_values(count)
    if not len(groups):
        return out
    cuts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    ends = np.append(cuts[1:], len(groups)) - 1
    place = groups[cuts]
    for name in ("n", "nan", "pinf", "ninf"):
        getattr(out, name)[place] = np.add.reduceat(getattr(values, name), cuts)
    with np.errstate(all="ignore"):
        out.sum[place] = np.add.reduceat(values.sum, cuts)
    out.min[place] = np.fmin.reduceat(values.min, cuts)
    out.max[place] = np.fmax.reduceat(values.max, cuts)
    out.first[place] = values.first[cuts]
    out.last[place] = values.last[ends]
    return out


def merge_ranges(ranges: Ranges, groups: I64) -> Ranges:
    """Merge adjacent buckets of the same group (ascending)."""
    cuts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    return Ranges(
        np.minimum.reduceat(ranges.step0, cuts),
        np.maximum.reduceat(ranges.step1, cuts),
        np.minimum.reduceat(ranges.t0, cuts),
        np.maximum.reduceat(ranges.t1, cuts),
        np.add.reduceat(ranges.weight, cuts),
    )


def reduce_to(ranges: Ranges, values: Values, buckets: int) -> tuple[Ranges, Values]:
    """Return at most ``buckets`` non-empty buckets with similar numbers of records."""
    held = values.n > 0
    ranges, values = chosen_ranges(ranges, held), chosen_values(values, held)
    if len(ranges.weight) <= buckets:
        return ranges, values
    before = np.cumsum(ranges.weight) - ranges.weight
    wide = before * buckets // int(ranges.weight.sum())
    groups = np.cumsum(np.diff(wide, prepend=wide[0]) > 0, dtype=np.int64)
    return merge_ranges(ranges, groups), merge_values(values, groups, int(groups[-1]) + 1)


def mean_of(values: Values) -> F64:
    """Return the mean of the finite values, clamped to min and max if the sum overflowed, or NaN if none."""
    finite = values.n - values.nan - values.pinf - values.ninf
    with np.errstate(all="ignore"):
        mean = values.sum / finite
        mean = np.where(np.isnan(mean), values.min / 2 + values.max / 2, mean)
        return np.fmin(np.fmax(mean, values.min), values.max)


def overlapping(low: I64, high: I64, start: float | None, stop: float | None) -> Mask:
    """Return which ranges [low, high] overlap the window from ``start`` to ``stop``, both included."""
    keep = np.ones(len(low), dtype=np.bool_)
    if start is not None:
        keep &= high >= start
    if stop is not None:
        keep &= low <= stop
    return keep


def chosen_ranges(ranges: Ranges, keep: Mask) -> Ranges:
    """Return the ranges that ``keep`` selects."""
    return Ranges(*(getattr(ranges, field.name)[keep] for field in fields(Ranges)))


def chosen_values(values: Values, keep: Mask) -> Values:
    """Return the values that ``keep`` selects."""
    return Values(*(getattr(values, field.name)[keep] for field in fields(Values)))


def joined_ranges(parts: list[Ranges]) -> Ranges:
    """Return ``parts`` concatenated."""
    return Ranges(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Ranges)))


def joined_values(parts: list[Values]) -> Values:
    """Return ``parts`` concatenated."""
    return Values(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Values)))


def empty_values(count: int) -> Values:
    """Return ``count`` buckets without values."""
    n, nan, pinf, ninf = np.zeros((4, count), dtype=np.int64)
    low, high, first, last = np.full((4, count), np.nan)
    return Values(n, nan, pinf, ninf, low, high, first, last, np.zeros(count))


def pack_ranges(ranges: Ranges) -> bytes:
    """Return ranges [m] as a body: starts as differences, lengths unchanged."""
    parts = (
        np.diff(ranges.step0, prepend=np.int64(0)),
        ranges.step1 - ranges.step0,
        np.diff(ranges.t0, prepend=np.int64(0)),
        ranges.t1 - ranges.t0,
        ranges.weight,
    )
    return compress(b"".join(shuffle(part.astype("<i8")) for part in parts))


def unpack_ranges(body: bytes) -> Ranges:
    """Reverse :func:`pack_ranges`."""
    raw = memoryview(expand(body))
    size = len(raw) // 5
    step0, steps, t0, times, weight = (unshuffle(raw[i * size : (i + 1) * size], "<i8") for i in range(5))
    step0, t0 = np.cumsum(step0), np.cumsum(t0)
    return Ranges(step0, step0 + steps, t0, t0 + times, weight)


def pack_values(values: Values) -> tuple[int, bytes]:
    """Return (codec, body) of values [m]: counts u32, the four floats as float32 if exact, sums float64."""
    counts = np.concatenate([values.n, values.nan, values.pinf, values.ninf]).astype("<u4")
    floats = np.concatenate([values.min, values.max, values.first, values.last])
    small = narrow(floats)
    codec = 0 if small is None else FLOAT32
    raw = shuffle(counts) + shuffle(floats if small is None else small) + shuffle(values.sum)
    return codec, compress(raw)


def unpack_values(codec: int, body: bytes, count: int) -> Values:
    """Reverse :func:`pack_values` for ``count`` buckets."""
    raw = memoryview(expand(body))
    width = 4 if codec & FLOAT32 else 8
    floats_at, sums_at = 16 * count, 16 * count + 4 * width * count
    n, nan, pinf, ninf = unshuffle(raw[:floats_at], "<u4").astype(np.int64).reshape(4, -1)
    floats = unshuffle(raw[floats_at:sums_at], f"<f{width}").astype(np.float64)
    low, high, first, last = floats.reshape(4, -1)
    return Values(n, nan, pinf, ninf, low, high, first, last, unshuffle(raw[sums_at:], "<f8"))
