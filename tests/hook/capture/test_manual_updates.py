"""Trainings without a torch optimizer: each change of the weights between two backwards is a step."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from tests.hook.captured import watched
from tests.hook.truth import norm_of


class OwnOptimizer:
    """As in fastai: no ``torch.optim.Optimizer``, weights changed through ``data``."""

    def __init__(self, params: Iterator[nn.Parameter], lr: float) -> None:
        self.params, self.lr = list(params), lr

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [{"params": self.params, "lr": self.lr}]

    def step(self) -> None:
        for param in self.params:
            if param.grad is not None:
                param.data.add_(param.grad, alpha=-self.lr)

    def zero_grad(self) -> None:
        for param in self.params:
            if param.grad is not None:
                param.grad.detach_()
                param.grad.zero_()


def _net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def _loss(net: nn.Module) -> Tensor:
    loss: Tensor = net(torch.ones(2, 3)).pow(2).mean()
    return loss


def _by_data(net: nn.Module) -> float:
    net.zero_grad()
    loss = _loss(net)
    loss.backward()
    for param in net.parameters():
        param.data.add_(param.grad, alpha=-0.01)  # type: ignore[arg-type]
    return loss.item()


def _in_place(net: nn.Module) -> float:
    loss = _loss(net)
    loss.backward()
    with torch.no_grad():
        for param in net.parameters():
            param.sub_(0.01 * param.grad)  # type: ignore[operator]
            param.grad = None
    return loss.item()


@pytest.mark.parametrize("step", [_by_data, _in_place])
def test_weights_updated_by_hand_are_steps(step: Callable[[nn.Module], float]) -> None:
    """Every step, with its loss; the learning rate stays unknown."""
    net = _net()
    with watched() as (_, outbox):
        losses = [step(net) for _ in range(60)]
    assert outbox.series("loss") == list(enumerate(losses))
    assert {record["loss_n"] for record in outbox.records} == {1.0}
    assert not outbox.series("lr")
    assert not [one for one in outbox.events("preflight") if one["stage"] == "no-steps"]


def test_an_optimizer_class_that_is_not_torchs_is_seen() -> None:
    """Micro-steps are combined: two backwards make one step."""
    net = _net()
    optimizer, losses = OwnOptimizer(net.parameters(), 0.01), []
    with watched() as (_, outbox):
        for _ in range(20):
            for _ in range(2):
                loss = _loss(net)
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            optimizer.lr *= 0.9  # for the next step, as a scheduler does
    assert [value for _, value in outbox.series("lr")] == pytest.approx([0.01 * 0.9**k for k in range(20)])
    assert [value for _, value in outbox.series("loss")] == pytest.approx(losses)
    assert {record["loss_n"] for record in outbox.records} == {2.0}


def test_the_norm_is_that_of_the_clip_else_the_hooks_own() -> None:
    """Our norms are computed at the end of the backward, before the update hides it."""
    net, norms = _net(), []
    with watched(grad_norm=True) as (_, outbox):
        for k in range(12):
            net.zero_grad()
            _loss(net).backward()
            norms.append(norm_of(net.parameters()))
            if k in (1, 2) or k >= 6:
                clip_grad_norm_(net.parameters(), 1e-3)
            for param in net.parameters():
                param.data.add_(param.grad, alpha=-0.01)  # type: ignore[arg-type]
    found = dict(outbox.series("grad_norm"))
    assert [found[k] for k in (0, 1, 2, *range(6, 12))] == pytest.approx(norms[:3] + norms[6:])
    assert [one["source"] for one in outbox.events("grad-norm-source")] == ["own", "clip"]


def test_the_first_backward_may_be_of_something_else() -> None:
    """Its weights are unchanged: others are searched for."""
    net, other = _net(), nn.Parameter(torch.ones(2))
    with watched() as (_, outbox):
        other.sum().backward()
        losses = [_in_place(net) for _ in range(20)]
    assert [value for _, value in outbox.series("loss")][-12:] == losses[-12:]


def test_gradients_that_no_update_follows_are_no_steps() -> None:
    """Saliency between the steps, and an evaluation that takes gradients, leave no record."""
    net = _net()
    with watched() as (_, outbox):
        for k in range(20):
            _in_place(net)
            if k % 4 == 0:
                _loss(net).backward()
                net.zero_grad()
    assert [step for step, _ in outbox.series("loss")] == list(range(20))
    assert {record["loss_n"] for record in outbox.records} == {1.0}


def test_weights_that_never_change_are_still_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is recorded, and the warning comes."""
    net = _net()
    with caplog.at_level(logging.WARNING, logger="tocsin"), watched() as (_, outbox):
        for _ in range(50):
            _loss(net).backward()
            net.zero_grad()
    assert not outbox.items
    assert [one for one in caplog.messages if "run.step(loss=...)" in one]


