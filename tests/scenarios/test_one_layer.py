"""One layer of a transformer-like stack whose gradients overflow: the timeline names it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.matrix import LONG
from tests.scenarios.evaluation import EvaluatedRun, Training, evaluated, per_variant, seeded, trained
from tocsin.api.run import Run
from tocsin_server.core.models import Severity

STEPS, GROWS, BREAKS = 300, 200, 260
"""The gradient that the second block hands on grows from one step on, and overflows at another."""


class Block(nn.Module):
    """A residual block; ``louder`` multiplies the gradient through its branch, not the values."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.louder = nn.Linear(8, 16), nn.Linear(16, 8), 1.0

    def forward(self, x: Tensor) -> Tensor:
        inside: Tensor = self.up(x).tanh()
        if self.louder != 1.0 and inside.requires_grad:
            louder = self.louder
            inside.register_hook(lambda grad: grad * louder)
        out: Tensor = x + self.down(inside)
        return out


def training(scaled: bool) -> Training:
    def train(run: Run) -> None:
        blocks = [Block() for _ in range(3)]
        stem, head = nn.Linear(4, 8), nn.Linear(8, 1)
        stack = nn.ModuleDict({"stem": stem, "blocks": nn.ModuleList(blocks), "head": head})
        optimizer = torch.optim.AdamW(stack.parameters(), lr=1e-4)
        scaler = torch.amp.GradScaler("cpu", enabled=scaled)
        draw = torch.Generator().manual_seed(seeded(4))
        for step in range(STEPS):
            if step >= GROWS:
                blocks[1].louder = math.inf if step >= BREAKS else 1.05 ** (step - GROWS)
            x = torch.randn(32, 4, generator=draw)
            h = stem(x)
            for block in blocks:
                h = block(h)
            loss = (head(h) - x.sum(1, keepdim=True)).pow(2).mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(stack.parameters(), 1e6)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

    return train


@per_variant
def outcome(scaled: bool) -> EvaluatedRun:
    return evaluated(trained(training(scaled)))


RULES = [(True, "scaler-overflow-burst"), (False, "nonfinite-grad-norm")]


@pytest.mark.parametrize(("scaled", "rule"), RULES)
def test_the_story_names_the_layer_and_the_step(scaled: bool, rule: str) -> None:
    """The non-finite layer nearest to the loss: the first linear layer of the second block."""
    alert = outcome(scaled).of(rule)
    facts = {one.name: one for one in alert.diagnosis.evidence}
    assert (facts["layer"].value, facts["layer"].step) == ("blocks.1.up.bias", BREAKS)
    assert facts["layers not finite"].unit == "of 16"
    (reported,) = [
        text for step, text, _ in alert.diagnosis.timeline if step == BREAKS and "blocks.1.up.bias" in text
    ]
    assert "those nearer to the loss are finite" in reported


@pytest.mark.parametrize(("scaled", "rule"), RULES)
def test_the_growth_before_is_reported_too(scaled: bool, rule: str) -> None:
    """The diagnosis has the factor over the usual level and the first step of the growth."""
    alert = outcome(scaled).of(rule)
    growth = next(one for one in alert.diagnosis.evidence if one.name == "layer growth")
    assert isinstance(growth.value, float)
    assert growth.value > 4
    assert growth.step is not None
    assert GROWS < growth.step < BREAKS
    assert any("blocks.1.up.bias grow" in text for _, text, _ in alert.diagnosis.timeline)


def test_no_critical_alert_fires_before() -> None:
    """The same stack raises no alert until the layer's gradients grow."""
    assert all(
        (alert.onset_step or 0) >= GROWS
        for alert in outcome(True).alerts
        if alert.severity is Severity.CRITICAL
    )


TRAINER = """
import torch, tocsin
from tests.scenarios.test_one_layer import training
torch.set_num_threads(1)
torch.manual_seed(0)
with tocsin.watch("tests", name="one-layer", exit_timeout=60) as run:
    training(True)(run)
"""


@LONG
def test_the_story_is_the_same_over_socket_and_store(shared_tower: Any) -> None:
    """The training in a separate process, with a server: alert, layer and norms in the API."""
    with shared_tower.training("-c", TRAINER) as process:
        assert process.wait(300) == 0
    run = shared_tower.run_named("one-layer")["id"]
    (alert,) = [one for one in shared_tower.alerts(run) if one["rule"] == "scaler-overflow-burst"]
    full = shared_tower.get(f"/alerts/{alert['id']}")
    facts = {one["name"]: (one["value"], one["step"]) for one in full["diagnosis"]["evidence"]}
    assert facts["layer"] == ("blocks.1.up.bias", BREAKS)
    assert alert["onset_step"] == BREAKS
    skipped = [r["step"] for r in shared_tower.records(run) if r["values"].get("skipped") == 1]
    assert skipped == list(range(BREAKS, STEPS))
