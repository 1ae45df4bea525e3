"""The second post-mortem: a ``continue`` on an infinite norm of scaled gradients bypasses ``update()``."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.matrix import LONG
from tests.scenarios.evaluation import EvaluatedRun, Training, Wire, evaluated, per_variant, seeded, trained
from tocsin.api.run import Run
from tocsin_server.core.models import Severity
from tocsin_server.detect.interface.similar_runs import SimilarRun

STEPS = 400
WIDTH, CLASSES, BATCH = 32, 16, 32
GROWTH_INTERVAL = 50
"""Growth interval: short, as in the post-mortem, so that the scale soon grows until a gradient overflows."""


def batches(steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield inputs [BATCH, WIDTH] of one class each."""
    draw = torch.Generator().manual_seed(seeded(1))
    centres = torch.randn(CLASSES, WIDTH, generator=draw)
    for _ in range(steps):
        target = torch.randint(CLASSES, (BATCH,), generator=draw)
        yield centres[target] + torch.randn(BATCH, WIDTH, generator=draw), target


def classifier() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, CLASSES))


def training(how: str, steps: int = STEPS) -> Training:
    """``how``: wired, bypassed (norm of scaled gradients), unscaled (bypassed after ``unscale_``)."""

    def train(run: Run) -> None:
        model = classifier()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        scaler = torch.amp.GradScaler("cpu", growth_interval=GROWTH_INTERVAL)
        for inputs, target in batches(steps):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = cross_entropy(model(inputs).float(), target)
            scaler.scale(loss).backward()
            if how != "bypassed":
                scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0 if how != "bypassed" else 1e6)
            if how != "wired" and not torch.isfinite(norm):
                continue
            scaler.step(optimizer)
            scaler.update()

    return train


@per_variant
def wire(how: str) -> Wire:
    return trained(training(how))


@per_variant
def outcome(how: str) -> EvaluatedRun:
    return evaluated(wire(how))


@LONG
def test_a_correct_scaler_raises_no_alert() -> None:
    """The same training, with its sawtooth of growth and backoff, raises no alert."""
    assert 1.0 in dict(wire("wired").series("skipped")).values()
    assert outcome("wired").severe == []


def test_steps_are_abandoned_at_a_constant_scale() -> None:
    """Once gradients overflow, they continue to: most later steps are abandoned, and the scale never
    falls."""
    stepped = [value for _, value in wire("bypassed").series("stepped")[-60:]]
    scales = [value for _, value in wire("bypassed").series("scale")]
    assert sum(stepped) < 30
    assert scales == sorted(scales)


def test_the_scaler_that_is_not_wired_is_named_first() -> None:
    """The first critical alert has the cause and the corrected loop; later alerts share the cause."""
    first, second = [alert for alert in outcome("bypassed").alerts if alert.severity is Severity.CRITICAL]
    assert (first.rule, second.rule) == ("scaler-not-updating", "nonfinite-grad-norm")
    assert first.diagnosis.cause == second.diagnosis.cause
    assert "cannot back off" in first.diagnosis.cause
    assert "scaler.update()" in first.diagnosis.remedies[0].code


def test_clipping_of_scaled_gradients_is_reported() -> None:
    """The measurement error that caused it: a norm taken before ``unscale_``."""
    assert "before scaler.unscale_()" in outcome("bypassed").of("scaled-grad-norm").diagnosis.cause


def test_with_unscale_the_run_fails() -> None:
    """The step after the abandoned one raises in ``unscale_``, and the run ends as failed."""
    ended = wire("unscaled")
    assert ended.failure is not None
    assert ended.failure["type"] == "RuntimeError"
    assert "unscale_() has already been called" in ended.failure["message"]
    assert ended.series("stepped")[-1][1] == 0.0


def test_four_processes_say_the_same() -> None:
    """If every rank logs what rank 0 logs, one alert reports duplicates; the healthy run stays healthy."""
    found = evaluated(*[wire("wired")] * 4)
    assert found.rules == ["duplicate-steps"]
    assert "4" in found.severe[0].summary


def test_a_run_four_times_slower_than_its_sibling() -> None:
    """Slow training is reported if a similar run is four times faster, but not if it is equally fast."""
    usual = median(seconds for _, seconds in wire("wired").series("step_time"))
    assert evaluated(wire("wired"), siblings=[sibling(usual)]).severe == []
    found = evaluated(wire("wired"), siblings=[sibling(usual / 4)])
    assert found.rules == ["throughput-regression"]
    assert "faster in similar runs" in found.severe[0].diagnosis.cause


def sibling(step_time_s: float) -> SimilarRun:
    return SimilarRun("r0", "before", "finished", step_time_s=step_time_s)
