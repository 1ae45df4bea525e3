"""Each script of examples/, run as its header says, against a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import Tower
from tests.hook.ingest_server import closed_port
from tests.matrix import LONG
from tests.real_trainers.claims import ALL
from tests.real_trainers.comparison import LONGEST_S, ROOT, environment, recorded

FOLDER = ROOT / "examples"


class Example(NamedTuple):
    """One way to run a script, and the runs that it makes."""

    script: str
    steps: int
    runs: tuple[str, ...]
    packages: tuple[str, ...] = ()
    """The requirements files of its framework, without ``.txt``."""
    launcher: str = ""
    ranks: int = 1


TORCHRUN = "-m torch.distributed.run --nproc_per_node=2 --master_port={port}"
ZERO = "-m deepspeed.launcher.runner --num_gpus=1 --master_port={port}"
VISION = "-m tests.real_trainers.trainings.torchvision_operators"
HF = ("requirements",)
LIGHTNING = ("requirements-lightning",)
COMPOSER = ("requirements-composer",)
EXAMPLES = [
    pytest.param(Example("pytorch_amp.py", 300, ("pytorch-amp",)), id="amp"),
    pytest.param(
        Example("sweep.py", 150, ("sweep-0.0003", "sweep-0.003", "sweep-0.03")), id="sweep", marks=LONG
    ),
    pytest.param(Example("ddp_torchrun.py", 100, ("ddp",), launcher=TORCHRUN, ranks=2), id="ddp", marks=LONG),
    pytest.param(Example("lightning_fit.py", 100, ("lightning",), LIGHTNING), id="lightning", marks=LONG),
    pytest.param(Example("hf_trainer.py", 60, ("hf-trainer",), HF), id="hf-trainer", marks=LONG),
    pytest.param(Example("accelerate_loop.py", 100, ("accelerate",), HF), id="accelerate", marks=LONG),
    pytest.param(Example("jax_loop.py", 200, ("jax",), ("requirements-jax",)), id="jax", marks=LONG),
    pytest.param(Example("optax_loop.py", 200, ("optax",), ("requirements-jax",)), id="optax", marks=LONG),
    pytest.param(Example("ignite_loop.py", 100, ("ignite",), HF), id="ignite", marks=LONG),
    pytest.param(Example("fastai_learner.py", 100, ("fastai",), ALL), id="fastai", marks=LONG),
    pytest.param(Example("keras_fit.py", 100, ("keras",), ALL), id="keras", marks=LONG),
    pytest.param(Example("sb3_cartpole.py", 300, ("sb3",), ALL), id="sb3", marks=LONG),
    pytest.param(Example("deepspeed_engine.py", 100, ("deepspeed",), ALL, ZERO), id="zero", marks=LONG),
    pytest.param(Example("composer_fit.py", 100, ("composer",), COMPOSER, VISION), id="composer", marks=LONG),
    pytest.param(Example("ultralytics_yolo.py", 40, ("ultralytics",), ALL, VISION), id="yolo", marks=LONG),
]


def run(example: Example, tower: Tower, folder: Path, *arguments: str) -> None:
    """Run the script to its end, without GPU; fail with its stderr if it failed."""
    launcher = example.launcher.format(port=closed_port()).split()
    done = subprocess.run(
        [sys.executable, *launcher, str(FOLDER / example.script), *arguments],
        cwd=folder,
        env=environment(tower, example.packages) | {"CUDA_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu"},
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_step_is_reported_and_no_alert_fires(
    example: Example, shared_tower: Tower, tmp_path: Path
) -> None:
    """Every rank of every run reports all steps without alerts, and the config check has no warning."""
    run(example, shared_tower, tmp_path)
    for name in example.runs:
        found = recorded(shared_tower, name)
        steps = [list(found.series("loss", rank)) for rank in range(example.ranks)]
        assert steps == [list(range(example.steps))] * example.ranks
        assert (found.row["state"], found.warnings, found.fired) == ("finished", [], [])


@LONG
def test_a_learning_rate_that_is_too_high_collapses_the_loss_scale(tower: Tower, tmp_path: Path) -> None:
    """With ``--lr 100`` the loss scale collapses, as the header of pytorch_amp.py says."""
    run(Example("pytorch_amp.py", 300, ()), tower, tmp_path, "--lr", "100")
    assert "scaler-collapse" in [rule for rule, _ in recorded(tower, "pytorch-amp").fired]


def test_the_table_and_the_tests_name_every_script() -> None:
    """README.md of the folder has a row for each, and each is run here."""
    scripts = {path.name for path in FOLDER.glob("*.py")}
    page = (FOLDER / "README.md").read_text("utf-8")
    assert set(re.findall(r"^\| \[`(\w+\.py)`\]\(\1\) \|", page, re.MULTILINE)) == scripts
    assert {str(one.values[0].script) for one in EXAMPLES} == scripts  # type: ignore[union-attr]
