"""How many steps a restored optimizer has made already: a run that was resumed continues its count.

Fused and capturable optimizers count on their device. That count is read where training does not run yet,
when a state is loaded or when the watch begins, never in a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor


def steps_of(optimizer: Any) -> int:
    """By its state; 0 where that says nothing, or says it on a device: nothing waits for that here."""
    return _first(optimizer.state.values(), from_device=False)


def restore(ledger: Any) -> None:
    """At the watch: what the optimizers that exist already say, also those that count on a device."""
    for stepper in ledger.steppers.values():
        optimizer = stepper.ref()
        if optimizer is not None:
            stepper.restored = _first(optimizer.state.values(), from_device=True)


def loaded(ledger: Any, optimizer: Any, state_dict: Mapping[str, Any]) -> None:
    """What a state says that was just loaded: loading copies to the device and waits for it anyway."""
    stepper = ledger.stepper(optimizer)
    if stepper is not None:
        stepper.restored = _first(state_dict["state"].values(), from_device=True)


def _first(states: Iterable[Any], *, from_device: bool) -> int:
    """The count of the first parameter that has one; all of an optimizer's step together."""
    for state in states:
        count = state.get("step") if isinstance(state, Mapping) else None
        if isinstance(count, Tensor):
            return int(count.item()) if count.is_cpu or (from_device and count.is_cuda) else 0
        if isinstance(count, (int, float)):
            return int(count)
    return 0
