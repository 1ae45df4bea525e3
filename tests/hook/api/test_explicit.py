"""Loops that report their steps themselves, as with graphs, XLA, JAX and NumPy; devices that are not used."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.hook.captured import watched
from tests.hook.truth import batches, model
from tocsin.api.scalars import nonfinite
from tocsin.capture import ledger, reading


class Lazy:
    """A value of another library that is computed on access."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value


class Boxed(Lazy):
    """Like the scalars of JAX and CuPy, read with ``item``."""

    def item(self) -> float:
        return self.value


class Untouched(TorchDispatchMode):
    """Raises at any operation on a tensor whose device is neither the CPU nor CUDA."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [one for one in args if isinstance(one, Tensor)]
        assert not [one for one in tensors if one.device.type == "meta"], f"{func} on a foreign device"
        return func(*args, **(kwargs or {}))


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A CUDA build in which a graph is being captured when the list says so."""
    state = [False]
    for module in (reading, ledger):
        monkeypatch.setattr(module, "CUDA", True)
        monkeypatch.setattr(module, "capturing", lambda: state[0])
    return state


def test_a_numpy_loop_reports_its_steps() -> None:
    """Arrays of one element and NumPy's scalars, with a model that torch does not know."""
    weights, truth = np.zeros(3), []
    with watched() as (run, outbox):
        for k in range(20):
            grad = weights - np.arange(3.0)
            loss, norm = np.square(grad).sum(keepdims=True), np.linalg.norm(grad)
            run.step(loss=loss, grad_norm=norm, lr=np.float32(0.5), epoch=k // 5)
            truth.append((float(loss[0]), float(norm)))
            weights = weights - 0.5 * grad
    recorded = [(record["loss"], record["grad_norm"]) for record in outbox.records]
    assert recorded == truth
    assert [record["step"] for record in outbox.records] == list(range(20))


@pytest.mark.parametrize("kind", [Lazy, Boxed])
@pytest.mark.parametrize("value", [0.5, math.inf, -math.inf, math.nan])
def test_values_of_other_libraries_are_asked_once_and_kept_to_the_bit(kind: Any, value: float) -> None:
    """``__float__`` and ``item()`` work for JAX, CuPy and the like, also for non-finite values."""
    with watched() as (run, outbox):
        run.step(loss=kind(value))
    ((step, recorded),) = outbox.series("loss")
    assert (step, repr(recorded)) == (0, repr(value))


def test_a_replayed_graph_is_reported_by_the_script(captures: list[bool]) -> None:
    """Warm-up steps are captured, the captured graph is not a step, each replay is one ``run.step``."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(batch: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = net(batch).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    every = list(batches(8))
    with watched() as (run, outbox):
        truth = [float(step(batch).detach()) for batch in every[:3]]
        captures[0] = True
        step(every[3])
        captures[0] = False
        for batch in every[4:]:
            loss = net(batch).pow(2).mean()
            truth.append(float(loss.detach()))
            run.step(loss=loss)
    assert outbox.series("loss") == list(enumerate(truth))


def test_nothing_is_computed_while_a_graph_is_captured(captures: list[bool]) -> None:
    """No norm and no check of a batch: they would be replayed with the graph."""
    captures[0] = True
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched(grad_norm=1) as (run, outbox):
        net(torch.ones(2)).sum().backward()
        optimizer.step()
        run.check(batch=torch.ones(2))
        assert nonfinite(torch.ones(2)) is None
        assert run._ledger.step == -1
    assert not outbox.items


def test_values_on_an_unsupported_device_are_not_read_and_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Values on XLA and the like would cost a wait or another graph: one warning says what to do instead."""
    reading._unread.clear()
    weight = nn.Parameter(torch.ones(2, device="meta"), requires_grad=False)
    weight.grad = torch.ones(2, device="meta")
    optimizer = torch.optim.SGD([weight], lr=0.1)
    value = torch.ones((), device="meta")
    with watched(grad_norm=1) as (run, outbox):
        tracker = run._ledger.tracker(optimizer)
        with Untouched():  # type: ignore[no-untyped-call]
            for _ in range(3):
                run.log(loss=value)
                run.check(batch=[value], losses={"part": value})
                run._ledger.first_step(tracker)
                assert run._ledger.norm_due(tracker)
                own_norm(run._ledger, tracker, optimizer)
    assert not outbox.items
    assert caplog.text.count("values on meta devices") == 1
    assert "run.step" in caplog.text


def own_norm(book: Any, tracker: Any, optimizer: Any) -> None:
    """Do what a step's callback does if a norm is due."""
    from tocsin.capture import gradients

    gradients.own_norm(book, tracker, optimizer, None)
    assert tracker.norm is None
