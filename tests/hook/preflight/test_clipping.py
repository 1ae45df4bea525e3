"""Clipping thresholds that never or always have an effect."""

from __future__ import annotations

import math

import pytest
import torch

from tests.hook.captured import watched
from tests.hook.preflight.checked import found, net
from tocsin.preflight.clipping import check_constant


@pytest.mark.parametrize(("clip", "word"), [(1e9, "never clips"), (1e-9, "clips at all")])
def test_a_clip_that_never_or_always_acts(clip: float, word: str) -> None:
    """It is reported as info after 50 norms, because the first norms of a run are larger."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with watched(model=model) as (run, outbox):
        for _ in range(60):
            optimizer.zero_grad()
            model(torch.ones(4, 6)).mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
        assert run._reporter._observers == ()
    (finding,) = found(outbox, "clip-threshold", "clip")
    assert word in finding["got"]
    assert finding["severity"] == "info"


def test_constant_norms_were_measured_after_a_clip() -> None:
    """If a script scales its gradients by hand, the measured norm is the threshold: this is reported."""
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    with watched(grad_norm=1) as (_, outbox):
        for _ in range(12):
            optimizer.zero_grad()
            net(torch.randn(4, 2)).pow(2).mean().backward()
            grads = [param.grad for param in net.parameters() if param.grad is not None]
            total = torch.stack([grad.norm() for grad in grads]).norm()
            for grad in grads:
                grad.mul_(1e-3 / total)
            optimizer.step()
    (event,) = [one for one in outbox.events("preflight") if one["stage"] == "norm"]
    assert event["findings"][0]["check"] == "constant-norm"


def test_norms_that_differ_cause_no_finding() -> None:
    """An ordinary training."""
    assert check_constant([1.0, 1.1, 1.0, 1.2]) is None
    assert check_constant([0.0] * 8) is None
    assert check_constant([math.nan] * 8) is None
