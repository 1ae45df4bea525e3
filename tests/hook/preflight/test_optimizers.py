"""Settings of optimizers: eps and learning rates."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.hook.captured import watched
from tests.hook.preflight.checked import checked, found, mean_of, net, train, unseen


def test_an_eps_that_is_zero_in_float16() -> None:
    """Adam's 1e-8 with float16 parameters; 1e-4 is fine, and 1e-8 is in float32."""
    for dtype, eps, count in ((torch.float16, 1e-8, 1), (torch.float16, 1e-4, 0), (torch.float32, 1e-8, 0)):
        model = nn.Linear(6, 1).to(dtype)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=eps)
        with watched(model=model) as (_, outbox):
            train(model, mean_of(model, dtype), optimizer)
        assert len(found(outbox, "eps-underflow")) == count, (dtype, eps)


@pytest.mark.parametrize(("lr", "check"), [(0.0, "lr-zero"), (0.5, "lr-range"), (1e-3, "")])
def test_rates_of_zero_and_out_of_range(lr: float, check: str) -> None:
    """0.5 is SGD's rate, not Adam's."""
    outbox = checked(net(), lr=lr)
    found = [one["check"] for event in outbox.events("preflight") for one in event["findings"]]
    assert found == ([check] if check else [])


def test_a_rate_of_an_unknown_optimizer_does_not_pass() -> None:
    """Usual rates of Rprop are unknown, and a tensor is not read: reported as not checkable."""

    def unchecked(make: Callable[[nn.Module], torch.optim.Optimizer]) -> str:
        model = net()
        with watched(model=model) as (_, outbox):
            train(model, mean_of(model), make(model))
        assert not found(outbox, "lr-range")
        return unseen(outbox)

    assert "not known for this kind" in unchecked(lambda model: torch.optim.Rprop(model.parameters(), lr=1e6))
    rate = torch.tensor(50.0)
    assert "is a tensor" in unchecked(lambda model: torch.optim.Adam(model.parameters(), lr=rate))


def test_a_warm_up_from_zero_is_not_a_zero_rate() -> None:
    """Unless it is still 0 at the tenth step."""
    for target, count in ((lambda step: step / 100, 0), (lambda step: 0.0, 1)):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, target)
        with watched(model=model) as (_, outbox):
            for _ in range(10):
                train(model, mean_of(model), optimizer)
                schedule.step()
        assert found(outbox, "lr-zero") == []
        assert len(found(outbox, "lr-zero", "step-10")) == count


def test_a_scheduler_without_initial_rate_is_not_a_zero_rate() -> None:
    """DeepSpeed's warm-up sets the group's rate to 0, and nothing else; the optimizer was made with 0.1."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.param_groups[0]["lr"] = 0.0
    with watched(model=model) as (_, outbox):
        train(model, mean_of(model), optimizer)
    assert found(outbox, "lr-zero") == []
