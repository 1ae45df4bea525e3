"""Build the charts of a report: which series, how each is drawn, and the text next to it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tocsin_server.report.curve import Curve
from tocsin_server.report.figure import Band, Overlaid, figure
from tocsin_server.report.material import HELD, VITAL_SIGNS, Material
from tocsin_server.report.words import MINUS, esc, foreign, num, whole

TITLES = {"loss": "Loss", "grad_norm": "Grad norm", "scale": "Loss scale", "lr": "Learning rate"}
AXES = {"grad_norm": "log", "scale": "log2", "lr": "linear"}
MOST_BANDS = 60
COUNTED = (("nan", "NaN"), ("pinf", "+Inf"), ("ninf", f"{MINUS}Inf"))


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart: its figure as JSON, and the HTML around it."""

    name: str
    json: str
    html: str


def panels(materials: Sequence[Material]) -> list[Panel]:
    """Return a chart for each series of the runs, vital signs first; all share one step axis."""
    names = list(dict.fromkeys([*VITAL_SIGNS, *(name for one in materials for name in one.curves)]))
    there = [name for name in names if any(one.curves.get(name) for one in materials)]
    window = window_of(materials)
    return [_panel(place, name, materials, window) for place, name in enumerate(there)]


def window_of(materials: Sequence[Material]) -> tuple[float, float]:
    """Return the first and last step of all of them, with a small margin."""
    every = [
        curve for one in materials for curves in one.curves.values() for curve in curves if curve.x0.size
    ]
    first = min((float(curve.x0[0]) for curve in every), default=0.0)
    last = max((float(curve.x1[-1]) for curve in every), default=1.0)
    room = (last - first) * 0.015 or 1.0
    return first - room, last + room


def _panel(place: int, name: str, materials: Sequence[Material], window: tuple[float, float]) -> Panel:
    several = len(materials) > 1
    runs = [
        Overlaid(one.run.name if several else "", slot, one.curves.get(name, ()))
        for slot, one in enumerate(materials)
    ]
    bands = [] if several else bands_of(materials[0], window)
    restarts = [] if several else _restarts(materials[0])
    made = figure(AXES.get(name, "auto"), name in HELD, runs, bands, restarts, window)
    return Panel(name, made.to_json(), _frame(place, name, runs, several))


def bands_of(material: Material, window: tuple[float, float]) -> list[Band]:
    """Return the alerts on the axis from onset to end; if there are too many, the most severe."""
    alerts = [
        reported.stored.alert for reported in material.alerts if reported.stored.alert.onset_step is not None
    ]
    return [
        Band(
            float(alert.onset_step or 0),
            window[1] if alert.is_open or alert.resolved_step is None else float(alert.resolved_step),
            alert.severity.value,
        )
        for alert in alerts[:MOST_BANDS]
    ]


def _restarts(material: Material) -> list[float]:
    """Return the first steps of the attempts after the first; if there are too many, the newest."""
    found = [float(one.first_step) for one in material.run.attempts_list[1:] if one.first_step is not None]
    return found[-MOST_BANDS:]


def _frame(place: int, name: str, runs: Sequence[Overlaid], several: bool) -> str:
    """Return the header and the container of a chart; its numbers are repeated as text for accessibility."""
    reported = [
        f"{f'{foreign(run.label)}: ' if several else ''}{said(run.curves)}" for run in runs if run.curves
    ]
    title = TITLES.get(name, name)
    label = f"{title} by step. " + "; ".join(_plain(run, several) for run in runs if run.curves)
    return (
        f'<figure data-series="{esc(name)}"><figcaption><h3>{foreign(title)}</h3>'
        f'<span class="soft">{"<br>".join(reported)}</span></figcaption>'
        f'<div class="chart" data-figure="{place}" role="img" aria-label="{esc(label)}"></div></figure>'
    )


def said(curves: Sequence[Curve]) -> str:
    """Return ``n`` values, their range, and how many are non-finite, over all ranks and attempts."""
    bad = "".join(f' · <b class="critical">{text}</b>' for text in nonfinite_counts(curves))
    return f"{esc(_range(curves))}{bad}"


def nonfinite_counts(curves: Sequence[Curve]) -> list[str]:
    """Return ``3 NaN``, ``1 +Inf``: each kind that occurs."""
    sums = {kind: sum(float(getattr(curve, kind).sum()) for curve in curves) for kind, _ in COUNTED}
    return [f"{whole(sums[kind])} {word}" for kind, word in COUNTED if sums[kind]]


def _range(curves: Sequence[Curve]) -> str:
    count = sum(float(curve.n.sum()) for curve in curves)
    values = [curve for curve in curves if np.isfinite(curve.low).any()]
    if not values:
        return f"{whole(count)} values, none finite"
    low, high = (
        min(float(np.nanmin(one.low)) for one in values),
        max(float(np.nanmax(one.high)) for one in values),
    )
    return f"{whole(count)} values, {num(low)} to {num(high)}"


def _plain(run: Overlaid, several: bool) -> str:
    text = ", ".join([_range(run.curves), *nonfinite_counts(run.curves)])
    return f"{run.label}: {text}" if several else text
