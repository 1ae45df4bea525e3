"""The first post-mortem: a learning rate that is too high, and a frequency loss that fp16 cannot hold."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch

from tests.scenarios.judging import Training, Verdict, Wire, judged, trained
from tocsin.run import Run
from tocsin_server.demo.trainings import deblur
from tocsin_server.domain import Severity

STEPS, HEALTHY_STEPS = 640, 200
SOUND_RATE = deblur.PEAK_LR / 60


def training(rate: float, steps: int) -> Training:
    """The demo's restorer, data and losses, with a rate of our own."""

    def train(run: Run) -> None:
        torch.manual_seed(2)
        draw = torch.Generator().manual_seed(2)
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

    return train


@cache
def wire(sound: bool) -> Wire:
    rate, steps = (SOUND_RATE, HEALTHY_STEPS) if sound else (deblur.PEAK_LR, STEPS)
    return trained(training(rate, steps))


@cache
def verdict(sound: bool) -> Verdict:
    return judged(wire(sound))


def test_a_sixtieth_of_the_rate_alarms_nobody() -> None:
    """The same model, data and losses: no warning at a rate that the frequency loss can bear."""
    assert verdict(True).grave == []


def test_collapse_comes_first() -> None:
    """The scaler's collapse and bursts are critical before the loss stops being finite for good."""
    rules = verdict(False).rules
    assert rules[0] in ("scaler-collapse", "scaler-overflow-burst")
    assert rules.index("scaler-collapse") < rules.index("nonfinite-loss")
    assert verdict(False).of("scaler-collapse").severity is Severity.CRITICAL


def test_the_onset_is_the_first_burst() -> None:
    """Told from the first skipped step after hundreds of healthy ones, while the loss was still finite."""
    first = next(step for step, skipped in wire(False).series("skipped") if skipped)
    bad = next(step for step, loss in wire(False).series("loss") if not math.isfinite(loss))
    assert verdict(False).of("scaler-collapse").onset_step == first
    assert 300 < first < bad


@pytest.mark.parametrize("rule", ["scaler-collapse", "nonfinite-loss", "nonfinite-grad-norm"])
def test_the_learning_rate_is_the_first_cause(rule: str) -> None:
    """Loss and norm rose before anything overflowed; the operation in fp16 is what else may explain it."""
    found = verdict(False).of(rule).diagnosis
    assert found.cause.startswith("Likely a learning rate that is too high")
    assert found.remedies[0].text.startswith("Lower the learning rate")
    assert any("autocast" in remedy.code for remedy in found.remedies)


def test_the_story_begins_with_the_episode() -> None:
    """A clip that never acts was told at the start; it is no part of the collapse hundreds of steps later."""
    story = verdict(False).of("scaler-collapse").diagnosis.story
    assert verdict(False).of("clip-ineffective").onset_step == 9
    assert story[0][0] > 300
