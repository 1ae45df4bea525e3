"""Check the settings of loss scalers. The scale itself may be on a device and is not read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .autograd_graph import GraphSummary
from .findings import Report

CHECKS = ("scaler-settings", "scaler-missing", "scaler-needless")
HIGHEST_INIT = 2.0**24
"""Above this, the first steps are all skipped, because gradients of any size overflow."""
MOST_SKIPPED = 0.05
"""Maximum share of steps that may be skipped while the scale adapts."""


def check_scalers(scalers: Mapping[str, Any], report: Report) -> None:
    """Find settings with which the scale cannot adapt."""
    report.checks.append("scaler-settings")
    for name, scaler in scalers.items():
        for setting, expected, got in faults(**_settings(scaler)):
            report.add("scaler-settings", "warning", f"{name}.{setting}", expected=expected, got=got)


def _settings(scaler: Any) -> dict[str, float]:
    names = ("init_scale", "growth_factor", "backoff_factor", "growth_interval")
    return {name: float(getattr(scaler, f"_{name}")) for name in names}


def faults(
    *, init_scale: float, growth_factor: float, backoff_factor: float, growth_interval: float
) -> list[tuple[str, str, str]]:
    """Return (setting, expected, got) of each setting that cannot work.

    Args:
        init_scale: The first scale.
        growth_factor: Factor of one growth.
        backoff_factor: Factor of one backoff, below 1.
        growth_interval: Clean updates before a growth.
    """
    found = []
    if not (math.isfinite(init_scale) and 0 < init_scale <= HIGHEST_INIT):
        found.append(("init_scale", f"above 0, at most 2**24 = {HIGHEST_INIT:.0f}", f"{init_scale:g}"))
    if not growth_factor > 1:
        found.append(("growth_factor", "above 1; else the scale never recovers", f"{growth_factor:g}"))
    if not 0 < backoff_factor < 1:
        found.append(("backoff_factor", "between 0 and 1", f"{backoff_factor:g}"))
    if growth_interval < 1:
        found.append(("growth_interval", "at least 1; else the scale never grows", f"{growth_interval:g}"))
    hunts = not found or [setting for setting, _, _ in found] == ["init_scale"]
    if hunts and (share := skipped_share(growth_factor, backoff_factor, growth_interval)) > MOST_SKIPPED:
        got = f"{growth_interval:g}, which skips about {share:.0%} of the steps"
        found.append(("growth_interval", "long enough to skip less than 5 % of the steps", got))
    if not found and (steps := steps_down(init_scale, backoff_factor)) > 100:
        found.append(
            ("backoff_factor", "small enough to find the scale soon", f"{backoff_factor:g}: {steps} skips")
        )
    return found


def skipped_share(growth: float, backoff: float, interval: float) -> float:
    """Return the share of skipped steps at the maximum scale: one per growth cycle of ln(1/b)/ln(g)
    intervals.
    """
    return 1.0 / (1.0 + interval * math.log(1.0 / backoff) / math.log(growth))


def steps_down(init_scale: float, backoff: float) -> int:
    """Return the consecutive skips until the scale falls from ``init_scale`` to 2**7, the minimum of real
    runs.
    """
    return math.ceil(max(0.0, math.log(init_scale / 2.0**7)) / math.log(1.0 / backoff))


def check_need(summary: GraphSummary | None, scaled: bool, half_parameters: bool, report: Report) -> None:
    """Find float16 without a scaler, which loses small gradients, and a scaler without float16.

    Args:
        summary: Content of the loss's graph, or None.
        scaled: Whether a GradScaler scaled the loss.
        half_parameters: Whether a trained parameter is float16.
        report: Receives the findings.
    """
    if summary is None or not summary.dtypes_known:
        return
    half = summary.has("float16") or half_parameters
    if half and not scaled:
        report.checks.append("scaler-missing")
        report.add(
            "scaler-missing", "warning", "loss", expected="a scaled loss where operations run in float16",
            got="an unscaled one: gradients below 6e-8 become 0",
        )  # fmt: skip
    elif not half and scaled and summary.whole:
        report.checks.append("scaler-needless")
        report.add(
            "scaler-needless", "info", "GradScaler", expected="float16 somewhere in the graph",
            got="none: the scaler only costs time",
        )  # fmt: skip
