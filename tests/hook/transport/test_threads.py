"""Two trainings on two threads of one process."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.hook.captured import watched
from tocsin.capture.optimizer_tracker import OptimizerTracker

ENTERED, GO_ON = threading.Event(), threading.Event()


class Held(torch.autograd.Function):
    """Its backward lasts until the other thread has made a step."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        ENTERED.set()
        assert GO_ON.wait(30)
        return grad


def _step(net: torch.nn.Linear, optimizer: torch.optim.Optimizer, value: float, *, held: bool) -> None:
    optimizer.zero_grad()
    loss = net(torch.zeros(2)).sum() * 0 + value
    if held:
        loss = Held.apply(loss)  # type: ignore[no-untyped-call]
    loss.backward()
    optimizer.step()


def test_losses_of_two_threads_do_not_mix() -> None:
    """A backward within which another thread trains gets its own loss only, and so does the other."""
    nets = [torch.nn.Linear(2, 1) for _ in range(2)]
    one, other = (torch.optim.SGD(net.parameters(), lr=0.1) for net in nets)
    with watched(optimizers={"one": one, "other": other}, primary=one) as (_, outbox):
        for held in (False, True):
            ENTERED.clear()
            GO_ON.clear()
            first = threading.Thread(target=_step, args=(nets[0], one, 1.0), kwargs={"held": held})
            first.start()
            if held:
                assert ENTERED.wait(30)
            else:
                first.join()
            second = threading.Thread(target=_step, args=(nets[1], other, 2.0), kwargs={"held": False})
            second.start()
            second.join()
            GO_ON.set()
            first.join()
    assert [value for _, value in outbox.series("loss")] == [1.0, 1.0]
    assert [value for _, value in outbox.series("loss/other")] == [2.0, 2.0]


def test_gradients_of_another_threads_optimizer_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backward replaces them without the GIL, and a read at that moment crashes the process."""
    nets = [torch.nn.Linear(2, 1) for _ in range(2)]
    one, other = (torch.optim.SGD(net.parameters(), lr=0.1) for net in nets)
    read: list[object] = []
    marks = OptimizerTracker.marks

    def noted(tracker: OptimizerTracker) -> Any:
        if ENTERED.is_set() and not GO_ON.is_set():
            read.append(tracker.ref())
        return marks(tracker)

    monkeypatch.setattr(OptimizerTracker, "marks", noted)
    ENTERED.clear()
    GO_ON.clear()
    with watched(optimizers={"one": one, "other": other}, primary=one):
        first = threading.Thread(target=_step, args=(nets[0], one, 1.0), kwargs={"held": True})
        first.start()
        assert ENTERED.wait(30)
        _step(nets[1], other, 2.0, held=False)
        GO_ON.set()
        first.join()
    assert read == [other]
