"""Draw a run as a fragment of HTML: one small chart per series, then its alerts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import log10
from typing import NamedTuple

from .curve import Bucket, Curve

WIDTH, HEIGHT, MARGIN = 260, 90, 6
COLORS = {"critical": "#d9403a", "warning": "#c27800", "info": "#7b8790"}
LINE, NONFINITE = "#3584e4", "#d9403a"
NAMES = {"nan": "NaN", "inf": "Inf", "-inf": "-Inf"}
DECADES = 2.0
"""A positive series over more than this many powers of ten is drawn on a logarithmic axis."""


class Shown(NamedTuple):
    """An alert of the run."""

    severity: str
    title: str
    state: str
    step: int | None


def card(
    *,
    name: str,
    project: str,
    url: str,
    state: str,
    step: int | None,
    curves: Mapping[str, Curve],
    alerts: Sequence[Shown],
) -> str:
    """Return the fragment.

    Args:
        name: Name of the run.
        project: Its project.
        url: The run's page.
        state: ``running``, ``finished`` or ``failed``.
        step: The newest step; None before the first.
        curves: The series to draw, by name.
        alerts: The alerts, newest last.
    """
    is_link = url.startswith(("http://", "https://"))
    title = (
        f'<a href="{escape(url)}" target="_blank" style="color: inherit">{escape(name)}</a>'
        if is_link
        else escape(name)
    )
    facts = " · ".join((escape(project), state, "no step yet" if step is None else f"step {step:,}"))
    charts = "".join(_chart(each, curve) for each, curve in curves.items())
    return (
        '<div style="font: 13px/1.45 system-ui, sans-serif; border: 1px solid #8886; border-radius: 8px; '
        'padding: 8px 12px; max-width: 1120px">'
        f"<div><strong>{title}</strong> · {facts}</div>"
        f'<div style="display: flex; flex-wrap: wrap; gap: 12px; margin-top: 6px">{charts}</div>'
        f"{_alerts(alerts)}</div>"
    )


def _alerts(alerts: Sequence[Shown]) -> str:
    lines = []
    for severity, title, state, step in alerts:
        color = COLORS.get(severity, COLORS["info"])
        is_said = step is None or f"step {step}" in title or f"step {step:,}" in title
        where = "" if is_said else f" since step {step:,}"
        lines.append(
            f'<li><strong style="color: {color}">{escape(severity)}</strong> {escape(title)}'
            f"{where} ({escape(state)})</li>"
        )
    return f'<ul style="margin: 6px 0 0; padding-left: 18px">{"".join(lines)}</ul>' if lines else ""


def _chart(name: str, curve: Curve) -> str:
    buckets = list(curve.buckets)  # the training thread adds records meanwhile
    nonfinite = sum(bucket.nonfinite for bucket in buckets)
    value = f"{curve.value:.4g}"
    label = f"{name}: {NAMES.get(value, value)}" + (f", {nonfinite:,} NaN or Inf" if nonfinite else "")
    return (
        f'<figure style="margin: 0"><figcaption>{escape(label)}</figcaption>'
        f'<svg role="img" aria-label="{escape(label)}" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}">{_marks(buckets)}{_line(buckets)}</svg></figure>'
    )


def _line(buckets: Sequence[Bucket]) -> str:
    """Return the range of each bucket as an area, and its last values as lines that break where none is."""
    known = [bucket for bucket in buckets if not bucket.is_empty]
    if not known:
        return ""
    low, high = min(bucket.low for bucket in known), max(bucket.high for bucket in known)
    is_log = low > 0 and log10(high / low) > DECADES

    def scaled(value: float) -> float:
        return log10(value) if is_log else value

    bottom, span = scaled(low), (scaled(high) - scaled(low)) or 1.0

    def point(at: int, value: float) -> str:
        height = (scaled(value) - bottom) / span * (HEIGHT - 2 * MARGIN)
        return f"{_x(buckets, at)},{HEIGHT - MARGIN - height:.1f}"

    parts = []
    for stretch in _stretches(buckets):
        area = [point(at, buckets[at].high) for at in stretch]
        area += [point(at, buckets[at].low) for at in reversed(stretch)]
        line = [point(at, buckets[at].last) for at in stretch]
        parts.append(f'<polygon points="{" ".join(area)}" fill="{LINE}" fill-opacity="0.25"/>')
        parts.append(
            f'<polyline points="{" ".join(line)}" fill="none" stroke="{LINE}" stroke-width="1.5" '
            'stroke-linecap="round"/>'
        )
    return "".join(parts)


def _stretches(buckets: Sequence[Bucket]) -> list[list[int]]:
    """Return the positions of neighbouring buckets that have finite values; a single one twice."""
    found: list[list[int]] = []
    for at, bucket in enumerate(buckets):
        if bucket.is_empty:
            continue
        if found and found[-1][-1] == at - 1:
            found[-1].append(at)
        else:
            found.append([at])
    return [stretch * 2 if len(stretch) == 1 else stretch for stretch in found]


def _marks(buckets: Sequence[Bucket]) -> str:
    """Return a red line over the whole height for each bucket with NaN or infinities."""
    found = (_x(buckets, at) for at, bucket in enumerate(buckets) if bucket.nonfinite)
    return "".join(f'<line x1="{x}" x2="{x}" y1="0" y2="{HEIGHT}" stroke="{NONFINITE}"/>' for x in found)


def _x(buckets: Sequence[Bucket], at: int) -> str:
    return f"{MARGIN + at / max(1, len(buckets) - 1) * (WIDTH - 2 * MARGIN):.1f}"
