"""Join the steps of one update of DeepSpeed's ZeRO, which calls its optimizer once per parameter group."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from . import patching
from .gradients import kept_norm
from .optimizer_tracker import BEFORE, OptimizerTracker
from .reading import read

CLASSES = (
    ("deepspeed.runtime.zero.stage_1_and_2", "DeepSpeedZeroOptimizer"),
    ("deepspeed.runtime.zero.stage3", "DeepSpeedZeroOptimizer_Stage3"),
)


def install() -> None:
    """Watch ZeRO if the script has imported it. Called again when an optimizer is made."""
    for module, name in CLASSES:
        cls = getattr(sys.modules.get(module), name, None)
        if cls is not None and not hasattr(cls.step, "_tocsin"):
            patching.replace(cls, "step", _watch_step)


def _watch_step(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        opened: list[tuple[Any, OptimizerTracker]] = []
        is_done = False
        try:
            _open(self.optimizer, opened)
        except Exception as error:
            patching.report_error("before ZeRO's step", error)
        try:
            result = original(self, *args, **kwargs)
            is_done = True
            return result
        finally:
            for ledger, tracker in opened:
                try:
                    _close(ledger, tracker, self.optimizer, is_done)
                except Exception as error:
                    ledger.report_error("after ZeRO's step", error)

    step._tocsin = True  # type: ignore[attr-defined]
    return step


def _open(optimizer: Any, opened: list[tuple[Any, OptimizerTracker]]) -> None:
    """Read the rates of all groups; the steps until :func:`_close` are noted, not recorded."""
    for ledger in patching.attached:
        tracker = ledger.tracker(optimizer)
        if tracker is None or tracker.in_scaler:
            continue
        tracker.in_scaler, tracker.fired, tracker.depth = True, False, 0
        opened.append((ledger, tracker))
        if not tracker.number:
            ledger.first_step(tracker)
        tracker.read_rates(optimizer, read)


def _close(ledger: Any, tracker: OptimizerTracker, optimizer: Any, is_done: bool) -> None:
    """Record the update, with the norm that ZeRO keeps. It has not stepped if the gradients overflowed."""
    tracker.in_scaler, tracker.depth = False, 0
    if not is_done or not tracker.fired:
        return
    norm = kept_norm(tracker, optimizer)
    if norm is not None:
        tracker.norm, tracker.norm_from, tracker.norm_timing = norm, "clip", BEFORE
    ledger.record(tracker, 1.0, 0.0)
