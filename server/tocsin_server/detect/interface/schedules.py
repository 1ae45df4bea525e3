"""What the class of a learning rate scheduler implies about the learning rate."""

from __future__ import annotations

from tocsin_server.detect.interface.context import RunContext

CYCLIC = frozenset({"CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"})
"""Classes whose learning rate rises again by design."""
STEPPED = frozenset({"MultiStepLR", "StepLR", "ReduceLROnPlateau", "ConstantLR", "MultiplicativeLR"})
"""Classes whose learning rate falls in steps by design."""
ADAM = ("adam", "lamb", "lion")
"""Parts of the class names of optimizers that need small learning rates."""


def scheduler_of(context: RunContext, suffix: str) -> str:
    """Return the class of an optimizer's scheduler as reported by the script, or empty if unknown."""
    names = [
        str(item.get("scheduler", ""))
        for item in context.schedulers
        if suffix in (item.get("optimizer") or "", "")
    ]
    return next((name for name in names if name in CYCLIC), names[-1] if names else "")


def optimizer_of(context: RunContext, suffix: str) -> str:
    """Return the class of an optimizer as reported by the script, or empty if unknown."""
    for item in context.optimizers:
        if not suffix or item.get("name") == suffix:
            return str(item.get("class", ""))
    return ""


def is_adam(name: str) -> bool:
    """Return whether an optimizer of this class belongs to the Adam family."""
    return any(part in name.lower() for part in ADAM)
