"""What counts as a loss, and to which optimizer it belongs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.hook.captured import watched


@pytest.fixture
def net() -> torch.nn.Linear:
    return torch.nn.Linear(2, 1)


@pytest.fixture
def optimizer(net: torch.nn.Linear) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.0)


def test_a_gradient_argument_is_part_of_the_objective(net: Any, optimizer: Any) -> None:
    """``backward(minus_one)``, as WGAN scripts do, is the objective times minus one."""
    with watched() as (_, outbox):
        loss = net(torch.ones(2)).sum()
        loss.backward(torch.tensor(-1.0))
        optimizer.step()
    assert outbox.series("loss") == [(0, -float(loss.detach()))]


@pytest.mark.parametrize("backwards", [1, 2])
def test_a_backward_in_inference_mode_counts(net: Any, optimizer: Any, backwards: int) -> None:
    """Its gradients have no version counter; a second one adds to them in place."""
    with watched() as (run, outbox):
        for _ in range(25):
            loss = net(torch.ones(2)).sum()
            with torch.inference_mode():
                for _ in range(backwards):
                    loss.backward(retain_graph=True)
            optimizer.step()
            optimizer.zero_grad()
    assert outbox.series("loss_n") == [(step, float(backwards)) for step in range(25)]
    assert run._reporter.errors == 0


def test_a_loss_of_shape_one_counts(net: Any, optimizer: Any) -> None:
    """One element is a scalar, whatever its shape."""
    with watched() as (_, outbox):
        loss = net(torch.ones(2))
        loss.backward()
        optimizer.step()
    assert outbox.series("loss") == [(0, float(loss.detach()))]


def test_a_vector_is_no_loss(net: Any, optimizer: Any) -> None:
    """A backward of many elements steps without a loss value."""
    with watched() as (_, outbox):
        out = net(torch.ones(3, 2))
        out.backward(torch.ones_like(out))
        optimizer.step()
    (record,) = outbox.records
    assert "loss" not in record
    assert record["stepped"] == 1.0


def test_a_reentrant_checkpoint_counts_one_loss(net: Any, optimizer: Any) -> None:
    """The backward inside a backward is not a separate loss."""
    with watched() as (_, outbox):
        batch = torch.ones(2, requires_grad=True)
        loss = checkpoint(net, batch, use_reentrant=True).sum()
        loss.backward()
        optimizer.step()
    assert outbox.series("loss_n") == [(0, 1.0)]


def test_gradients_cleared_by_hand_are_noticed(net: Any, optimizer: Any) -> None:
    """``param.grad = None`` before the next backward drops the loss like ``zero_grad``: no step was made."""
    with watched() as (_, outbox):
        for k in range(3):
            for param in net.parameters():
                param.grad = None
            net(torch.full((2,), float(k))).sum().backward()
            if k != 1:
                optimizer.step()
    assert outbox.series("stepped") == [(0, 1.0), (1, 1.0)]
    assert outbox.series("loss_n") == [(0, 1.0), (1, 1.0)]


def test_a_loss_that_is_not_finite_is_kept_where_it_is_dropped(net: Any, optimizer: Any) -> None:
    """``if loss.isnan(): zero_grad(); continue`` is an abandoned step, so that the problem is visible."""
    with watched() as (_, outbox):
        for factor in (1.0, math.nan, 1.0):
            (net(torch.ones(2)).sum() * factor).backward()
            if factor == 1.0:
                optimizer.step()
            optimizer.zero_grad()
    assert outbox.series("stepped") == [(0, 1.0), (1, 0.0), (2, 1.0)]
    assert math.isnan(outbox.series("loss")[1][1])


def test_a_dropped_backward_leaves_the_step_of_what_is_logged(net: Any, optimizer: Any) -> None:
    """After an evaluation with gradients, values still belong to the newest step."""
    with watched() as (run, outbox):
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(2)).sum().backward()
            optimizer.step()
        optimizer.zero_grad()
        net(torch.ones(2)).sum().backward()
        optimizer.zero_grad()
        run.log(accuracy=0.5)
    assert outbox.series("accuracy") == [(1, 0.5)]


def test_a_loss_of_no_optimizer_is_named_apart(net: Any, optimizer: Any) -> None:
    """A backward that reaches no optimizer's parameters does not pollute the loss."""
    stranger = torch.nn.Linear(2, 1)
    with watched() as (_, outbox):
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.zeros(2)).sum().backward()
            (stranger(torch.zeros(2)).sum() * 3).backward()
            optimizer.step()
    bias = float(net.bias.detach())
    assert [value for _, value in outbox.series("loss")] == [bias, bias]
    assert [step for step, _ in outbox.series("loss/0")] == [0, 1]


def test_losses_of_optimizers_that_were_left_out_are_not_reported(net: Any, optimizer: Any) -> None:
    """With ``optimizers=``, as for each of several parallel runs."""
    stranger = torch.nn.Linear(2, 1)
    with watched(optimizers={"one": optimizer}) as (_, outbox):
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.zeros(2)).sum().backward()
            stranger(torch.zeros(2)).sum().backward()
            optimizer.step()
    assert len(outbox.series("loss")) == 3
    assert not outbox.series("loss/0")


def test_hidden_gradients_still_have_their_loss(net: Any) -> None:
    """An optimizer over float32 copies, whose gradients are copied by hand, still gets the loss."""
    masters = [param.detach().clone().requires_grad_() for param in net.parameters()]
    optimizer = torch.optim.SGD(masters, lr=0.1)
    with watched() as (_, outbox):
        for _ in range(3):
            net.zero_grad()
            net(torch.ones(2)).sum().backward()
            for master, param in zip(masters, net.parameters(), strict=True):
                master.grad = param.grad.clone()
            optimizer.step()
    assert [value for _, value in outbox.series("loss_n")] == [1.0, 1.0, 1.0]


def test_a_long_accumulation_is_bounded(net: Any, optimizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses above the limit are folded: number and sum stay correct."""
    monkeypatch.setattr("tocsin.capture.ledger.LOSSES", 8)
    with watched() as (run, outbox):
        for _ in range(30):
            torch.autograd.backward(net(torch.zeros(2)).sum() * 0 + 1)
        (tracker,) = [one for one in run._ledger.trackers.values() if one.losses]
        assert len(tracker.losses) <= 8
        optimizer.step()
    assert [outbox.series(name) for name in ("loss", "loss_sum", "loss_n")] == [
        [(0, 1.0)],
        [(0, 30.0)],
        [(0, 30.0)],
    ]


def test_a_compiled_model_reports_like_an_eager_one(net: Any, optimizer: Any) -> None:
    """torch.compile of the model changes no record."""
    compiled: Any = torch.compile(net, backend="eager")
    with watched() as (_, outbox):
        for _ in range(3):
            optimizer.zero_grad()
            compiled(torch.ones(2)).sum().backward()
            optimizer.step()
    assert [value for _, value in outbox.series("loss_n")] == [1.0, 1.0, 1.0]
    assert len(outbox.series("lr")) == 3
