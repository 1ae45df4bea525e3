"""A resumed run continues the count of its checkpoint."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.hook.captured import KeptOutbox, watched
from tocsin.capture import restored_steps


@pytest.fixture
def net() -> torch.nn.Module:
    return torch.nn.Linear(2, 1)


def _train(net: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int = 1) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.ones(2)).sum().backward()
        optimizer.step()


def _checkpoint(net: torch.nn.Module, steps: int) -> dict[str, Any]:
    adam = torch.optim.Adam(net.parameters())
    _train(net, adam, steps)
    return adam.state_dict()


def _steps(outbox: KeptOutbox) -> list[int]:
    return [step for step, _ in outbox.series("loss")]


@pytest.fixture
def on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a fused optimizer on CUDA: a step may not read its count."""
    monkeypatch.setattr(restored_steps, "steps_of", lambda optimizer: 0)
    monkeypatch.setattr("tocsin.capture.ledger.steps_of", lambda optimizer: 0)


@pytest.mark.usefixtures("on_a_device")
def test_a_state_loaded_after_the_watch_continues_its_count(net: torch.nn.Module) -> None:
    """The count of the loaded state is known before the first step."""
    saved = _checkpoint(net, 5)
    with watched() as (_, outbox):
        adam = torch.optim.Adam(net.parameters())
        adam.load_state_dict(saved)
        _train(net, adam, 2)
    assert _steps(outbox) == [5, 6]
    assert outbox.events("start-step") == [{"step": 5, "approximate": True}]


@pytest.mark.usefixtures("on_a_device")
def test_a_state_loaded_before_the_watch_continues_its_count(net: torch.nn.Module) -> None:
    """``watch`` reads the existing optimizers once."""
    adam = torch.optim.Adam(net.parameters())
    adam.load_state_dict(_checkpoint(net, 7))
    with watched() as (_, outbox):
        _train(net, adam)
    assert _steps(outbox) == [7]


def test_what_no_count_can_be_read_from_begins_at_0(net: torch.nn.Module) -> None:
    """A state in a custom form is loaded as usual."""

    class Own(torch.optim.SGD):
        def load_state_dict(self, state_dict: Any) -> None:
            self.loaded = state_dict

    with watched() as (run, outbox):
        sgd = Own(net.parameters(), lr=0.1)
        sgd.load_state_dict({"state": {0: {"step": None}, 1: 3}})
        _train(net, sgd)
        assert sgd.loaded["state"][1] == 3
        assert run._reporter.errors == 0
    assert _steps(outbox) == [0]


@pytest.mark.parametrize("by_name", [False, True])
def test_what_steps_before_a_restored_primary_continues_its_count(by_name: bool) -> None:
    """A GAN whose generator is the primary and steps second, resumed after five steps."""
    pair = torch.nn.ModuleDict({name: torch.nn.Linear(2, 1) for name in ("critic", "generator")})
    critic, generator = (torch.optim.Adam(net.parameters()) for net in pair.values())
    generator.load_state_dict(_checkpoint(pair["generator"], 5))
    with watched(primary="generator" if by_name else generator) as (_, outbox):
        for _ in range(2):
            _train(pair["critic"], critic)
            _train(pair["generator"], generator)
    assert _steps(outbox) == [5, 6]
    assert [step for step, _ in outbox.series("loss/critic")] == [5, 6]


def test_a_step_that_allocates_the_state_is_not_recorded(net: torch.nn.Module) -> None:
    """As in torch's distributed checkpoints before they load; the loaded count is continued."""
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

    state = _checkpoint(net, 7)
    net.zero_grad()
    with watched() as (_, outbox):
        optimizer = torch.optim.Adam(net.parameters())
        get_optimizer_state_dict(net, optimizer)
        optimizer.load_state_dict(state)
        _train(net, optimizer, 2)
    assert [step for step, _ in outbox.series("lr")] == [7, 8]
