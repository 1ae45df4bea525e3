"""Lightning."""

from __future__ import annotations

from tests.matrix import LONG
from tests.real_trainers.claims import IntegratedTrainer, LaunchedTrainer, ScaledTrainer
from tests.real_trainers.comparison import TRAININGS, Comparison, recorded
from tests.real_trainers.trainings.length import BROKEN_AT


class TestLightning(IntegratedTrainer, ScaledTrainer, LaunchedTrainer):
    """``Trainer.fit``, alone and with ``strategy="ddp"``, which starts the second process itself."""

    framework = "Lightning"
    notes = 'validation every 20 steps; ranks by `strategy="ddp"`'
    training = "lightning_fit"
    packages = ("requirements-lightning",)
    caught = ("nonfinite-weights", BROKEN_AT)
    launcher = ""

    @LONG
    def test_spawned_ranks_are_one_run(self, compared: Comparison) -> None:
        """``strategy="ddp_spawn"``: the children of the process that watches report to its run."""
        compared.run([str(TRAININGS / "lightning_spawn.py"), "spawned"])
        run = recorded(compared.tower, "spawned")
        assert run.ranks == {(1, 0), (1, 1)}
        assert [run.steps(0), run.steps(1)] == [list(range(self.steps))] * 2

    @LONG
    def test_two_ranks_are_one_run(self, compared: Comparison) -> None:
        """Run with two ranks in ``make test-all`` only; ``make test`` does so with Accelerate."""
        super().test_two_ranks_are_one_run(compared)
