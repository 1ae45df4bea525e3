"""Periodic checks find non-finite weights without a call of the script."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.hook.capture.test_staging import NoSync
from tests.hook.captured import KeptOutbox, watched
from tocsin.api.run import Run
from tocsin.capture.weights import EVERY, NAME, RAREST, SHARE, nonfinite_weights, rarer


def _train(
    steps: int, spoil: Callable[[nn.Linear], None], script: Callable[[Run], None] | None = None
) -> KeptOutbox:
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    with watched() as (run, outbox):
        run._ledger.weights._every = EVERY
        for step in range(steps):
            if step == steps // 2:
                spoil(net)
            optimizer.zero_grad()
            net(torch.ones(2)).sum().backward()
            optimizer.step()
            if script is not None and step == 0:
                script(run)
    return outbox


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e38])
def test_every_256_steps_the_weights_are_looked_at(value: float) -> None:
    """One element is enough; a large number does not count. The result is sent with the next step."""

    def spoil(net: nn.Linear) -> None:
        with torch.no_grad():
            net.weight[1, 0] = value

    outbox = _train(EVERY + 2, spoil)
    assert outbox.series(NAME) == [(EVERY, float(not math.isfinite(value)))]
    assert len(outbox.items) == EVERY + 2


def test_the_scripts_own_look_ends_ours() -> None:
    """The script's ``run.check(weights=...)`` replaces the hook's check."""
    outbox = _train(EVERY + 2, lambda net: None, lambda run: run.check(weights=nn.Linear(1, 1)))
    assert outbox.series(NAME) == [(0, 0.0)]


def test_a_look_that_costs_more_than_its_share_is_made_rarer() -> None:
    """Powers of two, down to a bound; a cheap one stays as it is."""
    assert rarer(EVERY, 1, 1000) == EVERY
    assert rarer(EVERY, 40, 1000) == 4 * EVERY
    assert SHARE == 0.01
    assert rarer(EVERY, 10**9, 1) == RAREST


def test_a_device_is_not_waited_for() -> None:
    """The result is a scalar on the device."""
    with watched() as (run, _), torch.no_grad(), FakeTensorMode(), NoSync():  # type: ignore[no-untyped-call]
        params = [
            nn.Parameter(torch.empty(3, device="cuda", dtype=kind)) for kind in (torch.float32, torch.float16)
        ]
        run._ledger.trackers.clear()  # those of other tests that are still alive have real tensors
        optimizer = torch.optim.SGD(params, lr=0.1)
        run._ledger.tracker(optimizer)
        flag = nonfinite_weights(run._ledger)
    assert (flag.device.type, flag.shape) == ("cuda", ())
