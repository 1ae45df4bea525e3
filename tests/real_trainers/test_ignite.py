"""Ignite."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import SAMPLED, LackingTrainer, LaunchedTrainer, ScaledTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestIgnite(LackingTrainer, ScaledTrainer, LaunchedTrainer):
    """Its supervised trainer, which does not clip, and an engine with a scaler; with ``torchrun``."""

    framework = "Ignite"
    notes = "no clip: the hook computes the norm every 16th step; ranks by `torchrun`"
    training = "ignite_engine"
    norm_every = SAMPLED
    caught = ("nonfinite-weights", BROKEN_AT)
    launcher = "-m torch.distributed.run --nproc_per_node=2 --master_port={port}"
    hook_point = "Events.EPOCH_STARTED"
