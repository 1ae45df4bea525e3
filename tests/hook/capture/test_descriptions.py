"""Optimizers, scalers and schedulers are described whenever the script creates them."""

from __future__ import annotations

from typing import Any

import torch

from tests.hook.captured import KeptOutbox, watched
from tocsin.capture.descriptions import AGAIN


def _net() -> torch.nn.Module:
    return torch.nn.Linear(2, 1)


def _step(net: torch.nn.Module, optimizer: Any) -> None:
    optimizer.zero_grad()
    net(torch.ones(2)).sum().backward()
    optimizer.step()


def _on_reading(outbox: KeptOutbox) -> list[list[str]]:
    """Return the classes of the optimizers in each ``attached`` event."""
    return [[one["class"] for one in event["optimizers"]] for event in outbox.events("attached")]


def _rates(event: dict[str, Any]) -> list[float]:
    """Return the learning rates of the optimizers in an event; those of other tests may still be alive."""
    return [one["defaults"]["lr"] for one in event["optimizers"]]


def test_a_word_ahead_of_the_training_hides_nothing_of_it() -> None:
    """Optimizers, scalers and models made after the first event are described and checked at the first
    step."""
    with watched() as (run, outbox):
        run.expect("warm-up", steps=[10])
        net = torch.nn.ModuleList([torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)])
        optimizer = torch.optim.SGD(net[0].parameters(), lr=0.0371)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5)
        for _ in range(2):
            (net[0](torch.ones(2)) + net[1](torch.ones(2))).sum().backward()
            optimizer.step()
            scheduler.step()
    first, late = outbox.events("attached")
    assert [_rates(first).count(0.0371), _rates(late).count(0.0371)] == [0, 1]
    assert run._run_info.described["optimizers"] == late["optimizers"]
    assert [event["scheduler"] for event in outbox.events("schedule")] == ["StepLR"]
    (audit,) = outbox.events("preflight")
    assert "missing-parameters" in {one["check"] for one in audit["findings"]}


def test_both_optimizers_of_a_gan_are_reported() -> None:
    """The second one steps after the first record, which sends the hello: an event adds it."""
    nets = [_net(), _net()]
    with watched() as (run, outbox):
        each = [torch.optim.SGD(nets[0].parameters(), lr=0.1), torch.optim.Adam(nets[1].parameters())]
        for _ in range(3):
            for net, optimizer in zip(nets, each, strict=True):
                _step(net, optimizer)
        assert [one["name"] for one in run._run_info.described["optimizers"]] == ["opt1", "opt2"]
    assert _on_reading(outbox)[1:] == [["SGD", "Adam"]]


def test_objects_created_during_training_are_reported_at_the_next_step() -> None:
    """A second phase with another optimizer, scaler and schedule is one more event."""
    first, second = _net(), _net()
    optimizer = torch.optim.SGD(first.parameters(), lr=0.1)
    with watched() as (_, outbox):
        _step(first, optimizer)
        later = torch.optim.Adagrad(second.parameters())
        schedule = torch.optim.lr_scheduler.ExponentialLR(later, 0.5)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        for _ in range(3):
            scaler.scale(second(torch.ones(2)).sum()).backward()
            scaler.step(later)
            scaler.update()
            _step(first, optimizer)
        schedule.step()
    assert _on_reading(outbox)[1:] == [["SGD", "Adagrad"]]
    assert 2.0 in [one["init_scale"] for one in outbox.events("attached")[1]["scalers"] if one["enabled"]]
    reported = [(one["optimizer"], one["scheduler"]) for one in outbox.events("schedule")]
    assert reported == [("opt2", "ExponentialLR")]


def test_a_training_that_always_makes_new_ones_is_described_so_often_and_no_more() -> None:
    """Each description searches all objects, so their number is limited."""
    net = _net()
    steady = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as (_, outbox):
        for _ in range(AGAIN + 5):
            fresh = _net()
            _step(fresh, torch.optim.SGD(fresh.parameters(), lr=0.1))
            _step(net, steady)
            _step(net, steady)
    assert len(outbox.events("attached")) == 1 + AGAIN
