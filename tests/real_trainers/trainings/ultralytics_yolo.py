"""Ultralytics: a YOLO detector from scratch, with its warm-up of rates and accumulation, and its EMA."""

from __future__ import annotations

import tests.real_trainers.trainings.torchvision_operators  # noqa: F401  (before what imports torchvision)

# isort: split

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torchvision
from PIL import Image
from torch import nn
from ultralytics.models.yolo.detect import DetectionTrainer
from ultralytics.utils.nms import TorchNMS

from tests.real_trainers.trainings.cases import OwnLog, is_watched, main, norm_of, uses_integration
from tests.real_trainers.trainings.length import BROKEN_AT

IMAGES, BATCH, EPOCHS = 64, 4, 10

torchvision.ops.nms = TorchNMS.nms  # its own, where torchvision's operators are missing


def dataset(folder: Path) -> str:
    """Write images with one bright square each; return the file that describes them."""
    draw = np.random.default_rng(0)
    for name in ("images", "labels"):
        (folder / name).mkdir()
    for number in range(IMAGES):
        pixels = draw.integers(0, 80, (64, 64, 3), np.uint8)
        x, y = draw.integers(8, 40, 2)
        pixels[y : y + 16, x : x + 16] = 250
        Image.fromarray(pixels).save(folder / "images" / f"{number}.png")
        box = f"0 {(x + 8) / 64} {(y + 8) / 64} 0.25 0.25"
        (folder / "labels" / f"{number}.txt").write_text(box, "utf-8")
    described = folder / "data.yaml"
    described.write_text(f"path: {folder}\ntrain: images\nval: images\nnames:\n  0: square\n", "utf-8")
    return str(described)


class Logged(DetectionTrainer):
    """Records the trainer's values at each optimizer step; in the broken case, one batch has a NaN pixel."""

    case = ""
    log = OwnLog()
    steps_made = 0
    is_pending = True
    """Whether the loss of this batch waits for an optimizer step."""
    losses: list[float]

    def preprocess_batch(self, batch: dict[str, Any]) -> dict[str, Any]:
        batch = super().preprocess_batch(batch)
        if self.case == "broken" and self.steps_made == BROKEN_AT:
            batch["img"][0, 0, 0, 0] = float("nan")
        return batch

    def optimizer_step(self) -> None:
        losses, self.losses = [*self.losses, self.loss.item()], []
        rate = self.optimizer.param_groups[0]["lr"]
        norm = norm_of(self.model)
        self.log.note(self.steps_made, loss=sum(losses) / len(losses), lr=rate, grad_norm=norm)
        super().optimizer_step()
        self.is_pending = False
        self.steps_made += 1

    def save_metrics(self, metrics: dict[str, Any]) -> None:
        """Copy the row that it writes to ``results.csv``, before it rounds the row to six figures."""
        step = self.steps_made - 1
        self.log.note_metrics(step, **{name: metrics[name] for name in metrics if name.startswith("train/")})
        validated = {
            name.split("/")[1]: metrics[name] for name in metrics if name.startswith(("val/", "metrics/"))
        }
        self.log.note_evaluation(step, **validated)
        super().save_metrics(metrics)


def connect(trainer: Logged, case: str) -> None:
    """Add tocsin's callbacks; the case ``lacking`` has a version without one of the events."""
    if is_watched():
        from tocsin.integrations.ultralytics import add_tocsin_callback

        if case == "lacking":
            del trainer.callbacks["on_val_start"]
        add_tocsin_callback(trainer)


@uses_integration
def train(case: str, log: OwnLog) -> nn.Module:
    """Train without augmentation; validate after each epoch."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"model": "yolo11n.yaml", "epochs": EPOCHS, "batch": BATCH, "imgsz": 64, "nbs": 2 * BATCH}
        own |= {
            "data": dataset(Path(folder)),
            "project": folder,
            "name": "run",
            "device": "cpu",
            "workers": 0,
        }
        own |= {
            "optimizer": "SGD",
            "lr0": 0.002,  # with 0.01 the loss climbs to 25, and tocsin says so
            "warmup_epochs": 2.0,
            "warmup_bias_lr": 0.0,
            "mosaic": 0.0,
            "amp": False,
            "patience": 0,
        }
        own |= {"val": case != "broken", "plots": False, "save": False, "verbose": False}
        trainer = Logged(overrides=own)
        trainer.case, trainer.log, trainer.losses = case, log, []
        trainer.add_callback("on_train_batch_end", pending)
        connect(trainer, case)
        with contextlib.suppress(RuntimeError) if case == "broken" else contextlib.nullcontext():
            trainer.train()  # it gives up after an epoch of NaN
    log.planned, log.setting = trainer.steps_made, ("nbs", trainer.args.nbs)
    model: nn.Module = trainer.model
    return model


def pending(trainer: Logged) -> None:
    """Keep the loss of a batch that was not followed by an optimizer step."""
    if trainer.is_pending:
        trainer.losses.append(trainer.loss.item())
    trainer.is_pending = True


if __name__ == "__main__":
    main(train, "ultralytics", "healthy", "broken", "lacking")
