"""What is known of the schedule behind a learning rate: what its class means to do."""

from __future__ import annotations

from tocsin_server.detect.interface.context import RunContext

CYCLIC = frozenset({"CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"})
"""Classes whose rate rises again by design."""
STEPPED = frozenset({"MultiStepLR", "StepLR", "ReduceLROnPlateau", "ConstantLR", "MultiplicativeLR"})
"""Classes whose rate falls in steps by design."""
ADAM = ("adam", "lamb", "lion")
"""Optimizer families, by a part of their class name, whose sound rates are small."""


def scheduler_of(context: RunContext, suffix: str) -> str:
    """Class of the scheduler of an optimizer as the script told it; empty where untold."""
    names = [
        str(item.get("scheduler", ""))
        for item in context.schedulers
        if suffix in (item.get("optimizer") or "", "")
    ]
    return next((name for name in names if name in CYCLIC), names[-1] if names else "")


def optimizer_of(context: RunContext, suffix: str) -> str:
    """Class of an optimizer as the script told it; empty where untold."""
    for item in context.optimizers:
        if not suffix or item.get("name") == suffix:
            return str(item.get("class", ""))
    return ""


def is_adam(name: str) -> bool:
    """Whether an optimizer of this class is of Adam's family."""
    return any(part in name.lower() for part in ADAM)
