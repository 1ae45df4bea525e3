"""A training without recordable steps reports that."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.hook.captured import KeptOutbox, watch, watched


def _backward(net: nn.Module) -> None:
    net(torch.ones(2)).sum().backward()
    for param in net.parameters():
        param.data.add_(param.grad, alpha=-0.1)  # type: ignore[arg-type]
        param.grad = None


def _by_grad(net: nn.Module) -> None:
    params = list(net.parameters())
    for param, grad in zip(params, torch.autograd.grad(net(torch.ones(2)).sum(), params), strict=True):
        param.data.sub_(grad)


def _functional(net: nn.Module) -> None:
    weights = dict(net.named_parameters())
    torch.func.grad(lambda params: torch.func.functional_call(net, params, torch.ones(2)).sum())(weights)


@pytest.mark.parametrize("loop", [_backward, _by_grad, _functional])
def test_many_backwards_without_a_step_are_reported(
    loop: Callable[[nn.Module], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Within 50 passes: once on stderr, and as a finding of the config check."""
    net = nn.Linear(2, 1)
    with caplog.at_level(logging.WARNING, logger="tocsin"), watched(optimizers={"none": None}) as (_, outbox):
        for _ in range(50):
            loop(net)
    (event,) = [one for one in outbox.events("preflight") if one["stage"] == "no-steps"]
    assert event["findings"][0]["check"] == "no-steps"
    assert [one for one in caplog.messages if "run.step(loss=...)" in one]


def test_micro_steps_of_a_large_step_are_not_reported() -> None:
    """A known optimizer that gets gradients may step after many."""
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched(optimizers={"all": optimizer}) as (_, outbox):
        for _ in range(128):
            net(torch.ones(2)).sum().backward()
        optimizer.step()
    assert not [one for one in outbox.events("preflight") if one["stage"] == "no-steps"]


@pytest.mark.parametrize(("end", "reported"), [("finished", 1), ("failed", 0)])
def test_a_run_that_ends_without_any_record_says_why(
    end: str, reported: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Training that calls neither backward nor step; a failed run has another reason."""
    with caplog.at_level(logging.WARNING, logger="tocsin"):
        run = watch(outbox := KeptOutbox(), optimizers={"none": None})
        run.finish(state=end)
    found = [one for one in outbox.events("preflight") if one["stage"] == "no-steps"]
    assert len(found) == len([one for one in caplog.messages if "run.step(loss=...)" in one]) == reported


def test_a_run_that_only_logs_is_not_warned_about_steps() -> None:
    """An evaluation."""
    with watched(optimizers={"none": None}) as (run, outbox):
        run.log(accuracy=0.5)
    assert not [one for one in outbox.events("preflight") if one["stage"] == "no-steps"]
