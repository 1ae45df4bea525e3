"""Hugging Face ``Trainer``."""

from __future__ import annotations

from tests.real_trainers.claims import IntegratedTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


class TestHuggingFaceTrainer(IntegratedTrainer):
    """Fused AdamW, clip, accumulation and schedule, as its defaults have them."""

    framework = "Hugging Face Trainer"
    notes = (
        "fused AdamW, accumulation; after one NaN loss its own log stays NaN, the recorded losses are right"
    )
    training = "hf_trainer"
    caught = ("nonfinite-loss", BROKEN_AT)
