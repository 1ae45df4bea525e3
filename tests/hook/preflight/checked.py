"""Small trainings for the config check, and its findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.hook.captured import KeptOutbox, watched

Finding = dict[str, Any]
Forward = Callable[[], Any]


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))


def mean_of(model: Callable[[Tensor], Any], dtype: torch.dtype = torch.float32) -> Forward:
    return lambda: model(torch.ones(4, 6, dtype=dtype)).mean()


def scaled(scaler: torch.amp.GradScaler, model: nn.Module) -> Forward:
    return lambda: scaler.scale(model(torch.ones(4, 6)).mean())


def train(model: nn.Module, forward: Forward, optimizer: torch.optim.Optimizer, steps: int = 1) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        forward().backward()
        optimizer.step()


def checked(
    model: nn.Module, forward: Forward | None = None, *, steps: int = 1, lr: float = 1e-3, **options: Any
) -> KeptOutbox:
    """Return the findings for a model that is trained with AdamW on all its parameters."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    with watched(model=model, **options) as (_, outbox):
        train(model, forward or (lambda: model(torch.ones(4, 6)).mean()), optimizer, steps)
    return outbox


def found(outbox: KeptOutbox, check: str, stage: str = "first-step") -> list[Finding]:
    (event,) = [event for event in outbox.events("preflight") if event["stage"] == stage]
    return [one for one in event["findings"] if one["check"] == check]


def unseen(outbox: KeptOutbox) -> str:
    return "\n".join(text for event in outbox.events("preflight") for text in event["not_checkable"])
