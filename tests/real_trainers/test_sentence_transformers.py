"""Sentence Transformers."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import ALL, IntegratedTrainer


@LONG
class TestSentenceTransformers(IntegratedTrainer):
    """Its trainer, which shuffles: the broken sample comes at step 70."""

    framework = "Sentence Transformers"
    training = "sentence_transformers_fit"
    packages = ALL
    caught = ("nonfinite-weights", 70)
