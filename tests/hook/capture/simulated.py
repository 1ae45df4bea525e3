"""A device that is host memory: values take the way of CUDA scalars, and arrive late."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tocsin.api import scalars
from tocsin.capture import (
    device_scale,
    device_values,
    gradients,
    ledger,
    loss,
    manual_updates,
    optimizer,
    reading,
    scaler,
    staging,
)


class LateEvent:
    """A device event that happens when it is queried the second time."""

    def __init__(self) -> None:
        self.queries = 0

    def record(self) -> None:
        self.queries = 0

    def query(self) -> bool:
        self.queries += 1
        return self.queries > 1


def read(value: Any, source: str | None = "value") -> Any:
    """Do what ``reading.read`` does, as if every tensor were on a CUDA device."""
    if not isinstance(value, Tensor):
        return reading.read(value)
    return reading.hold(value, source) if value.numel() == 1 and not value.is_complex() else None


def simulate(monkeypatch: pytest.MonkeyPatch, *, trusted: int = device_values.TRUSTED) -> None:
    """Treat all tensors as if they were on a CUDA device, and forget what is known about their sources.

    Args:
        monkeypatch: Undoes it.
        trusted: Comparisons after which values are no longer copied.
    """
    for module in (device_scale, gradients, ledger, loss, manual_updates, optimizer, scaler):
        monkeypatch.setattr(module, "read", read)
    monkeypatch.setattr(scalars, "_plain", None)
    monkeypatch.setattr(scalars, "_tensor", (Tensor,))
    monkeypatch.setattr(scalars, "_read", read)
    monkeypatch.setattr(loss, "_before_one", lambda args, kwargs, me: None)
    monkeypatch.setattr(gradients, "HOST", None)
    monkeypatch.setattr(scaler, "is_on_device", lambda value: True)
    monkeypatch.setattr(reading, "is_on_device", lambda value: True)
    monkeypatch.setattr(reading, "_initialized", lambda: False)
    monkeypatch.setattr(reading, "_new_event", LateEvent)
    monkeypatch.setattr(staging, "GATHERED_S", 3600.0)
    monkeypatch.setattr(staging, "new_ring", lambda pinned: torch.empty(staging.SLOTS, staging.WIDTH))
    monkeypatch.setattr(staging, "new_vectors", lambda count, length: torch.empty(count, length))
    monkeypatch.setattr(reading, "_sources", {})
    monkeypatch.setattr(reading, "_Graphs", type("_Graphs", (), {"seen": False}))
    monkeypatch.setattr(device_values, "TRUSTED", trusted)
