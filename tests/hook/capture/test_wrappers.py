"""Wrappers of frameworks are never separate optimizers."""

from __future__ import annotations

import gc
from typing import Any

import torch

from tests.hook.captured import watched
from tests.hook.loops.framework import Delegating, Imitating
from tocsin.capture.wrappers import inner_of


def _sgd() -> tuple[torch.nn.Linear, torch.optim.Optimizer]:
    net = torch.nn.Linear(2, 1)
    return net, torch.optim.SGD(net.parameters(), lr=0.1)


def test_wrappers_of_every_make_lead_to_the_optimizer() -> None:
    """By their attribute, also nested; a wrapper of several optimizers, or of none, resolves to nothing."""
    _, one = _sgd()
    _, other = _sgd()
    both = Delegating(one)
    both.optimizer = None  # type: ignore[assignment]
    both.several = [one, other]  # type: ignore[attr-defined]
    wrappers: list[Any] = [one, Delegating(one), Imitating(one), Delegating(Imitating(one))]  # type: ignore[arg-type]
    assert [inner_of(wrapper) for wrapper in wrappers] == [one] * 4
    assert inner_of(both) is None
    assert inner_of(object()) is None


def test_a_late_watch_lists_a_wrapped_optimizer_once() -> None:
    """The wrapper and the optimizer behind it are one optimizer."""
    _, optimizer = _sgd()
    wrappers: list[Any] = [Delegating(optimizer), Imitating(optimizer)]
    with watched() as (run, _):
        known = [one.ref() for one in run._ledger.trackers.values()]
        assert [one is optimizer for one in known].count(True) == 1
        assert not [one for one in known if one in wrappers]
        assert all(run._ledger.tracker(one).ref() is optimizer for one in wrappers)


def test_a_wrapper_can_die() -> None:
    """Nothing refers to a wrapper after its deletion."""
    _, optimizer = _sgd()
    wrapper = Delegating(optimizer)
    with watched() as (run, _):
        wrapper.zero_grad()
        run._ledger.tracker(wrapper)
        key = id(wrapper)
        assert key in run._ledger.wrappers
        del wrapper
        gc.collect()
        assert key not in run._ledger.wrappers


def test_a_wrapper_may_be_named_and_be_the_primary() -> None:
    """``optimizers=`` and ``primary=`` accept the objects that the script has."""
    net, one = _sgd()
    more, other = _sgd()
    wrapped = Delegating(other)
    with watched(optimizers={"first": one, "second": wrapped}, primary=wrapped) as (_, outbox):
        for each, params in ((one, net), (wrapped, more)):
            params(torch.ones(2)).sum().backward()
            each.step()
    assert len(outbox.series("loss/first")) == len(outbox.series("loss")) == 1


def test_optimizers_that_step_for_another_leave_nothing_waiting() -> None:
    """One for all parameters, whose halves two others step (Muon and AdamW) in a separate method."""

    class Both(torch.optim.Optimizer):
        def __init__(self, one: torch.optim.Optimizer, other: torch.optim.Optimizer) -> None:
            super().__init__([*one.param_groups, *other.param_groups], {})
            self.inside = [one, other]

        def advance(self) -> None:
            for each in self.inside:
                each.step()

    net = torch.nn.Linear(2, 1)
    optimizer = Both(torch.optim.SGD([net.weight], lr=0.1), torch.optim.SGD([net.bias], lr=0.1))
    with watched() as (_, outbox):
        for _ in range(3):
            net(torch.ones(2)).sum().backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.advance()
            optimizer.zero_grad()
    assert outbox.series("stepped") == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert outbox.series("stepped/opt2") == [(0, 1.0), (1, 1.0), (2, 1.0)]
    assert len(outbox.records) == 6
