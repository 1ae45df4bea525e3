"""The fourth post-mortem: a norm measured after ``zero_grad``, and unintended warm restarts."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from tests.scenarios.evaluation import EvaluatedRun, Training, Wire, evaluated, per_variant, seeded, trained
from tocsin.api.run import Run
from tocsin_server.core.models import Severity
from tocsin_server.detect.interface.similar_runs import SimilarRun

STEPS = 640
WARMUP, BOTTOM, PEAK = 20, 300, 583
"""Steps of the first peak, of the lowest rate and of the second peak, as in the post-mortem."""
RATE, LOWEST = 0.3, 0.03
WIDTH, BATCH = 16, 32
LOUD = 3.5
"""Factor by which inputs grow until BOTTOM, so that the second peak diverges although the first did not."""


def restarting(step: int) -> float:
    """Return the rate at a step: a cosine meant for epochs, stepped once per batch, that restarts."""
    if step < WARMUP:
        return RATE * (step + 1) / WARMUP
    half = (step - WARMUP) / (BOTTOM - WARMUP) if step < BOTTOM else 1 + (step - BOTTOM) / (PEAK - BOTTOM)
    return LOWEST + (RATE - LOWEST) * 0.5 * (1 + math.cos(math.pi * half))


def decaying(step: int) -> float:
    """Return the intended schedule: warm-up, then one cosine down to a hundredth, at a stable rate."""
    warm = min(1.0, (step + 1) / WARMUP)
    return 0.05 * warm * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / STEPS)))


def training(schedule: str, measured: str = "after") -> Training:
    """``schedule``: restarting, decaying, removed at BOTTOM; ``measured``: norm after or before zero_grad."""

    def train(run: Run) -> None:
        draw = torch.Generator().manual_seed(seeded(5))
        model = nn.Sequential(nn.Linear(WIDTH, 32), nn.Linear(32, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        for step in range(STEPS):
            removed = schedule == "removed" and step >= BOTTOM
            rate = restarting(step) if schedule == "restarting" else decaying(step)
            optimizer.param_groups[0]["lr"] = 0.0 if removed else rate
            louder = 1.0 + (LOUD - 1.0) * min(1.0, max(0, step - 50) / (BOTTOM - 50))
            inputs = louder * torch.randn(BATCH, WIDTH, generator=draw)
            target = inputs.mean(dim=1, keepdim=True) + 0.1 * torch.randn(BATCH, 1, generator=draw)
            loss = mse_loss(model(inputs), target)
            loss.backward()
            if measured == "before":
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1e3)
            optimizer.step()
            optimizer.zero_grad()
            if measured == "after":
                norm = torch.nn.utils.get_total_norm(
                    [p.grad for p in model.parameters() if p.grad is not None]
                )
                run.log(grad_norm=float(norm))

    return train


@per_variant
def wire(schedule: str, measured: str = "after") -> Wire:
    return trained(training(schedule, measured), grad_norm=False)


@per_variant
def outcome(schedule: str, measured: str = "after") -> EvaluatedRun:
    return evaluated(wire(schedule, measured), planned_steps=STEPS)


def test_the_intended_schedule_raises_no_alert() -> None:
    """The same data with one cosine and a norm taken before zero_grad raises no alert."""
    assert outcome("decaying", "before").severe == []


def test_the_loss_explodes_in_the_rise() -> None:
    """The run is healthy past the first peak, and non-finite before the rate reaches the second."""
    bad = [step for step, loss in wire("restarting").series("loss") if not math.isfinite(loss)]
    assert BOTTOM < bad[0] < PEAK


def test_measurement_restart_and_explosion_are_reported() -> None:
    """The measurement error exists from the start; the loss may diverge before the restart is certain."""
    rules = outcome("restarting").rules
    assert rules[0] == "norm-after-zero"
    assert {"lr-restart", "nonfinite-loss", "nonfinite-weights"} <= set(rules)


def test_the_zero_norm_is_a_fault_of_measurement() -> None:
    """A norm logged after zero_grad is identified while the loss changes, with the order of calls to
    paste."""
    found = outcome("restarting").of("norm-after-zero")
    assert "measurement error" in found.diagnosis.cause
    assert "clip_grad_norm_" in found.diagnosis.remedies[0].code


@pytest.mark.parametrize("rule", ["nonfinite-loss", "nonfinite-weights"])
def test_the_restart_is_the_first_cause(rule: str) -> None:
    """The rise is reported from its lowest rate on. First stop, then check the schedule."""
    found = outcome("restarting").of(rule).diagnosis
    assert "the learning rate: it rose" in found.cause
    assert "the schedule starts over" in found.cause
    assert f"from step {BOTTOM}" in " ".join(sentence for _, sentence, _ in found.timeline)
    assert found.remedies[0].text.startswith("Stop. Resume from")
    assert "scheduler" in found.remedies[1].code


def test_the_story_is_in_order() -> None:
    """The timeline has the restart before the loss; its steps never decrease."""
    steps = [step for step, _, _ in outcome("restarting").of("nonfinite-loss").diagnosis.timeline]
    assert steps == sorted(steps)
    assert len(steps) > 2


def test_two_runs_failed_at_the_same_step() -> None:
    """If a second run of the same configuration failed there before, it is systematic."""
    failed = outcome("restarting").of("nonfinite-loss").onset_step
    assert failed is not None
    earlier = SimilarRun("r0", "before", "failed", failed_step=failed - 2, failure="nonfinite-loss")
    found = evaluated(wire("restarting"), siblings=[earlier]).of("same-step-failure")
    assert (found.severity, found.onset_step is not None) == (Severity.WARNING, True)
    assert "likely share the cause" in found.diagnosis.cause


def test_a_rate_of_zero_after_the_scheduler_was_removed() -> None:
    """Critical from that step on, with the schedule as its cause."""
    found = outcome("removed").of("zero-lr")
    assert (found.severity, found.onset_step) == (Severity.CRITICAL, BOTTOM)
    assert "set the learning rate to 0 in the middle of training" in found.diagnosis.cause


def test_equal_records_give_equal_text() -> None:
    """Evaluated twice, the alerts and diagnoses are the same."""
    again = evaluated(wire("restarting"), planned_steps=STEPS)
    # repr, because NaN in the evidence is not equal to itself
    assert repr(again.alerts) == repr(outcome("restarting").alerts)
