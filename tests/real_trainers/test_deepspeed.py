"""DeepSpeed."""

from __future__ import annotations

import json

import pytest

from tests.matrix import LONG
from tests.real_trainers.claims import ALL, RealTrainer, ScaledTrainer
from tests.real_trainers.comparison import TRAININGS, Comparison, differences, recorded
from tests.real_trainers.trainings.length import BROKEN_AT


@LONG
class TestDeepSpeed(RealTrainer):
    """Its engine on the CPU."""

    framework = "DeepSpeed"
    notes = "its engine on the CPU, its own clip, accumulation"
    training = "deepspeed_engine"
    packages = ALL
    caught = ("nonfinite-weights", BROKEN_AT)

    @pytest.mark.parametrize("stage", ["1", "2", "3"])
    def test_parameter_groups_of_zero_are_one_step(self, compared: Comparison, stage: str) -> None:
        """ZeRO steps its optimizer once per group; the rates of all groups are recorded."""
        printed = compared.run([str(TRAININGS / "deepspeed_groups.py"), stage])
        own = json.loads(printed.splitlines()[-1])
        run = recorded(compared.tower, own["name"])
        for name in ("loss", "grad_norm"):
            assert differences(dict(enumerate(own[name])), run.series(name)) == [], name
        assert run.series("lr/g1") == dict.fromkeys(range(len(own["loss"])), 1e-3)


@LONG
class TestDeepSpeedFloat16(ScaledTrainer):
    """Its engine in float16, with its own loss scaler; the run is started by the integration."""

    framework = "DeepSpeed float16"
    notes = "its own loss scaler, ZeRO stage 1, accumulation; float16 on the CPU allowed by hand"
    training = "deepspeed_float16"
    packages = ALL
    caught = ("nonfinite-loss", BROKEN_AT)

    def test_configuration_and_planned_steps_arrive(self, compared: Comparison) -> None:
        """Those that were given to ``deepspeed.initialize`` and ``watch_engine``."""
        log = compared.logs["watched"]["healthy"]
        name, value = log["setting"]
        assert compared.configured("healthy", name) == value
        assert compared.recorded("healthy").row["planned_steps"] == log["planned"]

    def test_a_watch_before_initialize_records_no_step_of_its_own(self, compared: Comparison) -> None:
        """DeepSpeed steps once in ``initialize`` to allocate the optimizer's state."""
        compared.run([str(TRAININGS / "deepspeed_early.py")])
        run = recorded(compared.tower, "deepspeed-early")
        assert [record["step"] for record in run.records] == [0, 1, 2]
        assert run.steps() == [0, 1, 2]
