"""All kinds of optimizers: subclasses, wrappers, replaced ones, rates that are not floats."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import Any

import pytest
import torch

from tests.hook.captured import watched
from tests.hook.isolation_cases import Container
from tests.hook.truth import torch_is_before


def _backward(net: torch.nn.Module) -> None:
    net(torch.ones(2)).sum().backward()


def test_super_step_is_one_step() -> None:
    """A subclass that calls ``super().step()`` fires torch's hooks twice and is one record."""

    class Louder(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    net = torch.nn.Linear(2, 1)
    each = Louder(net.parameters(), lr=0.1)
    with watched() as (_, outbox):
        for _ in range(3):
            _backward(net)
            each.step()
    assert [step for step, _ in outbox.series("stepped")] == [0, 1, 2]


def test_a_wrapper_optimizer_stays_the_primary() -> None:
    """An optimizer that steps another one inside (SAM, Lookahead), on the same parameters, counts."""

    class Outer(torch.optim.Optimizer):
        def __init__(self, inner: torch.optim.Optimizer) -> None:
            self.inner = inner
            super().__init__(inner.param_groups, inner.defaults)

        def step(self, closure: Any = None) -> Any:
            return self.inner.step(closure)

    net = torch.nn.Linear(2, 1)
    each = Outer(torch.optim.SGD(net.parameters(), lr=0.1))
    with watched() as (_, outbox):
        for _ in range(3):
            _backward(net)
            each.step()
            each.zero_grad()
    assert [step for step, _ in outbox.series("stepped")] == [0, 1, 2]
    assert [value for _, value in outbox.series("loss_n")] == [1.0, 1.0, 1.0]


def test_a_container_without_rates_has_those_of_its_first_optimizer() -> None:
    """Like that of torchtitan, whose parameter groups have only parameters."""
    net = torch.nn.Linear(2, 1)
    inner = torch.optim.SGD(net.parameters(), lr=0.1)
    container = Container(inner)
    with watched() as (_, outbox):
        for rate in (0.1, 0.2):
            inner.param_groups[0]["lr"] = rate
            _backward(net)
            container.step()
    assert [value for _, value in outbox.series("lr")] == [0.1, 0.2]


def test_a_recreated_optimizer_takes_over() -> None:
    """A new optimizer for the same parameters continues the count under the same names."""
    net = torch.nn.Linear(2, 1)
    first: torch.optim.Optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as (_, outbox):
        _backward(net)
        first.step()
        second = torch.optim.Adam(net.parameters(), lr=0.2)
        for _ in range(2):
            second.zero_grad()
            _backward(net)
            second.step()
    assert outbox.series("lr") == [(0, 0.1), (1, 0.2), (2, 0.2)]


def test_rates_of_every_kind_are_read() -> None:
    """Tensors, integers, absent rates and groups added later are read as they are used."""
    net, more = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    groups: list[dict[str, Any]] = [{"params": net.weight}, {"params": net.bias, "lr": 1}]
    each = torch.optim.SGD(groups, lr=torch.tensor(0.5))
    with watched() as (_, outbox):
        _backward(net)
        each.step()
        each.add_param_group({"params": more.parameters(), "lr": 0.25})
        each.param_groups[0]["lr"].mul_(0.5)
        _backward(net)
        each.step()
    assert outbox.series("lr") == [(0, 0.5), (1, 0.25)]
    assert outbox.series("lr/g1") == [(0, 1.0), (1, 1.0)]
    assert outbox.series("lr/g2") == [(1, 0.25)]


def test_an_optimizer_without_rates_reports_the_rest() -> None:
    """``lr`` None, as in Adafactor, is absent."""

    class Rateless(torch.optim.Optimizer):
        def step(self, closure: Any = None) -> Any:
            return None

    net = torch.nn.Linear(2, 1)
    each = Rateless(net.parameters(), {"lr": None})
    with watched() as (_, outbox):
        _backward(net)
        each.step()
    assert "lr" not in outbox.records[0]
    assert outbox.records[0]["loss_n"] == 1.0


def test_a_watched_optimizer_can_die() -> None:
    """The hook keeps neither optimizer nor parameters alive."""
    net = torch.nn.Linear(2, 1)
    each = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as (run, _):
        _backward(net)
        each.step()
        gone: list[Any] = [weakref.ref(each), weakref.ref(net.weight)]
        del each, net
        gc.collect()
        assert [one() for one in gone] == [None, None]
        assert not run._ledger.trackers or all(one.ref() is not None for one in run._ledger.trackers.values())


def test_frozen_parameters_do_not_hide_the_loss() -> None:
    """With a frozen backbone in the optimizer's groups, the loss is still assigned to it."""
    frozen, head = torch.nn.Linear(2, 2).requires_grad_(False), torch.nn.Linear(2, 1)
    each = torch.optim.SGD([*frozen.parameters(), *head.parameters()], lr=0.1)
    other = torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.2)
    with watched() as (_, outbox):
        head(frozen(torch.ones(2))).sum().backward()
        each.step()
    assert outbox.series("loss_n") == [(0, 1.0)]
    assert other is not None


@pytest.mark.skipif(torch_is_before(2, 2), reason="torch before 2.2 compiles the step without its hooks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_step_inside_a_compiled_function_is_seen() -> None:
    """``torch.compile`` around the step leaves its hooks outside the graph, and they fire."""
    net = torch.nn.Linear(2, 1)
    each = torch.optim.SGD(net.parameters(), lr=0.1)
    compiled = torch.compile(each.step, backend="eager")
    with watched() as (_, outbox):
        for _ in range(3):
            _backward(net)
            compiled()
    assert len(outbox.series("stepped")) == 3


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zeroing_between_generator_and_critic_is_no_abandoned_step(set_to_none: bool) -> None:
    """The critic's gradients from the generator's loss are dropped on purpose, before or after the step."""
    nets = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)]
    opt_g, opt_d = (torch.optim.SGD(net.parameters(), lr=0.1) for net in nets)
    with watched() as (_, outbox):
        for k in range(4):
            nets[1](torch.ones(2)).sum().backward()
            opt_d.step()
            opt_g.zero_grad(set_to_none=set_to_none)
            nets[1](nets[0](torch.ones(2))).sum().backward()
            if k % 2:
                opt_d.zero_grad(set_to_none=set_to_none)
                opt_g.step()
            else:
                opt_g.step()
                opt_d.zero_grad(set_to_none=set_to_none)
    assert [value for _, value in outbox.series("stepped")] == [1.0] * 4
    assert [value for _, value in outbox.series("stepped/opt2")] == [1.0] * 4
    assert [value for _, value in outbox.series("loss_n")] == [1.0] * 4


def test_the_step_after_one_that_raised_is_recorded() -> None:
    """An error in the script's own step hook, which it handles, hides no later step."""
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters())
    fails = iter((True, False, False))

    def check(*_: Any) -> None:
        if next(fails):
            raise ValueError("the script's own hook")

    optimizer.register_step_pre_hook(check)
    with watched() as (_, outbox):
        for factor in (1.0, 2.0, 3.0):
            optimizer.zero_grad()
            (net(torch.ones(2)).sum() * 0 + factor).backward()
            with contextlib.suppress(ValueError):
                optimizer.step()
    assert outbox.series("loss") == [(0, 2.0), (1, 3.0)]
