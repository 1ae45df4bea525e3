"""Draw a series as one line of text that keeps spikes and marks non-finite values. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from tocsin_server.runs.sparkline_buckets import Bucket, Spark

BARS = "▁▂▃▄▅▆▇█"
NOT_A_NUMBER, INFINITE, NOTHING = "×", "∞", " "
LOG_RATIO = 1000.0
"""Positive values with a larger ratio of maximum to minimum are drawn on a log scale."""


@dataclass(frozen=True)
class Frame:
    """Columns shared by several series: steps per column, first and last column."""

    width: int
    first: int
    last: int


def frame_of(sparks: Iterable[Spark]) -> Frame | None:
    """Return columns for all of ``sparks``, wide enough that few columns of the densest series are empty."""
    known = [(spark.first, spark.last, spark) for spark in sparks if spark.first is not None]
    if not known:
        return None
    width = max(spark.width for _, _, spark in known)
    densest = max((spark for _, _, spark in known), key=lambda spark: len(spark.buckets))
    keys = sorted({key * densest.width // width for key in densest.buckets})
    gaps = sorted(after - before for before, after in pairwise(keys))
    width *= gaps[len(gaps) * 9 // 10] if gaps else 1
    lasts = [last for _, last, _ in known if last is not None]
    return Frame(width, min(first for first, _, _ in known) // width, max(lasts) // width)


def sparkline(spark: Spark, frame: Frame | None = None) -> str:
    """Return one character per bucket of steps: ``×`` for a NaN, ``∞`` for an infinity, blank if empty.

    A bucket is drawn by its value that is farthest from the median of the run, so that a
    spike of one step keeps its height.

    Args:
        spark: The series.
        frame: The columns; None for the buckets of the series.
    """
    buckets = _buckets(spark) if frame is None else _framed(spark, frame)
    finite = [bucket for bucket in buckets if bucket is not None and bucket.count]
    if not finite:
        return "".join(_mark(bucket) or NOTHING for bucket in buckets)
    middle = median(_mean(bucket) for bucket in finite)
    heights = [
        None if bucket is None or not bucket.count else _farthest(bucket, middle) for bucket in buckets
    ]
    logarithmic = is_logarithmic(spark)
    known = [height for height in heights if height is not None]
    low, high = min(known), max(known)
    return "".join(
        _mark(bucket) or (NOTHING if height is None else _bar(height, low, high, logarithmic))
        for bucket, height in zip(buckets, heights, strict=True)
    )


def is_logarithmic(spark: Spark) -> bool:
    """Return whether the series is drawn on a log scale."""
    low, high = extremes(spark)
    return low is not None and high is not None and low > 0 and high / low > LOG_RATIO


def extremes(spark: Spark) -> tuple[float | None, float | None]:
    """Return the lowest and highest finite value, or None if there is none."""
    finite = [bucket for bucket in spark.buckets.values() if bucket.count]
    return min((b.low for b in finite), default=None), max((b.high for b in finite), default=None)


def nonfinite(spark: Spark) -> tuple[int, int]:
    """Return how many values were NaN, and how many infinite."""
    found = spark.buckets.values()
    return sum(bucket.nan for bucket in found), sum(bucket.pinf + bucket.ninf for bucket in found)


def _buckets(spark: Spark) -> list[Bucket | None]:
    if spark.first is None or spark.last is None:
        return []
    return [
        spark.buckets.get(key) for key in range(spark.first // spark.width, spark.last // spark.width + 1)
    ]


def _framed(spark: Spark, frame: Frame) -> list[Bucket | None]:
    """Return the buckets in the columns of ``frame``, whose width is a multiple of theirs."""
    found: dict[int, Bucket] = {}
    for key, bucket in spark.buckets.items():
        found.setdefault(key * spark.width // frame.width, Bucket()).merge(bucket)
    return [found.get(column) for column in range(frame.first, frame.last + 1)]


def _mean(bucket: Bucket) -> float:
    mean = bucket.total / bucket.count
    return mean if math.isfinite(mean) else bucket.low / 2 + bucket.high / 2


def _farthest(bucket: Bucket, middle: float) -> float:
    return bucket.high if bucket.high - middle >= middle - bucket.low else bucket.low


def _mark(bucket: Bucket | None) -> str:
    if bucket is None or not bucket.nonfinite:
        return ""
    return NOT_A_NUMBER if bucket.nan else INFINITE


def _bar(value: float, low: float, high: float, logarithmic: bool) -> str:
    if logarithmic:
        value, low, high = math.log(value), math.log(low), math.log(high)
    span = high / 2 - low / 2
    place = 0.0 if span <= 0 else (value / 2 - low / 2) / span
    return BARS[min(int(place * len(BARS)), len(BARS) - 1)]
