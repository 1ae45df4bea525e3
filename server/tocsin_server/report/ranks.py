"""Merge the curves of many ranks, so that a report of many processes stays small. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np

from tocsin_server.store.results import SeriesLayer

SLOTS = 600
"""Buckets of a merged curve: more than a chart has room for without zooming in."""


def merged_ranks(layers: Iterable[SeriesLayer]) -> Iterator[SeriesLayer]:
    """Yield the lowest rank of each attempt, which charts draw as a line, and its other ranks as one curve.

    Args:
        layers: Curves of one series, newest attempt first, then by rank.
    """
    for _, group in groupby((one for one in layers if one.x.size), key=lambda one: one.attempt):
        first, *others = group
        yield first
        if len(others) > 1:
            yield _merged(others)
        else:
            yield from others


def _merged(layers: Sequence[SeriesLayer]) -> SeriesLayer:
    """Return one layer with the minimum, the maximum and all counts of ``layers`` in each bucket."""
    start, stop = min(float(one.x[0]) for one in layers), max(float(one.x1[-1]) for one in layers)
    width = (stop - start) / SLOTS or 1.0
    low, high = np.full(SLOTS, np.inf), np.full(SLOTS, -np.inf)
    begin, end = np.full(SLOTS, np.inf), np.full(SLOTS, -np.inf)
    counts = {name: np.zeros(SLOTS) for name in ("n", "nan", "pinf", "ninf")}
    for one in layers:
        slot = np.clip(((one.x - start) / width).astype(int), 0, SLOTS - 1)
        least = one.first if one.min is None else one.min
        most = one.first if one.max is None else one.max
        np.fmin.at(low, slot, np.where(np.isfinite(least), least, np.nan))
        np.fmax.at(high, slot, np.where(np.isfinite(most), most, np.nan))
        np.minimum.at(begin, slot, one.x)
        np.maximum.at(end, slot, one.x1)
        for name, sums in counts.items():
            np.add.at(sums, slot, getattr(one, name))
    there = counts["n"] > 0
    low, high = np.where(np.isinf(low), np.nan, low)[there], np.where(np.isinf(high), np.nan, high)[there]
    middle = low / 2 + high / 2
    return replace(
        layers[0], exact=False, x=begin[there], x1=end[there], t=begin[there], first=middle,
        min=low, max=high, mean=middle, last=middle, n=counts["n"][there], nan=counts["nan"][there],
        pinf=counts["pinf"][there], ninf=counts["ninf"][there],
    )  # fmt: skip
