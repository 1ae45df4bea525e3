"""One shard of the data has a broken sample: the problem recurs with it, and the shard is named."""

from __future__ import annotations

import math

import torch

from tests.scenarios.evaluation import EvaluatedRun, evaluated, per_variant, seeded, trained
from tocsin.api.run import Run

SHARDS, BROKEN, EPOCHS = 550, 333, 4


def train(run: Run, checked: bool) -> None:
    """Train on all shards in each epoch; a scaler skips the update of the broken one."""
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8)
    draw = torch.Generator().manual_seed(seeded(6))
    for _ in range(EPOCHS):
        for shard in range(SHARDS):
            x = torch.randn(16, 4, generator=draw)
            if shard == BROKEN:
                x[3, 2] = math.nan
            run.batch({"shard": shard})
            if checked:
                run.check(batch={"features": x})
            optimizer.zero_grad()
            scaler.scale((net(x) - 1.0).pow(2).mean()).backward()
            scaler.step(optimizer)
            scaler.update()


@per_variant
def outcome(checked: bool) -> EvaluatedRun:
    return evaluated(trained(lambda run: train(run, checked)))


def test_the_shard_that_recurs_is_named() -> None:
    """After three epochs, with the steps at which it occurred; no other rule identifies the data."""
    alert = outcome(False).of("bad-shard")
    assert f"started with shard {BROKEN}" in alert.summary
    assert str(BROKEN + 2 * SHARDS) in alert.summary
    assert alert.diagnosis.cause == f"Likely the data: an alert starts whenever shard {BROKEN} is read."


def test_the_broken_input_is_named_by_kind() -> None:
    """At the first occurrence: which tensor, and how many of its elements are NaN."""
    alert = outcome(True).of("nonfinite-input")
    assert alert.onset_step == BROKEN
    assert any("features: 1 NaN of 64" in str(one.value) for one in alert.diagnosis.evidence)