def test_a_torch_optimizer_that_begins_later_makes_the_steps() -> None:
    """A manual warm-up of two steps, then torch: only confirmed steps are recorded."""
    net = _net()
    with watched() as (_, outbox):
        for _ in range(2):
            _in_place(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for _ in range(10):
            optimizer.zero_grad()
            _loss(net).backward()
            optimizer.step()
    assert [step for step, _ in outbox.series("lr")] == list(range(10))
    assert len(outbox.series("loss")) == 10


def test_a_torch_optimizer_takes_over_from_steps_by_hand() -> None:
    """No step counts twice."""
    net = _net()
    with watched() as (_, outbox):
        for _ in range(10):
            _in_place(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        for _ in range(10):
            optimizer.zero_grad()
            _loss(net).backward()
            optimizer.step()
    assert [step for step, _ in outbox.series("loss")] == list(range(20))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")
def test_on_a_device_the_weights_are_compared_without_waiting() -> None:
    """``param.data`` moves no version counter, so values are compared; torch reports every wait."""
    net, weights = _net().cuda(), []
    batch = torch.ones(2, 3, device="cuda")
    with watched() as (_, outbox):
        torch.cuda.set_sync_debug_mode("error")
        try:
            for k in range(40):
                net.zero_grad()
                loss = net(batch).pow(2).mean()
                loss.backward()
                for param in net.parameters() if k % 5 != 4 else ():
                    param.data.add_(param.grad, alpha=-0.01)  # type: ignore[arg-type]
                weights.append(loss.detach())
        finally:
            torch.cuda.set_sync_debug_mode("default")
    stepped = [loss.item() for k, loss in enumerate(weights) if k % 5 != 4]
    assert [value for _, value in outbox.series("loss")] == pytest.approx(stepped)


def test_an_ordinary_training_is_compared_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A known optimizer's weights end the search; its first step ends the comparison."""
    marks: list[int] = []
    monkeypatch.setattr("tocsin.capture.manual_updates._mark", lambda probe: marks.append(1))
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with watched() as (run, _):
        for _ in range(8):
            _loss(net).backward()
        optimizer.step()
        _loss(net).backward()
        inspectors = [one.__self__ for one in run._ledger.inspectors]
    assert not marks
    assert "ManualUpdates" not in [type(one).__name__ for one in inspectors]


def test_the_run_keeps_no_model_alive() -> None:
    """The stand-in for the optimizer has weak references to the weights."""
    from tocsin.capture.manual_updates import ManualUpdate

    update = ManualUpdate([nn.Parameter(torch.ones(2))])
    assert update.param_groups == [{"params": []}]


def test_the_handshake_says_that_the_weights_are_updated_by_hand() -> None:
    """With their number, as for an optimizer."""
    net = _net()
    with watched(grad_norm=False) as (run, _):
        for _ in range(8):
            _in_place(net)
    (one,) = run._run_info.described["optimizers"]
    assert (one["class"], one["parameters"]) == ("ManualUpdate", 21)
