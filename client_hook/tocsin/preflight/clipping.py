"""Check whether the clipping threshold takes effect never, sometimes or always. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .findings import Report

CHECKS = ("clip-threshold",)
CONSTANT = 8
"""Number of equal norms that indicate clipping that the hook does not see."""
SAME = 1e-3
STEPS = 50
"""Number of norms that are compared. The first norms of a run are larger than later ones, so findings are
only information."""


class ClipWatch:
    """Collect the norms of STEPS records, then report what the threshold did."""

    def __init__(self, threshold: Callable[[], float | None], done: Callable[[Report], None]) -> None:
        self._threshold = threshold
        self._done = done
        self._norms: list[float] = []
        self._clips: set[float | None] = set()

    def __call__(self, item: tuple[Any, ...]) -> None:
        names = item[2]
        if len(self._norms) >= STEPS or "grad_norm" not in names:
            return
        self._norms.append(item[3 + names.index("grad_norm")])
        self._clips.add(self._threshold())
        if len(self._norms) == STEPS:
            report = Report("clip")
            check_clip(self._norms, self._clips, report)
            self._done(report)


class NormWatch:
    """Compare the norms that the hook computed, and report if they are all equal."""

    def __init__(self, is_own: Callable[[], bool], done: Callable[[Report | None], None]) -> None:
        self._is_own = is_own
        self._done = done
        self._norms: list[float] = []

    def __call__(self, item: tuple[Any, ...]) -> None:
        names = item[2]
        if len(self._norms) >= CONSTANT or "grad_norm" not in names:
            return
        self._norms.append(item[3 + names.index("grad_norm")])
        if len(self._norms) == CONSTANT:
            self._done(check_constant(self._norms) if self._is_own() else None)


def check_constant(norms: list[float]) -> Report | None:
    """Return a report if all norms are the same number above 0, because they were measured after clipping."""
    low, high = min(norms), max(norms)
    if not (0.0 < low <= high < math.inf) or high - low > SAME * high:
        return None
    report = Report("norm", checks=["constant-norm"])
    report.add(
        "constant-norm", "warning", "gradient norm", expected="one that varies from step to step",
        got=f"{high:.4g} at each of {len(norms)} steps: the gradients are clipped before they are measured",
    )  # fmt: skip
    return report


def _is_threshold(norm: float, clip: float | None) -> bool:
    """Return whether a constant norm is the clipping threshold, or may be that of an earlier clip."""
    return clip is None or math.isinf(clip) or abs(norm - clip) <= SAME * clip


def check_clip(norms: list[float], clips: set[float | None], report: Report) -> None:
    """Check the threshold.

    Args:
        norms: Before clipping.
        clips: All thresholds that were used.
        report: Receives the findings.
    """
    finite = [norm for norm in norms if math.isfinite(norm)]
    clip = next(iter(clips), None)
    constant = check_constant(norms)
    if constant is not None and _is_threshold(norms[0], clip):
        report.checks += constant.checks
        report.findings += constant.findings
        return
    if len(clips) != 1 or clip is None or len(finite) < STEPS // 2:
        report.unseen("clip threshold: it changes, is a tensor, or too few norms are finite")
        return
    report.checks += CHECKS
    if all(norm > clip for norm in finite):
        got = f"clips at all {len(finite)} steps; their norms are {min(finite):.3g} to {max(finite):.3g}"
        report.add("clip-threshold", "info", f"max_norm {clip:g}", expected="clips occasionally", got=got)
    elif all(norm <= clip for norm in finite):
        got = f"never clips in {len(finite)} steps; the largest norm is {max(finite):.3g}"
        report.add("clip-threshold", "info", f"max_norm {clip:g}", expected="clips occasionally", got=got)
