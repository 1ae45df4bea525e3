"""Read how many steps a restored optimizer has made, so that a resumed run continues its count.

Fused and capturable optimizers count on their device. That count is read only when a state is loaded or a
watch begins, never during a step.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

INITIALIZERS = ("initialize_optimizer_states", "_init_optim_state", "init_optim_state")
"""Functions of DeepSpeed, torch's distributed checkpoints and torchtitan that call ``step`` with gradients of
zero, so that the optimizer allocates its state."""
FRAMES = 16
"""Callers that are examined. torch and schedulers wrap ``step`` several times."""


def steps_of(optimizer: Any) -> int:
    """Return the count in the optimizer's state; 0 if there is none or it is on a device."""
    return _first(optimizer.state.values(), from_device=False)


def restore(ledger: Any) -> None:
    """Read the counts of the existing optimizers at ``watch``, also those on a device."""
    for tracker in ledger.trackers.values():
        optimizer = tracker.ref()
        if optimizer is not None:
            tracker.restored = _first(optimizer.state.values(), from_device=True)


def loaded(ledger: Any, optimizer: Any, state_dict: Mapping[str, Any]) -> None:
    """Read the count of a state that was just loaded. Loading waits for the device anyway.

    Args:
        ledger: The run's ledger.
        optimizer: The optimizer whose state was loaded.
        state_dict: What was passed to ``load_state_dict``.
    """
    tracker = ledger.tracker(optimizer)
    if tracker is not None:
        tracker.restored = _first(state_dict["state"].values(), from_device=True)


def allocates_state() -> bool:
    """Return whether the step that runs now only allocates the state of its optimizer."""
    frame = sys._getframe(1)
    for _ in range(FRAMES):
        if frame.f_code.co_name in INITIALIZERS:
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def _first(states: Iterable[Any], *, from_device: bool) -> int:
    """Return the count of the first parameter that has one. All parameters have the same count."""
    for state in states:
        count = state.get("step") if isinstance(state, Mapping) else None
        if isinstance(count, Tensor):
            return int(count.item()) if count.is_cpu or (from_device and count.is_cuda) else 0
        if isinstance(count, (int, float)):
            return int(count)
    return 0
