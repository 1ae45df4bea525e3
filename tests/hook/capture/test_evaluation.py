"""An evaluation loop of a framework or a script is detected as a phase."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.hook.captured import KeptOutbox, watched
from tocsin.api.run import Run


def _net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))


def _train(net: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        net.train()
        optimizer.zero_grad()
        net(torch.ones(4, 3)).mean().backward()
        optimizer.step()


@torch.no_grad()
def _evaluate(run: Run, net: nn.Module, seconds: float = 0.0) -> None:
    net.eval()
    began = run._reporter.now_ns()
    while (run._reporter.now_ns() - began) * 1e-9 < seconds:
        net(torch.ones(4, 3))
    assert run._reporter.phases == ["eval"]


def _phases(outbox: KeptOutbox) -> list[tuple[int | None, str]]:
    return [(one["step"], one["state"]) for one in outbox.events("phase")]


def test_an_evaluation_is_a_phase_until_the_next_backward() -> None:
    """Of the model and of a wrapper; its time is in no step time, and ``alive`` names it."""
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with watched() as (run, outbox):
        for model in (net, nn.DataParallel(net)):
            _train(net, optimizer, 5)
            _evaluate(run, model, 0.05)
        _train(net, optimizer, 5)
    assert _phases(outbox) == [(4, "begin"), (4, "end"), (9, "begin"), (9, "end")]
    assert run._reporter.paused_ns >= 100_000_000
    whole = (outbox.items[-1][1] - outbox.items[0][1] - run._reporter.paused_ns) * 1e-9
    assert sum(seconds for _, seconds in outbox.series("step_time")) == pytest.approx(whole, abs=1e-6)


def _frozen_norm(net: nn.Sequential) -> None:
    net[1].eval()


@pytest.mark.parametrize(
    "at_each_step", [_frozen_norm, nn.Module.eval, lambda net: _net().eval()], ids=["norm", "model", "other"]
)
def test_a_call_of_eval_at_each_step_is_no_phase(at_each_step: Callable[[nn.Sequential], object]) -> None:
    """Frozen batch norms, a model that trains in evaluation mode, another model."""
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with watched() as (_, outbox):
        for _ in range(6):
            at_each_step(net)
            _train(net, optimizer, 1)
    assert _phases(outbox) == []


class Overriding(nn.Linear):
    """As in transformers' models: its ``eval`` does not call torch's."""

    def eval(self) -> Overriding:
        return self.train(False)


def test_a_model_with_an_eval_of_its_own_is_seen_until_the_run_ends() -> None:
    """Its class is determined at the first step, and restored afterwards."""
    before = vars(Overriding)["eval"]
    net = Overriding(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with watched() as (run, outbox):
        _train(net, optimizer, 5)
        _evaluate(run, net)
        _train(net, optimizer, 1)
    assert _phases(outbox) == [(4, "begin"), (4, "end")]
    assert vars(Overriding)["eval"] is before


def test_a_step_by_hand_before_an_evaluation_is_recorded_before_it() -> None:
    """It is detected when the next backward begins, at the latest."""
    net = nn.Linear(3, 1)
    with watched() as (_, outbox):
        for k in range(12):
            net(torch.ones(4, 3)).mean().backward()
            with torch.no_grad():
                for param in net.parameters():
                    param.sub_(param.grad)  # type: ignore[arg-type]
                    param.grad = None
            if k == 7:
                net.eval()
    assert _phases(outbox) == [(7, "begin"), (7, "end")]


def test_a_phase_of_the_script_is_enough() -> None:
    """``run.phase`` around the evaluation: there is no second phase."""
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with watched() as (run, outbox):
        _train(net, optimizer, 5)
        with run.phase("validation"):
            net.eval()
        _train(net, optimizer, 1)
    assert [one["name"] for one in outbox.events("phase")] == ["validation", "validation"]


def test_an_ordinary_step_pays_for_nothing() -> None:
    """Between evaluations no backward is checked."""
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with watched() as (run, _):
        _train(net, optimizer, 5)
        _evaluate(run, net)
        _train(net, optimizer, 5)
        assert run._ledger.inspectors == ()


def test_the_last_evaluation_ends_with_the_run() -> None:
    """The timeline shows no phase that never ended."""
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with watched() as (run, outbox):
        _train(net, optimizer, 5)
        _evaluate(run, net)
    assert _phases(outbox) == [(4, "begin"), (4, "end")]
