"""All kinds of scalers: overridden methods, scales set by the script, updates without a step."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch

from tests.hook.captured import KeptOutbox, watched


class Careful(torch.amp.GradScaler):
    """A subclass that overrides all that is patched."""

    def scale(self, outputs: Any) -> Any:
        return super().scale(outputs)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        return super().step(optimizer, *args, **kwargs)

    def unscale_(self, optimizer: Any) -> None:
        super().unscale_(optimizer)

    def update(self, new_scale: Any = None) -> None:
        super().update(new_scale)


def _train(scaler: Any, steps: int, *, power: int = 1, net: Any = None) -> None:
    net = net or torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = net(torch.ones(4)).sum().pow(power)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()


def _scales(outbox: KeptOutbox) -> list[float]:
    return [value for _, value in outbox.series("scale")]


def test_a_subclass_that_overrides_everything_reports_once() -> None:
    """``super()`` calls inside overridden methods do not duplicate records or events."""
    with watched() as (_, outbox):
        _train(Careful("cpu", init_scale=4.0, growth_interval=2), 4)
    assert _scales(outbox) == [4.0, 4.0, 8.0, 8.0]
    assert [(one["from"], one["to"]) for one in outbox.events("scaler")] == [(4.0, 8.0), (8.0, 16.0)]


@pytest.mark.parametrize("make", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_made_under_the_watch_report(make: Any) -> None:
    """A scaler that was copied or pickled while patched is an ordinary scaler, and is captured."""
    with watched() as (_, outbox):
        _train(make(torch.amp.GradScaler("cpu", init_scale=2.0)), 2)
    assert _scales(outbox) == [2.0, 2.0]


def test_the_sharded_scaler_is_patched_too() -> None:
    """ShardedGradScaler overrides scale, unscale_ and update: each is wrapped during a watch."""
    from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

    names = ("scale", "unscale_", "update")
    before = [vars(ShardedGradScaler).get(name) for name in names]
    with watched():
        assert all(
            vars(ShardedGradScaler)[name] is not one for name, one in zip(names, before, strict=True) if one
        )
    assert [vars(ShardedGradScaler).get(name) for name in names] == before


def test_a_scale_set_by_the_script_is_an_event() -> None:
    """``update(new_scale)`` is reported as growth or backoff."""
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    with watched(scalers={"amp": scaler}) as (_, outbox):
        _train(scaler, 1)
        scaler.update(2.0)
        _train(scaler, 1)
    assert outbox.events("scaler") == [
        {"step": 0, "scaler": "amp", "change": "backoff", "from": 16.0, "to": 2.0}
    ]
    assert _scales(outbox) == [16.0, 2.0]


def test_a_wrapped_optimizer_is_unwrapped() -> None:
    """An object with ``.optimizer`` and its own ``step``, as Accelerate's, reports as the torch optimizer."""

    class Wrapper:
        def __init__(self, optimizer: torch.optim.Optimizer) -> None:
            self.optimizer = optimizer
            self.param_groups = optimizer.param_groups

        def step(self, closure: Any = None) -> None:
            self.optimizer.step()

    net = torch.nn.Linear(4, 1)
    wrapper: Any = Wrapper(torch.optim.SGD(net.parameters(), lr=0.5))
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    with watched() as (_, outbox):
        scaler.scale(net(torch.ones(4)).sum()).backward()
        scaler.step(wrapper)
        scaler.update()
    (record,) = outbox.records
    assert (record["scale"], record["stepped"], record["skipped"], record["found_inf"]) == (
        8.0,
        1.0,
        0.0,
        0.0,
    )


def test_scaling_a_list_counts_every_loss() -> None:
    """``scale([a, b])`` gives two losses, each unscaled."""
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    with watched() as (_, outbox):
        losses = [net(torch.ones(4)).sum(), net(torch.zeros(4)).sum()]
        torch.autograd.backward(scaler.scale(losses))
        scaler.step(optimizer)
    (record,) = outbox.records
    assert record["loss"] == pytest.approx(sum(float(loss.detach()) for loss in losses))
    assert record["loss_n"] == 2.0


def test_a_loss_that_is_scaled_in_inference_mode_is_left_alone() -> None:
    """It cannot be backpropagated, and neither it nor a scale that is made there has a version counter."""
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with watched() as (run, _), torch.inference_mode():
        assert scaler.scale(torch.ones(())) == 4.0
        assert scaler.scale(torch.ones(())) == 4.0
    assert run._reporter.errors == 0


def test_a_raising_step_leaves_no_record_and_no_trace() -> None:
    """scaler.step without a scaled loss raises torch's own error; the next steps report as always."""
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    with watched() as (_, outbox):
        with pytest.raises(AssertionError, match="Attempted step but _scale is None"):
            scaler.step(optimizer)
        _train(scaler, 2, net=net)
    assert _scales(outbox) == [8.0, 8.0]


def test_a_collapse_is_reported_step_by_step() -> None:
    """Weights that stay infinite make every step a skip and every update a backoff."""
    net = torch.nn.Linear(4, 1)
    with torch.no_grad():
        net.weight.copy_(torch.full((1, 4), 1e38))
    with watched() as (_, outbox):
        _train(torch.amp.GradScaler("cpu", init_scale=4.0), 4, power=3, net=net)
    assert _scales(outbox) == [4.0, 2.0, 1.0, 0.5]
    assert [value for _, value in outbox.series("skipped")] == [1.0] * 4
    assert [one["step"] for one in outbox.events("scaler")] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "change",
    [lambda scaler, loss: scaler.scale(loss).div_(4), lambda scaler, loss: scaler.scale(loss) / 2 / 2],
)
def test_a_scaled_loss_that_is_divided_is_unscaled(change: Any) -> None:
    """The recorded loss is what is backpropagated, without the scale."""
    net = torch.nn.Linear(4, 1)
    optimizer, scaler = torch.optim.SGD(net.parameters()), torch.amp.GradScaler("cpu", init_scale=256.0)
    with watched() as (_, outbox):
        for _ in range(3):  # freed tensors leave their ids to others
            loss = net(torch.ones(4)).sum()
            change(scaler, loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            assert outbox.series("loss")[-1][1] == pytest.approx(float(loss.detach()) / 4)
