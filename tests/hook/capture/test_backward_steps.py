"""Optimizers that step inside a backward make one step together."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from tests.hook.captured import watched
from tests.hook.truth import torch_is_before
from tocsin.capture.backward_steps import joined

pytestmark = pytest.mark.skipif(torch_is_before(2, 1), reason="torch before 2.1 has no such hook")


def _each(net: nn.Module, rates: list[float]) -> dict[Any, Any]:
    """One optimizer per parameter, stepped from the parameter's hook, which torch keeps."""
    pairs = zip(net.parameters(), rates, strict=True)
    each: dict[Any, Any] = {param: torch.optim.SGD([param], lr=lr) for param, lr in pairs}

    def step(param: torch.Tensor) -> None:
        each[param].step()
        each[param].zero_grad()

    for param in each:
        param.register_post_accumulate_grad_hook(step)
    return each


@pytest.mark.parametrize(
    ("rates", "names"), [([0.1, 0.1], {"lr": 0.1}), ([0.1, 0.2], {"lr": 0.2, "lr/g1": 0.1})]
)
def test_a_backward_is_one_record(rates: list[float], names: dict[str, float]) -> None:
    """One loss, one norm of all gradients; rates: one where all agree, else one each."""
    net = nn.Linear(2, 1)
    each = _each(net, rates)
    with watched(grad_norm=1) as (_, outbox):
        for _ in range(3):
            net(torch.ones(2)).sum().backward()
    each.clear()
    records = outbox.records
    assert [record["step"] for record in records] == [0, 1, 2]
    assert all(record["loss_n"] == 1.0 for record in records)
    assert records[1]["grad_norm"] == pytest.approx(math.sqrt(3))
    found = {name: value for name, value in records[-1].items() if name.startswith("lr")}
    assert sorted(found.values()) == sorted(names.values())
    assert found.keys() == names.keys()


def test_a_total_norm_needs_all_its_parts() -> None:
    """The root of the sum of squares; without a part there is none, and NaN stays NaN."""
    assert joined([3.0, 4.0]) == 5.0
    assert joined([3.0, None]) is None
    assert math.isnan(joined([3.0, math.nan]))
    assert joined([torch.tensor(3.0), torch.tensor(4.0)]) == 5.0
