"""Composer."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import IntegratedTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestComposer(IntegratedTrainer):
    """Its trainer, with its own logger and two microbatches per step."""

    framework = "Composer"
    notes = "microbatches; installed beside a newer torch than it allows (2.7.0)"
    training = "composer_fit"
    packages = ("requirements-composer",)
    caught = ("nonfinite-weights", BROKEN_AT)
