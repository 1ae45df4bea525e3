"""Where torch makes the numbers of a step, one file a signal.

Every file has ``install()``: class-level patches that serve all attached ledgers and are taken
back when the last one leaves. ``attach`` and ``detach`` are all the rest needs.

torch is imported here, so nothing of this package is imported before a run wants it.
"""

from __future__ import annotations

from . import data_loading, gradients, loss, optimizer, scaler
from .ledger import Ledger
from .patching import detach, join

SIGNALS = {
    "optimizer": optimizer.install,
    "loss": loss.install,
    "scaler": scaler.install,
    "clip": gradients.install,
    "data": data_loading.install,
}


def attach(ledger: Ledger) -> dict[str, str]:
    """Starts capture for ``ledger``; says of each signal ``"ok"`` or why it is missing."""
    return join(ledger, SIGNALS)


__all__ = ["Ledger", "attach", "detach"]
