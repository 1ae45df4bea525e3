"""Build the charts of a report: the data that ``web/report.js`` draws, and the text next to each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tocsin_server.core.models import Alert
from tocsin_server.report.material import VITAL_SIGNS, Material
from tocsin_server.report.words import MINUS, esc, foreign, num, whole
from tocsin_server.store.results import SeriesLayer

TITLES = {"loss": "Loss", "grad_norm": "Grad norm", "scale": "Loss scale", "lr": "Learning rate"}
MOST_RESTARTS = 60
COUNTED = (("nan", "NaN"), ("pinf", "+Inf"), ("ninf", f"{MINUS}Inf"))
COORDINATES = ("attempt", "rank", "exact", "x")
EXACT = ("first",)
BUCKETS = ("x1", "min", "max", "mean", "last", "n", "nan", "pinf", "ninf")


def series_names(materials: Sequence[Material]) -> list[str]:
    """Return the series that have values in any of the runs, vital signs first."""
    names = dict.fromkeys([*VITAL_SIGNS, *(name for one in materials for name in one.curves)])
    return [name for name in names if any(one.curves.get(name) for one in materials)]


def chart_data(materials: Sequence[Material], names: Sequence[str]) -> dict[str, Any]:
    """Return what the charts show: a series is in the format of ``GET /runs/{id}/series``."""
    alone = materials[0] if len(materials) == 1 else None
    return {
        "range": window_of(materials),
        "names": list(names),
        "runs": [{name: [_layer(one) for one in run.curves.get(name, ())] for name in names}
                 for run in materials],
        "alerts": [] if alone is None else [_alert(one.stored.alert) for one in alone.alerts],
        "restarts": [] if alone is None else _restarts(alone),
    }  # fmt: skip


def window_of(materials: Sequence[Material]) -> tuple[float, float]:
    """Return the first and last step of all of them, with a small margin."""
    every = [layer for one in materials for layers in one.curves.values() for layer in layers if layer.x.size]
    first = min((float(layer.x[0]) for layer in every), default=0.0)
    last = max((float(layer.x1[-1]) for layer in every), default=1.0)
    room = (last - first) * 0.015 or 1.0
    return first - room, last + room


def _layer(layer: SeriesLayer) -> dict[str, Any]:
    return {name: getattr(layer, name) for name in (*COORDINATES, *(EXACT if layer.exact else BUCKETS))}


def _alert(alert: Alert) -> dict[str, Any]:
    steps = {name: getattr(alert, name) for name in ("onset_step", "fired_step", "resolved_step")}
    return {"id": alert.id, "severity": alert.severity.value, "state": alert.state.value, **steps}


def _restarts(material: Material) -> list[int]:
    """Return the first steps of the attempts after the first; if there are too many, the newest."""
    found = [one.first_step for one in material.run.attempts_list[1:] if one.first_step is not None]
    return found[-MOST_RESTARTS:]


def frame(name: str, materials: Sequence[Material]) -> str:
    """Return the header and the container of a chart; its numbers are repeated as text for accessibility."""
    several = len(materials) > 1
    drawn = [(one.run.name, one.curves[name]) for one in materials if one.curves.get(name)]
    reported = [f"{f'{foreign(run)}: ' if several else ''}{described(layers)}" for run, layers in drawn]
    title = TITLES.get(name, name)
    label = f"{title} by step. " + "; ".join(_plain(run, layers, several) for run, layers in drawn)
    return (
        f'<figure data-series="{esc(name)}"><figcaption><h3>{foreign(title)}</h3>'
        f'<b class="readout"></b><span class="soft">{"<br>".join(reported)}</span></figcaption>'
        f'<div class="plotbox"><div class="chart" role="img" aria-label="{esc(label)}"></div>'
        '<i class="hair" hidden></i></div></figure>'
    )


def described(layers: Sequence[SeriesLayer]) -> str:
    """Return ``n`` values, their range, and how many are non-finite, over all ranks and attempts."""
    bad = "".join(f' · <b class="critical">{text}</b>' for text in nonfinite_counts(layers))
    return f"{esc(_range(layers))}{bad}"


def nonfinite_counts(layers: Sequence[SeriesLayer]) -> list[str]:
    """Return ``3 NaN``, ``1 +Inf``: each kind that occurs."""
    sums = {kind: sum(float(getattr(layer, kind).sum()) for layer in layers) for kind, _ in COUNTED}
    return [f"{whole(sums[kind])} {word}" for kind, word in COUNTED if sums[kind]]


def _range(layers: Sequence[SeriesLayer]) -> str:
    count = sum(float(layer.n.sum()) for layer in layers)
    ends = [end for layer in layers for end in (layer.first if layer.exact else layer.min, layer.max)]
    values = np.concatenate([end[np.isfinite(end)] for end in ends if end is not None] or [np.empty(0)])
    if not values.size:
        return f"{whole(count)} values, none finite"
    return f"{whole(count)} values, {num(float(values.min()))} to {num(float(values.max()))}"


def _plain(run: str, layers: Sequence[SeriesLayer], several: bool) -> str:
    text = ", ".join([_range(layers), *nonfinite_counts(layers)])
    return f"{run}: {text}" if several else text
