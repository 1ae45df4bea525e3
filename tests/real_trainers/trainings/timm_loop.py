"""A loop of the parts of timm's ``train.py``: optimizer, schedule, EMA, clip, ``NativeScaler``, summary."""

from __future__ import annotations

import tests.real_trainers.trainings.torchvision_operators  # noqa: F401  (before what imports torchvision)

# isort: split

import csv
import tempfile
from pathlib import Path

import timm
import torch
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3, NativeScaler
from torch import Tensor, nn

from tests.real_trainers.trainings.cases import (
    OwnLog,
    grad_scaler,
    is_watched,
    main,
    norm_of,
    uses_integration,
)
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS

EPOCH = STEPS // 5
"""Steps of an epoch."""


def images(case: str) -> list[tuple[Tensor, Tensor]]:
    """Return batches of noisy images of two classes; one of the broken case has a NaN pixel."""
    draw = torch.Generator().manual_seed(7)
    labels = torch.randint(0, 2, (STEPS, 8), generator=draw)
    pixels = torch.randn(STEPS, 8, 3, 32, 32, generator=draw) + labels[..., None, None, None]
    if case == "broken":
        pixels[BROKEN_AT, 0, 0, 0, 0] = float("nan")
    return list(zip(pixels, labels, strict=True))


def evaluate(model: nn.Module, epoch: int, summary: Path, trained: list[float]) -> None:
    """Write the metrics of an epoch as ``train.py`` does."""
    pixels, labels = images("healthy")[0]
    model.eval()
    with torch.inference_mode():
        logits = model(pixels)
    model.train()
    (top1,) = timm.utils.accuracy(logits, labels, topk=(1,))
    evaluated = {"loss": nn.functional.cross_entropy(logits, labels).item(), "top1": top1.item()}
    timm.utils.update_summary(epoch, {"loss": sum(trained) / len(trained)}, evaluated, str(summary), lr=1.0)


def note_summary(summary: Path, log: OwnLog) -> None:
    """Note what timm wrote."""
    with summary.open(newline="") as file:
        for row in csv.DictReader(file):
            step = (int(row["epoch"]) + 1) * EPOCH - 1
            log.note_evaluation(step, loss=float(row["eval_loss"]), top1=float(row["eval_top1"]))


@uses_integration
def train(case: str, log: OwnLog) -> nn.Module:
    """Train a small vision transformer."""
    log.setting, log.planned = ("decay", 0.9), STEPS
    if is_watched():
        from tocsin.integrations.timm import watch_summary

        watch_summary(config={"decay": 0.9}, planned_steps=STEPS)
    with tempfile.TemporaryDirectory() as folder:
        summary = Path(folder) / "summary.csv"
        model = train_epochs(case, log, summary)
        note_summary(summary, log)
    return model


def train_epochs(case: str, log: OwnLog, summary: Path) -> nn.Module:
    """Train, with an evaluation after each epoch."""
    model: nn.Module = timm.create_model("test_vit", num_classes=2, img_size=32)
    average = ModelEmaV3(model, decay=0.9)
    optimizer = create_optimizer_v2(model, "adamw", lr=3e-4, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=STEPS, t_in_epochs=False)
    scaler = NativeScaler("cpu") if case == "scaled" else None
    if scaler is not None:
        scaler._scaler = grad_scaler()
    trained: list[float] = []
    for step, (pixels, labels) in enumerate(images(case)):
        with torch.autocast("cpu", torch.float16, enabled=scaler is not None):
            loss = nn.functional.cross_entropy(model(pixels), labels)
        scale, lr = scaler and scaler._scaler.get_scale(), optimizer.param_groups[0]["lr"]
        optimizer.zero_grad()
        if scaler is not None:
            scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
        else:
            loss.backward()
            log.note(
                step,
                grad_norm=norm_of(model),
            )
            timm.utils.dispatch_clip_grad(model.parameters(), 1.0)
            optimizer.step()
        average.update(model, step=step)
        schedule.step_update(step + 1)
        log.note(step, loss=loss, lr=lr, scale=scale)
        trained.append(float(loss))
        if (step + 1) % EPOCH == 0:
            evaluate(model, step // EPOCH, summary, trained)
            trained.clear()
    return model


if __name__ == "__main__":
    main(train, "timm", "healthy", "scaled", "broken")
