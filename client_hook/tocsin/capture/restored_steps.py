"""Read how many steps a restored optimizer has made, so that a resumed run continues its count.

Fused and capturable optimizers count on their device. That count is read only when a state is loaded or a
watch begins, never during a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor


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


def _first(states: Iterable[Any], *, from_device: bool) -> int:
    """Return the count of the first parameter that has one. All parameters have the same count."""
    for state in states:
        count = state.get("step") if isinstance(state, Mapping) else None
        if isinstance(count, Tensor):
            return int(count.item()) if count.is_cpu or (from_device and count.is_cuda) else 0
        if isinstance(count, (int, float)):
            return int(count)
    return 0
