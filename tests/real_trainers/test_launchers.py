"""``tocsin run`` with the launchers of Accelerate and DeepSpeed: two ranks, one run."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import Tower
from tests.hook.auto.test_start import RUN, the_run
from tests.hook.ingest_server import closed_port
from tests.matrix import LONG
from tests.real_trainers.claims import ALL
from tests.real_trainers.comparison import LONGEST_S, TRAININGS, environment

SCRIPT = str(TRAININGS / "launched.py")
ACCELERATE = "-m accelerate.commands.launch --multi_gpu --num_processes=2 --main_process_port={port}"
DEEPSPEED = "-m deepspeed.launcher.runner --num_gpus=2 --no_local_rank --master_port={port}"


@LONG
@pytest.mark.parametrize(("launcher", "packages"), [(ACCELERATE, ("requirements",)), (DEEPSPEED, ALL)])
def test_the_ranks_of_a_launcher_are_one_run(
    shared_tower: Tower, launcher: str, packages: tuple[str, ...]
) -> None:
    """The launcher itself trains nothing, so it reports nothing."""
    name = launcher.split()[1]
    command = [*RUN, "--name", name, sys.executable, *launcher.format(port=closed_port()).split(), SCRIPT]
    variables = environment(shared_tower, packages) | {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=LONGEST_S)
    assert done.returncode == 0, done.stderr[-4000:]
    records = shared_tower.records(the_run(shared_tower, name)["id"])
    assert {(one["attempt"], one["rank"]) for one in records} == {(1, 0), (1, 1)}
