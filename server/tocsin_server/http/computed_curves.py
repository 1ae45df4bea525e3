"""Curves that are computed from several series: of a formula, and of the spread over ranks. Pure.

They are computed as on the run page (``web/lib/charts/combined.js`` and ``rankstats.js``): at the buckets of
the series with the fewest, each counted with its mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tocsin_server.core.formula import Value
from tocsin_server.core.models import F64, I64
from tocsin_server.notify.chart_image import Curve
from tocsin_server.store.results import SeriesLayer

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Operand:
    """A series at the steps of another: values [m], and where [m] it has NaN, Inf and -Inf.

    ``there`` [m] is false where it has no record; the other fields mean nothing there.
    """

    there: Flags
    values: F64
    nan: Flags
    pinf: Flags
    ninf: Flags

    def at(self, places: I64) -> Operand:
        """Return the operand at some of the steps."""
        there, values, nan = self.there[places], self.values[places], self.nan[places]
        return Operand(there, values, nan, self.pinf[places], self.ninf[places])


def aligned(series: Sequence[Sequence[SeriesLayer]]) -> tuple[F64, list[Operand]] | None:
    """Return the steps at which all series have records, and the series there.

    They are of the newest attempt, and of its lowest rank, that has all of the series; None if none has.

    Args:
        series: The layers of each series, the newest attempt first.
    """
    for first in series[0] if series else ():
        same = [_of_process(first, layers) for layers in series]
        found = [layer for layer in same if layer is not None and layer.x.size]
        if len(found) == len(series):
            steps, operands = _at_the_sparsest(found)
            places = np.flatnonzero(np.logical_and.reduce([each.there for each in operands]))
            return steps[places], [each.at(places) for each in operands]
    return None


def formula_curve(series: Sequence[Sequence[SeriesLayer]], value: Value) -> Curve | None:
    """Return the results of a formula; None if no training process reported all of its series."""
    found = aligned(series)
    if found is None:
        return None
    steps, operands = found
    values = [each.values for each in operands]
    with np.errstate(all="ignore"):
        results = value(values)
        broken = ~np.isfinite(results)
        for i, each in enumerate(operands):
            for there, bad in ((each.nan, math.nan), (each.pinf, math.inf), (each.ninf, -math.inf)):
                spoiled = value([*values[:i], np.full_like(values[i], bad), *values[i + 1 :]])
                broken |= there & ~np.isfinite(spoiled)
    return Curve(steps, results, results, broken.tolist())


def spread_curve(layers: Sequence[SeriesLayer]) -> Curve | None:
    """Return the largest minus the smallest value over ranks; None if no attempt has two ranks."""
    for attempt in dict.fromkeys(layer.attempt for layer in layers):
        ranks = [layer for layer in layers if layer.attempt == attempt and layer.x.size]
        if len(ranks) > 1:
            return _spread(*_at_the_sparsest(ranks))
    return None


def _spread(steps: F64, ranks: Sequence[Operand]) -> Curve:
    broken = np.logical_or.reduce([each.there & (each.nan | each.pinf | each.ninf) for each in ranks])
    good = [each.there & np.isfinite(each.values) for each in ranks]
    low = np.min([np.where(ok, each.values, math.inf) for ok, each in zip(good, ranks, strict=True)], axis=0)
    high = np.max(
        [np.where(ok, each.values, -math.inf) for ok, each in zip(good, ranks, strict=True)], axis=0
    )
    several = np.sum(good, axis=0) > 1
    apart = np.where(several, high, math.nan) - np.where(several, low, math.nan)
    places = np.flatnonzero(several | broken)
    return Curve(steps[places], apart[places], apart[places], broken[places].tolist())


def _of_process(like: SeriesLayer, layers: Sequence[SeriesLayer]) -> SeriesLayer | None:
    same = (layer for layer in layers if (layer.attempt, layer.rank) == (like.attempt, like.rank))
    return next(same, None)


def _at_the_sparsest(layers: Sequence[SeriesLayer]) -> tuple[F64, list[Operand]]:
    """Return the steps of the layer with the fewest, and each layer's bucket that has steps in common."""
    sparsest = min(layers, key=lambda layer: layer.x.size)
    return np.asarray(sparsest.x, dtype=np.float64), [_operand(layer, sparsest) for layer in layers]


def _operand(layer: SeriesLayer, sparsest: SeriesLayer) -> Operand:
    places = np.searchsorted(layer.x, sparsest.x1, side="right") - 1
    known = np.maximum(places, 0)
    there = (places >= 0) & (layer.x1[known] >= sparsest.x)
    nan, pinf, ninf = (np.asarray(each)[known] > 0 for each in (layer.nan, layer.pinf, layer.ninf))
    values = np.asarray(layer.first if layer.mean is None else layer.mean, dtype=np.float64)[known]
    bad = np.where(pinf, math.inf, np.where(ninf, -math.inf, math.nan))
    values = np.where(np.isfinite(values) | nan, values, bad)
    return Operand(there, values, nan, pinf, ninf)
