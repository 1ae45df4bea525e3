"""A run that begins within the first step of an optimizer records this step; torch's other hooks run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tests.hook.captured import watched
from tocsin.lifecycle import first_training


@pytest.fixture
def outbox() -> Iterator[Any]:
    """What a run records that the first step begins; another hook of torch follows the one that begins it."""
    found: list[Any] = []
    with ExitStack() as stack:
        first_training.wait_for(lambda: found.append(stack.enter_context(watched())[1]), step=True)
        other = register_optimizer_step_pre_hook(lambda *_: None)
        yield lambda: found[0]
        other.remove()


@pytest.mark.parametrize("is_closure", [True, False])
def test_the_step_that_begins_the_run_is_recorded(outbox: Any, is_closure: bool) -> None:
    """As in Lightning, where the closure calls the first backward."""
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)

    def closure() -> torch.Tensor:
        loss: torch.Tensor = net(torch.ones(2)).sum()
        loss.backward()
        return loss

    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)
    for _ in range(2):
        optimizer.step(closure if is_closure else None)
    assert outbox().series("lr") == [(0, 0.5), (1, 0.5)]
    assert [step for step, _ in outbox().series("loss")] == ([0, 1] if is_closure else [])
