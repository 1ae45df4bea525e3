"""Build one chart as a Plotly figure: range, line, marks, alerts from their onset. Pure.

Colors are those of the light theme. The meaning of each is stored with it (``meta`` of a trace, ``name`` of a
shape), so that the page can draw the same figure in the viewer's theme.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tocsin_server.report import curve as curves
from tocsin_server.report.curve import Curve
from tocsin_server.report.outline import Axis, axis_of, envelope, line, lone, marks
from tocsin_server.report.words import esc, num

if TYPE_CHECKING:  # importing plotly takes half a second and 50 MB, which only a report should cost
    import plotly.graph_objects as go

SLOTS = 600
"""Grid size of the range over all other ranks."""
INKS = {
    "--run-1": "#2258b7", "--run-2": "#af8845", "--run-3": "#08887e", "--run-4": "#7a57f6",
    "--run-5": "#e254b6", "--run-6": "#72711b", "--run-7": "#3e96e1", "--run-8": "#3c152c",
    "--run-9": "#4f5963", "--run-10": "#1e2175", "--critical": "#b3121f", "--warning": "#855400",
    "--info": "#1d5a9c", "--ink-3": "#5c6963", "--grid": "#e7eae5", "--line-strong": "#848e88",
}  # fmt: skip
"""The design tokens of the pages (web/styles/tokens.css) in the light theme."""
MOST_EDGES = 12
"""Maximum number of alerts whose onset is drawn as a line, open and severe ones first."""
DASHES = ("solid", "6px,3px", "2px,2px", "10px,3px,2px,3px", "14px,5px", "10px,3px,2px,3px,2px,3px")
COLOURS = 10


@dataclass(frozen=True, slots=True)
class Mark:
    """How a kind of non-finite value is drawn: relative height of its row, symbol, name."""

    row: float
    symbol: str
    ink: str
    word: str


MARKS = {
    "nan": Mark(0.94, "circle-x-open", "--critical", "NaN"),
    "pinf": Mark(0.85, "triangle-up-open", "--critical", "+Inf"),
    "ninf": Mark(0.85, "triangle-down-open", "--critical", "\u2212Inf"),
    "zero": Mark(0.1, "circle-open", "--warning", "zero"),
    "negative": Mark(0.1, "diamond-open", "--warning", "negative"),
}


LARGEST = {2: 1023, 10: 308}
"""Base -> largest exponent that is a float. The axis of a series near that limit extends beyond it."""


@dataclass(frozen=True, slots=True)
class Overlaid:
    """One run in one chart."""

    label: str
    slot: int
    curves: tuple[Curve, ...]

    @property
    def ink(self) -> str:
        return f"--run-{self.slot % COLOURS + 1}"

    @property
    def dash(self) -> str:
        return DASHES[self.slot // COLOURS % len(DASHES)]


@dataclass(frozen=True, slots=True)
class Band:
    """An alert on the axis: from onset to end; severity critical, warning or info."""

    start: float
    stop: float
    severity: str


def joined(bands: Sequence[Band]) -> list[Band]:
    """Merge overlapping alerts of a severity, because many layers would darken the chart."""
    out: list[Band] = []
    for band in sorted(bands, key=lambda one: (one.severity, one.start)):
        if out and out[-1].severity == band.severity and band.start <= out[-1].stop:
            out[-1] = Band(out[-1].start, max(out[-1].stop, band.stop), band.severity)
        else:
            out.append(band)
    return out


def drawn_of(runs: Sequence[Overlaid]) -> list[Curve]:
    """Return all curves of a chart, including those of all ranks."""
    return [curve for run in runs for curve in run.curves]


def figure(
    kind: str,
    held: bool,
    runs: Sequence[Overlaid],
    bands: Sequence[Band],
    restarts: Sequence[float],
    window: tuple[float, float],
) -> go.Figure:
    """Return the chart of one series of one or more runs. ``kind``: auto, log, log2 or linear."""
    import plotly.graph_objects as go

    axis = axis_of(kind, drawn_of(runs))
    traces = [trace for run in runs for trace in _run_traces(run, axis, held, window)]
    traces += [trace for run in runs for trace in _rail(run, axis.log, several=len(runs) > 1)]
    shapes = [*map(_tint, joined(bands)), *map(_onset, bands[:MOST_EDGES]), *map(_restart, restarts)]
    made: go.Figure = go.Figure([go.Scatter(trace) for trace in traces], _layout(axis, window, shapes))
    return made


def _layout(axis: Axis, window: tuple[float, float], shapes: list[dict[str, Any]]) -> dict[str, Any]:
    grid = {"gridcolor": INKS["--grid"], "zeroline": False, "automargin": False}
    y: dict[str, Any] = {
        "range": list(axis.range),
        "type": "log" if axis.log else "linear",
        "fixedrange": True,
    }
    if axis.log:
        y |= _log_ticks(axis)
    return {
        "template": "none",
        "font": {"size": 11, "color": INKS["--ink-3"]},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 56, "r": 16, "t": 6, "b": 26},
        "height": 210,
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": "zoom",
        "separators": ".\u202f",
        "xaxis": grid | {"range": list(window), "nticks": 8, "tickformat": ",d"},
        "yaxis": grid | y,
        "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
        "shapes": shapes,
    }


def _log_ticks(axis: Axis) -> dict[str, Any]:
    """Return powers of ten or two, at most about seven; below one decade, Plotly's own ticks."""
    per = math.log10(axis.base)
    first, last = math.ceil(axis.range[0] / per), math.floor(axis.range[1] / per)
    if last - first < 1:
        return {"nticks": 5}
    every = max(1, -(-(last - first) // 6))
    most = LARGEST[axis.base]
    exponents = [n for n in range(first, last + 1) if n % every == 0 and n <= most]
    if axis.base == 10 and first > -4 and last < 5:
        return {"tickvals": [10.0**n for n in exponents], "ticktext": [num(10.0**n) for n in exponents]}
    values = [float(axis.base) ** n for n in exponents]
    return {"tickvals": values, "ticktext": [f"{axis.base}<sup>{n}</sup>" for n in exponents]}


def _run_traces(run: Overlaid, axis: Axis, held: bool, window: tuple[float, float]) -> list[dict[str, Any]]:
    """Return range and line of each part of the curve, behind them the range over the other ranks."""
    out = []
    beside = curves.band(curves.others(run.curves), SLOTS)
    if beside is not None:
        out.append(_shade(beside, run.ink, axis, 0.14))
    for stretch in curves.stretches(run.curves):
        out.append(_shade(stretch.curve, run.ink, axis, 0.1 if stretch.faint else 0.24))
        out += _lines(stretch, run, axis, held)
    return [trace for trace in out if trace]


def _shade(curve: Curve, ink: str, axis: Axis, share: float) -> dict[str, Any]:
    """Return the range as an area with an outline, so that a range one pixel wide is visible too."""
    outline = envelope(curve, axis.floor)
    if not outline.x.size:
        return {}
    edge = {"width": 1, "color": rgba(INKS[ink], share + 0.2)}
    return {
        "mode": "lines",
        "x": outline.x,
        "y": outline.y,
        "fill": "toself",
        "fillcolor": rgba(INKS[ink], share),
        "line": edge,
        "hoverinfo": "skip",
        "meta": {"fill": ink, "share": share},
    }


def _lines(stretch: curves.Stretch, run: Overlaid, axis: Axis, held: bool) -> list[dict[str, Any]]:
    curve, ink = stretch.curve, run.ink
    y = line(curve, axis.log)
    style = {"width": 1 if stretch.faint else 1.6, "color": INKS[ink], "dash": run.dash}
    common = _hover(curve, run.label) | {"opacity": 0.4 if stretch.faint else 1, "meta": {"line": ink}}
    drawn = common | {"mode": "lines", "x": curve.x, "y": y, "connectgaps": False}
    traces = [drawn | {"line": style | {"shape": "hv" if held else "linear"}}]
    alone = lone(y)
    if np.any(alone):
        dot = {"mode": "markers", "marker": {"size": 5, "color": INKS[ink]}, "meta": {"marker": ink}}
        traces.append(common | dot | {"x": curve.x[alone], "y": y[alone], "customdata": None})
    return traces


def _hover(curve: Curve, label: str) -> dict[str, Any]:
    """Return the hover text: exact values, and for a bucket its range too."""
    head = f"{esc(label)}<br>" if label else ""
    if curve.exact:
        return {"hovertemplate": f"{head}step %{{x}}: %{{y}}<extra></extra>", "customdata": None}
    text = "steps %{customdata[0]} to %{customdata[1]}<br>mean %{y}<br>%{customdata[2]} to %{customdata[3]}"
    environment = np.column_stack((curve.x0, curve.x1, curve.low, curve.high))
    return {"hovertemplate": f"{head}{text}<extra></extra>", "customdata": environment}


def _rail(run: Overlaid, log: bool, *, several: bool) -> list[dict[str, Any]]:
    """Return all non-finite values of all ranks as marks: symbol and row show their kind."""
    found: dict[str, list[tuple[Any, Any]]] = {}
    for curve in run.curves:
        for kind, places in marks(curve, log).items():
            found.setdefault(kind, []).append(places)
    label = f"{esc(run.label)}: " if several and run.label else ""
    return [_marks(kind, np.concatenate([x for x, _ in parts]), np.concatenate([n for _, n in parts]), label)
            for kind, parts in found.items()]  # fmt: skip


def _marks(kind: str, x: Any, n: Any, label: str) -> dict[str, Any]:
    mark = MARKS[kind]
    ink = INKS[mark.ink]
    return {
        "mode": "markers",
        "x": x,
        "y": np.full(len(x), mark.row),
        "yaxis": "y2",
        "name": kind,
        "customdata": n,
        "marker": {"symbol": mark.symbol, "size": 9, "color": ink, "line": {"width": 1.5, "color": ink}},
        "hovertemplate": f"{label}{mark.word} × %{{customdata}}, step %{{x}}<extra></extra>",
        "cliponaxis": False,
        "meta": {"marker": mark.ink},
    }


def _tint(band: Band) -> dict[str, Any]:
    ink = rgba(INKS[f"--{band.severity}"], 0.08)
    area = {"type": "rect", "xref": "x", "yref": "paper", "x0": band.start, "x1": band.stop, "y0": 0, "y1": 1}
    return area | {"layer": "below", "line": {"width": 0}, "fillcolor": ink, "name": f"--{band.severity}"}


def _onset(band: Band) -> dict[str, Any]:
    dash = "solid" if band.severity == "critical" else "6px,3px"
    return _upright(band.start, f"--{band.severity}", dash, 1.5)


def _restart(step: float) -> dict[str, Any]:
    return _upright(step, "--line-strong", "1px,3px", 1)


def _upright(step: float, ink: str, dash: str, width: float) -> dict[str, Any]:
    place = {"type": "line", "xref": "x", "yref": "paper", "x0": step, "x1": step, "y0": 0, "y1": 1}
    return place | {"line": {"width": width, "color": INKS[ink], "dash": dash}, "name": ink}


def rgba(colour: str, share: float) -> str:
    """Return ``#2258b7`` with an opacity."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share:g})"
