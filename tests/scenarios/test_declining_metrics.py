"""The fifth post-mortem: a scale of 2^21 with metrics that fall from their best at 2.5 % of the run."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import l1_loss, mse_loss

from tests.matrix import LONG
from tests.scenarios.evaluation import EvaluatedRun, Training, Wire, evaluated, per_variant, seeded, trained
from tocsin.api.run import Run
from tocsin_server.core.models import Severity

STEPS = 1600
RATE = 3e-3
"""Initial learning rate; it decays linearly to 0, as in most image trainings."""
EVALUATE_EVERY = 40
"""The best of the failing run comes with the first or second evaluation: at 2.5 or 5 % of its length."""
SIZE, BATCH, SEEN, NOISE = 8, 16, 2000, 0.5
GROWTH_INTERVAL = 300
"""Five doublings in 1500 updates, as 10 000 updates do it at torch's default of 2000."""


def pictures(count: int, draw: torch.Generator) -> Tensor:
    """Return smooth pictures [count, SIZE * SIZE] in 0..1."""
    axis = torch.linspace(0, 1, SIZE)
    phase, across, down = torch.rand(3, count, 1, 1, generator=draw)
    waves = torch.sin(6.28 * (across * axis[None, None, :] + down * axis[None, :, None] + phase))
    return (0.5 + 0.4 * waves).flatten(1)


def psnr(restored: Tensor, clean: Tensor) -> float:
    return -10 * math.log10(float(mse_loss(restored, clean)))


def ssim(restored: Tensor, clean: Tensor) -> float:
    """Return the structural similarity of whole pictures, mean of the batch (Wang et al. 2004, one
    window)."""
    ours, theirs = restored - restored.mean(1, keepdim=True), clean - clean.mean(1, keepdim=True)
    brightness = 2 * restored.mean(1) * clean.mean(1) + 1e-4
    structure = 2 * (ours * theirs).mean(1) + 9e-4
    over = (restored.mean(1) ** 2 + clean.mean(1) ** 2 + 1e-4) * (ours.var(1) + theirs.var(1) + 9e-4)
    return float((brightness * structure / over).mean())


def training(sound: bool) -> Training:
    """Restore pictures in fp16. The failing run is given the noisy pictures as targets.

    It learns the pictures first and their noise later, so its best metrics are early.
    """

    def train(run: Run) -> None:
        draw = torch.Generator().manual_seed(seeded(7))
        width = 64
        model = nn.Sequential(nn.Linear(SIZE**2, width), nn.ReLU(), nn.Linear(width, SIZE**2))
        optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
        scaler = torch.amp.GradScaler("cpu", growth_interval=GROWTH_INTERVAL)
        seen, unseen = pictures(SEEN, draw), pictures(64, draw)
        spoilt = unseen + NOISE * torch.randn(unseen.shape, generator=draw)
        fixed = seen + NOISE * torch.randn(seen.shape, generator=draw)
        wanted = seen if sound else fixed
        for step in range(STEPS):
            chosen = torch.randint(len(seen), (BATCH,), generator=draw)
            optimizer.param_groups[0]["lr"] = RATE * (1 - step / STEPS)
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = l1_loss(model(fixed[chosen]).float(), wanted[chosen])
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            if (step + 1) % EVALUATE_EVERY == 0:
                with torch.no_grad():
                    restored = model(spoilt)
                run.evaluate(
                    psnr=psnr(restored, unseen), ssim=ssim(restored, unseen), goal="max", unit={"psnr": "dB"}
                )

    return train


@per_variant
def wire(sound: bool) -> Wire:
    return trained(training(sound))


@per_variant
def outcome(sound: bool) -> EvaluatedRun:
    return evaluated(wire(sound), planned_steps=STEPS)


@LONG
def test_training_on_clean_pictures_raises_no_alert() -> None:
    """With clean pictures, the scale grows as high and the metrics stay near their best."""
    assert max(scale for _, scale in wire(True).series("scale")) == 2**21
    assert outcome(True).severe == []


def test_the_scale_alone_raises_no_alert() -> None:
    """A scale of 2^21 with nonzero gradients means that nothing overflowed: no rule warns of it."""
    assert max(scale for _, scale in wire(False).series("scale")) == 2**21
    assert min(norm for _, norm in wire(False).series("grad_norm")) > 0
    assert outcome(False).rules == ["metric-degradation"]


def test_the_decline_is_reported_from_the_best_value() -> None:
    """From the best evaluation on: within 5 % of the run, after which training made it worse.

    A warning, because by the metric alone this is no different from a model whose evaluation recovers later.
    """
    found = outcome(False).of("metric-degradation")
    assert found.severity is Severity.WARNING
    assert (found.onset_step or STEPS) < 0.05 * STEPS
    assert "The best value was so early" in found.diagnosis.cause


def test_the_training_loss_falls_all_the_while() -> None:
    """A monitor of the loss alone would show a healthy run."""
    losses = [loss for _, loss in wire(False).series("loss")]
    assert sum(losses[-100:]) < 0.3 * sum(losses[:100])
