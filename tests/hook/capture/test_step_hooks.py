"""Steps are captured even if torch has removed its optimizers' hooks, as 2.0 and 2.1 do at the first
compile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.hook.captured import watched
from tests.hook.truth import torch_is_before
from tocsin.capture.step_hooks import put_back


@pytest.fixture
def bare() -> Iterator[type[torch.optim.Optimizer]]:
    """``Adagrad`` as those versions leave it: the step below the hooks, called hooked."""
    cls: Any = torch.optim.Adagrad
    cls([torch.ones(1)])
    before = cls.step
    cls.step = before.__wrapped__
    cls.step.hooked = True
    yield cls
    cls.step = before


def _train(optimizer_class: Any) -> list[tuple[int, float]]:
    net = torch.nn.Linear(2, 1)
    optimizer = optimizer_class(net.parameters(), lr=0.25)
    with watched() as (_, outbox):
        for _ in range(2):
            net(torch.ones(2)).sum().backward()
            optimizer.step()
    return outbox.series("lr")


def test_hooks_that_were_taken_off_are_put_back(bare: Any) -> None:
    """Without the patch no step of that optimizer is seen; with it each step once."""
    if not torch_is_before(2, 2):
        assert _train(bare) == []
    put_back()
    assert _train(bare) == [(0, 0.25), (1, 0.25)]


def test_what_has_its_hooks_is_left_alone(bare: Any) -> None:
    """Twice is once, and the other optimizers' steps are the functions they were."""
    torch.optim.SGD([torch.ones(1)], lr=0.1)
    others: Any = torch.optim.SGD.step
    put_back()
    mine = bare.step
    put_back()
    assert (bare.step, torch.optim.SGD.step) == (mine, others)


def test_a_model_compiled_in_mid_training_hides_no_step() -> None:
    """The steps before and after the first ``torch.compile`` of a script are all there."""
    net: Any = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watched() as (_, outbox):
        for k in range(4):
            net = torch.compile(net, backend="eager") if k == 2 else net
            net(torch.ones(2)).sum().backward()
            optimizer.step()
    assert [step for step, _ in outbox.series("stepped")] == [0, 1, 2, 3]
