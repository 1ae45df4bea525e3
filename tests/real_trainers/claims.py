"""Tests that hold for every trainer. A test file derives from RealTrainer and sets its attributes."""

from __future__ import annotations

from typing import ClassVar

from tests.hook.ingest_server import closed_port
from tests.real_trainers.comparison import Comparison, differences
from tests.real_trainers.trainings.length import STEPS
from tocsin.integrations.framework import VITAL

ALL = ("requirements-all", "requirements")
"""The packages of the trainers of ``make test-all``."""
SAMPLED = 16
"""Without a clip, the hook computes the gradient norm itself, every so many steps."""


class RealTrainer:
    """The claims; each test is about runs that a script of ``trainings/`` made once."""

    framework: ClassVar[str]
    """Its name in the table of docs/reference/frameworks.md."""
    notes: ClassVar[str] = ""
    """Notes in the table."""
    training: ClassVar[str]
    """The script, without ``.py``."""
    packages: ClassVar[tuple[str, ...]] = ("requirements",)
    """The requirements files that list its packages, without ``.txt``."""
    steps: ClassVar[int] = STEPS
    norm_every: ClassVar[int] = 1
    """SAMPLED if the framework does not clip."""
    caught: ClassVar[tuple[str, int]]
    """The rule that catches the broken case, and the onset step that it reports."""

    def test_every_step_is_recorded_once(self, compared: Comparison) -> None:
        """The run has as many steps as the framework counts, in order."""
        assert len(compared.own("healthy")["loss"]) == self.steps
        assert compared.recorded("healthy").steps() == list(range(self.steps))

    def test_values_equal_the_log_of_the_framework(self, compared: Comparison) -> None:
        """Loss and learning rate at every step, the norm wherever it is recorded."""
        for case in compared.logs["plain"]:
            for name in set(compared.own(case)) - {"grad_norm"}:
                assert compared.differences(case, name) == [], (case, name)

    def test_norms_equal_those_before_clipping(self, compared: Comparison) -> None:
        """At every step where the framework clips, else at every sixteenth."""
        recorded = compared.recorded("healthy").series("grad_norm")
        own = compared.own("healthy").get("grad_norm", recorded)  # not every framework logs it
        assert list(recorded) == list(range(0, self.steps, self.norm_every))
        assert differences({step: own[step] for step in recorded}, recorded) == []

    def test_weights_are_bit_identical(self, compared: Comparison) -> None:
        """In every case, weights are the same with and without the hook."""
        plain = compared.logs["plain"]
        assert [case for case in plain if not compared.weights_are_equal(case)] == []

    def test_a_healthy_run_has_no_warning_and_no_alert(self, compared: Comparison) -> None:
        """Neither the config check nor a rule reports anything."""
        for case in compared.logs["plain"]:
            assert (compared.recorded(case).warnings, compared.recorded(case).fired) == ([], [])

    def test_a_fault_is_caught_where_it_began(self, compared: Comparison) -> None:
        """The expected rule fires with the right onset step."""
        assert self.caught in compared.recorded("broken").fired


class IntegratedTrainer(RealTrainer):
    """A trainer that starts the run by tocsin's integration. Its script notes what it must tell."""

    has_epochs: ClassVar[bool] = True
    """Whether the framework itself counts epochs."""
    has_evaluations: ClassVar[bool] = True
    """Whether it evaluates."""

    def test_the_configuration_arrives(self, compared: Comparison) -> None:
        """A setting of the framework is in the configuration of the run."""
        name, value = compared.logs["watched"]["healthy"]["setting"]
        assert compared.configured("healthy", name) == value

    def test_the_planned_steps_are_those_of_the_framework(self, compared: Comparison) -> None:
        """They are known before the training ends."""
        planned = compared.logs["watched"]["healthy"]["planned"]
        assert compared.recorded("healthy").row["planned_steps"] == planned

    def test_evaluations_equal_the_log_of_the_framework(self, compared: Comparison) -> None:
        """Every metric of every evaluation, at the step after which it was made."""
        run = compared.recorded("healthy")
        evaluated = compared.evaluated("healthy")
        assert bool(evaluated) is self.has_evaluations
        for name, own in evaluated.items():
            assert differences(own, run.series(f"val/{name}")) == [], name

    def test_metrics_equal_the_log_of_the_framework(self, compared: Comparison) -> None:
        """Every other metric that the framework logs, at the step after which it logs it."""
        run = compared.recorded("healthy")
        for name, own in compared.metrics("healthy").items():
            assert differences(own, run.series(name)) == [], name

    def test_epochs_are_events(self, compared: Comparison) -> None:
        """Each epoch once, in order."""
        epochs = compared.recorded("healthy").epochs
        assert bool(epochs) is self.has_epochs
        assert epochs == sorted(set(epochs))

    def test_no_value_is_counted_twice(self, compared: Comparison) -> None:
        """The framework's loss, norm and rate are not recorded beside the captured ones."""
        names = {name for record in compared.recorded("healthy").records for name in record["values"]}
        again = {name for name in names if name.removeprefix("logged/").removeprefix("train/") in VITAL}
        assert again <= {"loss", "grad_norm", "lr", "scale"}


class LackingTrainer(IntegratedTrainer):
    """An integrated trainer that also trains in a version of the framework without a hook point."""

    hook_point: ClassVar[str]
    """What the case ``lacking`` removes, as the warning names it."""

    def test_a_missing_hook_point_is_one_warning(self, compared: Comparison) -> None:
        """It names the version and the hook point; every step is recorded."""
        (warning,) = compared.logs["watched"]["lacking"]["warnings"]
        assert f"{compared.logs['version']}: {self.hook_point} cannot be used" in warning
        for name in set(compared.own("lacking")) - {"grad_norm"}:
            assert compared.differences("lacking", name) == [], name
        assert compared.recorded("lacking").steps() == list(range(self.steps))


class ScaledTrainer(RealTrainer):
    """A trainer that also trains in float16 with a GradScaler."""

    def test_the_scale_and_its_skipped_steps_are_recorded(self, compared: Comparison) -> None:
        """The scale is that of the framework at every step; if it fell, the step before was skipped."""
        scale = compared.own("scaled")["scale"]
        fell = [step for step in range(self.steps - 1) if scale[step + 1] < scale[step]]
        skipped = compared.recorded("scaled").series("skipped")
        assert fell
        assert [step for step in range(self.steps - 1) if skipped[step]] == fell
        assert compared.differences("scaled", "scale") == []


class LaunchedTrainer(RealTrainer):
    """A trainer that also trains on two ranks, started by its own launcher."""

    launcher: ClassVar[str]
    """Arguments of Python before the script; ``{port}`` is a free one."""

    def test_two_ranks_are_one_run(self, compared: Comparison) -> None:
        """One attempt; each rank reports every step once, with its own loss."""
        run, logs = compared.ranks(self.launcher.format(port=closed_port()).split())
        assert run.ranks == {(1, 0), (1, 1)}
        assert [run.steps(0), run.steps(1)] == [list(range(self.steps))] * 2
        own = [log["loss"] for log in logs]
        assert own[0] != own[1]
        assert [differences(own[rank], run.series("loss", rank)) for rank in range(2)] == [[], []]
