"""Lightning Fabric."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import LaunchedTrainer, ScaledTrainer
from tests.real_trainers.comparison import Comparison
from tests.real_trainers.trainings.length import BROKEN_AT


class TestFabric(ScaledTrainer, LaunchedTrainer):
    """Its loop, alone and with ``torchrun``. A rate that is too high shows one step later."""

    framework = "Lightning Fabric"
    notes = "ranks by `torchrun`"
    training = "fabric_loop"
    packages = ("requirements-lightning",)
    caught = ("loss-spike", BROKEN_AT + 1)
    launcher = "-m torch.distributed.run --nproc_per_node=2 --master_port={port}"

    @LONG
    def test_two_ranks_are_one_run(self, compared: Comparison) -> None:
        """Run with two ranks in ``make test-all`` only; ``make test`` does so with Accelerate."""
        super().test_two_ranks_are_one_run(compared)
