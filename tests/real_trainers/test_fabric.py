"""Lightning Fabric."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import LaunchedTrainer, ScaledTrainer
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestFabric(ScaledTrainer, LaunchedTrainer):
    """Its loop, alone and with ``torchrun``. A rate that is too high shows one step later."""

    framework = "Lightning Fabric"
    notes = "ranks by `torchrun`"
    training = "fabric_loop"
    packages = ("requirements-lightning",)
    caught = ("loss-spike", BROKEN_AT + 1)
    launcher = "-m torch.distributed.run --nproc_per_node=2 --master_port={port}"
