"""One training, one symptom, different causes: the first cause of the diagnosis changes with the cause."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.scenarios.evaluation import EvaluatedRun, Training, Wire, evaluated, per_variant, seeded, trained
from tocsin.api.run import Run

STEPS, TROUBLE = 260, 200
WIDTH, CLASSES, BATCH = 32, 16, 32
FIRST = {
    "rate": "Likely the learning rate",
    "data": "The batch itself contains non-finite values",
    "operation": "one operation that exceeds the range of fp16",
    "scaler": "The scaler is not informed of the overflows",
    "measurement": "Likely a measurement error",
}
"""Text of the first cause by the fault that was injected."""


def inputs_of(target: Tensor, draw: torch.Generator, *, poisoned: bool) -> Tensor:
    """Return inputs [BATCH, WIDTH], standardized; a poisoned batch has a sample that is constant."""
    centres = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(seeded(1)))
    inputs = centres[target] + torch.randn(BATCH, WIDTH, generator=draw)
    if poisoned:
        inputs[0] = inputs[0, 0]
    return (inputs - inputs[:, :1]) / (inputs - inputs[:, :1]).std(dim=1, keepdim=True)


def partition(outputs: Tensor) -> Tensor:
    """Return the log of the sum of exponentials, in half precision and without subtracting the maximum."""
    return (8 * outputs.half()).exp().sum(dim=1).log().mean()


def training(cause: str) -> Training:
    def train(run: Run) -> None:
        draw = torch.Generator().manual_seed(seeded(2))
        model = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, CLASSES))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10 if cause != "scaler" else 2.0**20)
        for step in range(STEPS):
            trouble = step >= TROUBLE
            if trouble and cause == "rate":
                optimizer.param_groups[0]["lr"] = 0.05 * 1.6 ** (step - TROUBLE)
            target = torch.randint(CLASSES, (BATCH,), generator=draw)
            inputs = inputs_of(target, draw, poisoned=trouble and cause == "data")
            run.check(batch=inputs)
            with torch.autocast("cpu", dtype=torch.float16):
                outputs = model(inputs)
                loss = cross_entropy(outputs.float(), target)
                if trouble and cause == "operation":
                    loss = loss + 1e-3 * partition(outputs).float()
            scaler.scale(loss).backward()
            if cause != "scaler":
                scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e4)
            if cause == "scaler" and not torch.isfinite(norm):
                optimizer.zero_grad()
                continue
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

    return train


def misread(what: str) -> Training:
    """The training is fine and reports its steps itself: ``what`` (norm, loss) is only reported wrongly."""

    def train(run: Run) -> None:
        draw = torch.Generator().manual_seed(seeded(2))
        model = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, CLASSES))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        for step in range(STEPS):
            trouble = step >= TROUBLE
            target = torch.randint(CLASSES, (BATCH,), generator=draw)
            each = cross_entropy(model(inputs_of(target, draw, poisoned=False)), target, reduction="none")
            each.mean().backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e4)
            optimizer.step()
            optimizer.zero_grad()
            if trouble and what == "norm":  # after zero_grad there is no gradient: the mean of nothing
                left = [p.grad.norm() for p in model.parameters() if p.grad is not None]
                norm = torch.tensor(left).mean()
            counted = torch.zeros(BATCH) if trouble and what == "loss" else torch.ones(BATCH)
            run.step(loss=(each.detach() * counted).sum() / counted.sum(), grad_norm=norm, lr=0.05)

    return train


@per_variant
def wire(cause: str) -> Wire:
    return trained(misread("norm") if cause == "measurement" else training(cause))


@per_variant
def outcome(cause: str) -> EvaluatedRun:
    return evaluated(wire(cause))


def thinned(cause: str, every: int) -> Wire:
    """Return the data of the same training with every ``every``-th record; its events stay."""
    kept = Wire()
    kept.failure = wire(cause).failure
    kept.in_order = [
        item for item in wire(cause).in_order if not isinstance(item[0], int) or item[0] % every == 0
    ]
    return kept


def test_the_unchanged_training_raises_no_alert() -> None:
    """Without a problem no alert fires."""
    assert outcome("none").severe == []


@pytest.mark.parametrize("cause", FIRST)
def test_the_first_cause_changes_with_the_cause(cause: str) -> None:
    """The gradient norm becomes non-finite each time; the diagnosis names what was changed, and nothing
    else."""
    named = outcome(cause).of("nonfinite-grad-norm").diagnosis.cause
    assert [name for name, words in FIRST.items() if words in named] == [cause]


def test_a_misreported_loss_is_distinguished_from_a_nan_loss() -> None:
    """A reported NaN with continuing gradients is distinguished from a loss that really is NaN."""
    diagnosis = evaluated(trained(misread("loss"))).of("nonfinite-loss").diagnosis
    assert diagnosis.cause.startswith("Likely a logging error")
    assert "backward()" in diagnosis.remedies[0].code
    others = [outcome(cause).of("nonfinite-loss").diagnosis for cause in ("rate", "data", "operation")]
    assert not any("logging" in " ".join([other.cause, *other.alternatives]) for other in others)


@pytest.mark.parametrize("cause", ["rate", "data", "operation"])
def test_every_alert_of_an_episode_has_its_cause(cause: str) -> None:
    """Collapse and non-finite loss have the same cause as the norm."""
    for rule in ("scaler-collapse", "nonfinite-loss"):
        assert FIRST[cause] in outcome(cause).of(rule).diagnosis.cause


@pytest.mark.parametrize("cause", ["rate", "data", "operation", "scaler"])
def test_the_cause_is_known_from_every_tenth_record(cause: str) -> None:
    """The learning rate is identified even if it rose between two records."""
    named = evaluated(thinned(cause, 10)).severe[0].diagnosis.cause
    assert [name for name, words in FIRST.items() if words in named] == [cause]
