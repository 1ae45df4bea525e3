"""Read the values of each step where torch computes them; one module for each signal.

Each signal module has ``install()``, which patches torch's classes for all attached ledgers. The patches are
removed with the last ledger. Other packages need only ``attach`` and ``detach``.

This package imports torch, so it is imported only when a run needs it.
"""

from __future__ import annotations

from . import checkpoints, data_loading, gradients, loss, optimizer, scaler
from .ledger import Ledger
from .patching import detach, join

SIGNALS = {
    "optimizer": optimizer.install,
    "loss": loss.install,
    "scaler": scaler.install,
    "clip": gradients.install,
    "data": data_loading.install,
    "checkpoints": checkpoints.install,
}


def attach(ledger: Ledger) -> dict[str, str]:
    """Start capture for ``ledger``.

    Returns:
        Signal -> ``"ok"``, or why it is missing.
    """
    return join(ledger, SIGNALS)


__all__ = ["Ledger", "attach", "detach"]
