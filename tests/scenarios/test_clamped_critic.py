"""The third post-mortem: a WGAN critic without normalization behind a hard clamp."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.matrix import LONG
from tests.scenarios.evaluation import EvaluatedRun, Training, Wire, evaluated, per_variant, seeded, trained
from tocsin.api.run import Run
from tocsin_server.core.models import Severity
from tocsin_server.detect.interface.similar_runs import SimilarRun

STEPS = 500
BATCH, NOISE = 32, 8
LIMIT = 1000.0
RATE, SIBLINGS_RATE, TOO_LOW = 2e-4, 1e-3, 1e-5
"""Learning rates of the healthy twin and earlier runs, and of the failing run (a hundredth)."""


class Critic(nn.Module):
    """Scores of points [n, 2]; bounded by LayerNorm and tanh, or clamped at LIMIT."""

    def __init__(self, sound: bool) -> None:
        super().__init__()
        self.sound = sound
        norm = nn.LayerNorm if sound else nn.Identity
        self.score = nn.Sequential(
            nn.Linear(2, 64), norm(64), nn.LeakyReLU(0.2), nn.Linear(64, 64), norm(64), nn.LeakyReLU(0.2),
            nn.Linear(64, 1),
        )  # fmt: skip
        if not sound:
            linear = [module for module in self.score if isinstance(module, nn.Linear)]
            nn.init.normal_(linear[0].weight, std=20.0)
            nn.init.normal_(linear[1].weight, std=4.0)

    def forward(self, points: Tensor) -> Tensor:
        score: Tensor = torch.nan_to_num(self.score(points))
        return 100.0 * torch.tanh(score / 100.0) if self.sound else score.clamp(-LIMIT, LIMIT)


def generator(sound: bool) -> nn.Module:
    """Return a generator of points [n, 2]. Badly initialized, they are far from the real ones and easy to
    detect."""
    head = nn.Linear(64, 2)
    if not sound:
        nn.init.constant_(head.bias, -3.0)
    return nn.Sequential(nn.Linear(NOISE, 64), nn.LayerNorm(64), nn.ReLU(), head)


def crescent(draw: torch.Generator) -> Tensor:
    """Return real points [BATCH, 2], on a quarter of a circle of radius 3."""
    angle = 1.5708 * torch.rand(BATCH, generator=draw)
    noise = 0.1 * torch.randn(BATCH, 2, generator=draw)
    return 3 * torch.stack([angle.cos(), angle.sin()], dim=1) + noise


def update(network: nn.Module, optimizer: torch.optim.Optimizer, loss: Tensor, clip: float) -> None:
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), clip)
    optimizer.step()


def training(sound: bool) -> Training:
    def train(run: Run) -> None:
        draw = torch.Generator().manual_seed(seeded(3))
        networks = {"critic": Critic(sound), "generator": generator(sound)}
        rate, clip = (RATE, 10.0) if sound else (TOO_LOW, 1e7)
        family = torch.optim.Adam if sound else torch.optim.SGD
        optimizers = {
            "critic": family(networks["critic"].parameters(), lr=rate),
            "generator": torch.optim.Adam(networks["generator"].parameters(), lr=rate),
        }
        critic = networks["critic"]
        for step in range(STEPS):
            noise = torch.randn(BATCH, NOISE, generator=draw)
            fake, real = networks["generator"](noise), crescent(draw)
            loss = 0.5 * (critic(fake.detach()).mean() - critic(real).mean())
            update(critic, optimizers["critic"], loss, clip)
            update(networks["generator"], optimizers["generator"], -critic(fake).mean(), clip)
            if step % 100 == 0:
                run.log(nan_to_num=float(nodes_called("NanToNum", loss)))

    return train


def nodes_called(name: str, loss: Tensor) -> int:
    """Return how many nodes of the loss's graph are of that kind."""
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [follower for follower, _ in node.next_functions]
    return sum(name in type(node).__name__ for node in seen)


@per_variant
def wire(sound: bool) -> Wire:
    return trained(training(sound))


@per_variant
def outcome(sound: bool) -> EvaluatedRun:
    healthy = SimilarRun("r0", "healthy", "finished", peak_lr=SIBLINGS_RATE)
    return evaluated(wire(sound), siblings=[healthy])


@LONG
def test_the_healthy_twin_raises_no_alert() -> None:
    """With normalization, a soft bound, small weights and a suitable rate, no alert fires."""
    assert outcome(True).severe == []


def test_both_losses_end_at_the_clamp() -> None:
    """The losses stay at minus and plus the clamp; the graph has nodes that can hide NaN."""
    assert wire(False).series("loss")[-1][1] == pytest.approx(-LIMIT)
    assert wire(False).series("loss/generator")[-1][1] == pytest.approx(LIMIT)
    assert min(count for _, count in wire(False).series("nan_to_num")) >= 1


@pytest.mark.parametrize("subject", ["loss", "loss/generator"])
def test_the_clamp_is_named_for_both_losses(subject: str) -> None:
    """Each alert is critical and names the round number, the clamp and the mirrored loss."""
    found = outcome(False).of("loss-saturated", subject)
    assert found.severity is Severity.CRITICAL
    assert "a clamp" in found.diagnosis.cause
    assert "torch.tanh" in found.diagnosis.remedies[0].code


def test_the_mirror_image_is_seen() -> None:
    """The loss that saturated last is reported to equal the negative of the other."""
    causes = [alert.diagnosis.cause for alert in outcome(False).alerts if alert.rule == "loss-saturated"]
    assert any("the same number with the opposite sign" in cause for cause in causes)


def test_a_gradient_of_zero_is_explained_by_the_clamp() -> None:
    """The loss is constant at a round number, so the cause is not a detached graph."""
    assert "clamp" in outcome(False).of("zero-grad-norm").diagnosis.cause


def test_the_rate_is_seen_beside_its_siblings() -> None:
    """A hundred times lower than in similar runs; this alone raises no alert."""
    found = outcome(False).of("lr-out-of-range", "lr")
    assert (found.severity, "100x lower" in found.summary) == (Severity.INFO, True)


def test_a_rate_that_is_too_low_is_not_to_be_lowered() -> None:
    """Once that is known, no remedy suggests the opposite."""
    known = [alert for alert in outcome(False).alerts if "similar runs" in str(alert.diagnosis.timeline)]
    assert len(known) >= 3
    assert not any("Divide the learning rate" in str(alert.diagnosis.remedies) for alert in known)


@LONG
def test_an_ineffective_clip_is_reported() -> None:
    """A threshold of 1e7, above all gradients, is info with a suggested value."""
    found = [alert for alert in outcome(False).alerts if alert.rule == "clip-ineffective"]
    assert {alert.severity for alert in found} == {Severity.INFO}
    assert found[0].summary.startswith("Clipping threshold 1e7 has no effect")
    assert not [alert for alert in outcome(True).alerts if alert.rule == "clip-ineffective"]
