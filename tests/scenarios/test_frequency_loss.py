"""The first post-mortem: a learning rate that is too high, and a frequency loss that overflows fp16."""

from __future__ import annotations

import math

import pytest
import torch

from tests.matrix import ALL
from tests.scenarios.evaluation import EvaluatedRun, Training, Wire, evaluated, per_variant, seeded, trained
from tocsin.api.run import Run
from tocsin_server.core.models import Severity
from tocsin_server.demo.trainings import deblur
from tocsin_server.offline.grouping import cause_groups

pytestmark = pytest.mark.skipif(
    not ALL, reason="long: make test-all; tests/demo/test_deblur.py is the short one"
)
LONGEST, HEALTHY_STEPS = 1000, 200
COLLAPSED = 2.0**-20
"""The scale at which the training is ended. At which step that is depends on the seed and on the CPU."""
SOUND_RATE = deblur.PEAK_LR / 60


def training(rate: float, steps: int) -> Training:
    """Return the demo's restorer, data and losses, with the given rate."""

    def train(run: Run) -> None:
        torch.manual_seed(seeded(2))
        draw = torch.Generator().manual_seed(seeded(2))
        sharp = deblur.scenes(draw)
        blurred = deblur.motion_blur(sharp)
        model = deblur.Restorer()
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
        warmup = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1.0, (step + 1) / deblur.WARMUP_STEPS)
        )
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(steps):
            batch = torch.randint(deblur.SCENES, (deblur.BATCH,), generator=draw)
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                pixel, frequency = deblur.objective(model(blurred[batch]), sharp[batch])
                loss = pixel + frequency
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), deblur.MAX_GRAD_NORM)
            scaler.step(optimizer)
            scaler.update()
            warmup.step()
            if scaler.get_scale() < COLLAPSED:
                break

    return train


@per_variant
def wire(sound: bool) -> Wire:
    rate, steps = (SOUND_RATE, HEALTHY_STEPS) if sound else (deblur.PEAK_LR, LONGEST)
    return trained(training(rate, steps))


@per_variant
def outcome(sound: bool) -> EvaluatedRun:
    return evaluated(wire(sound))


def test_a_sixtieth_of_the_rate_raises_no_alert() -> None:
    """The same model, data and losses: no warning at a rate that the frequency loss tolerates."""
    assert outcome(True).severe == []


def test_the_collapse_is_the_root() -> None:
    """Critical, and named first. The order in which rules of the chain fire depends on rounding."""
    assert outcome(False).of("scaler-collapse").severity is Severity.CRITICAL
    assert "scaler-overflow-burst" in outcome(False).rules
    assert cause_groups(outcome(False).alerts)[0].head.rule == "scaler-collapse"


def test_the_onset_is_the_first_burst() -> None:
    """It is the first skipped step after hundreds of healthy ones, while the loss was finite."""
    onset = outcome(False).of("scaler-collapse").onset_step
    skipped = [step for step, value in wire(False).series("skipped") if value]
    bad = [step for step, loss in wire(False).series("loss") if not math.isfinite(loss)]
    assert onset in skipped
    assert not any(onset - 100 <= step < onset for step in skipped)
    assert onset > HEALTHY_STEPS
    assert not any(HEALTHY_STEPS < step < onset for step in bad)


def test_every_alert_of_the_chain_names_the_learning_rate() -> None:
    """Loss and norm rose around the first overflow; the fp16 operation is the alternative cause."""
    for alert in outcome(False).severe:
        found = alert.diagnosis
        assert found.cause.startswith("Likely a learning rate that is too high"), alert.rule
        assert found.remedies[0].text.startswith("Divide the learning rate")
        assert any("autocast" in remedy.code for remedy in found.remedies)


def test_the_story_begins_with_the_episode() -> None:
    """A clip that never acts was reported at the start; it is not part of the collapse hundreds of steps
    later."""
    collapse = outcome(False).of("scaler-collapse")
    assert (outcome(False).of("clip-ineffective").onset_step or 0) < HEALTHY_STEPS / 2
    assert collapse.diagnosis.timeline[0][0] > HEALTHY_STEPS / 2
