"""Ultralytics."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import ALL, LackingTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestUltralytics(LackingTrainer):
    """A YOLO detector, whose warm-up changes the number of micro-steps."""

    framework = "Ultralytics YOLO"
    notes = "accumulation that grows in the warm-up; EMA"
    training = "ultralytics_yolo"
    packages = ALL
    caught = ("nonfinite-weights", BROKEN_AT)
    steps = 88
    hook_point = "the event on_val_start"
