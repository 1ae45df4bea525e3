"""``tocsin run`` with a script of Hydra: each job has its configuration, and those of a multirun are runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Tower
from tests.hook.auto.test_start import RUN, Done, the_run
from tests.matrix import LONG
from tests.real_trainers.comparison import LONGEST_S, TRAININGS, environment

SCRIPT = str(TRAININGS / "hydra_jobs.py")
UNREADABLE = "<could not be read: InterpolationResolutionError>"
CONFIG = {
    "model": {"width": 4, "name": "net-4"},
    "lr": 0.2,
    "twice": [1.0, 0.2],
    "max_steps": 6,
    "fails_with": 0.0,
    "data": "???",
    "home": UNREADABLE,
}

pytestmark = LONG


def train(tower: Tower, folder: Path, name: str, *arguments: str) -> Done:
    """Run the script in ``folder``, under a name or alone."""
    start = (*RUN, "--name", name) if name else ()
    own = (f"hydra.sweep.dir={folder}/sweep", f"hydra.run.dir={folder}/job", "hydra.job.chdir=true")
    line = [*start, sys.executable, SCRIPT, *arguments, *own]
    variables = environment(tower, ("requirements-hydra",))
    return subprocess.run(line, env=variables, capture_output=True, text=True, timeout=LONGEST_S)


def test_a_job_has_its_configuration(shared_tower: Tower, tmp_path: Path) -> None:
    """Interpolations are resolved, and what cannot be read is marked."""
    done = train(shared_tower, tmp_path, "hydra-job", "lr=0.2")
    assert (done.stdout, done.returncode) == ("trained in job\n", 0)
    run = the_run(shared_tower, "hydra-job")
    assert (run["config"], run["planned_steps"], run["last_step"]) == (CONFIG, 6, 5)


@pytest.fixture(scope="module")
def multirun(shared_tower: Tower, tmp_path_factory: pytest.TempPathFactory) -> Tower:
    """The server of a multirun whose second job fails. Output and exit status are Hydra's own."""
    arguments = ("-m", "lr=0.1,0.2,0.3", "fails_with=0.2", "hydra/hydra_logging=disabled")
    folder = tmp_path_factory.mktemp("hydra")
    alone, recorded = (train(shared_tower, folder, name, *arguments) for name in ("", "hydra"))
    assert (recorded.stdout, recorded.returncode) == (alone.stdout, alone.returncode) != ("", 0)
    return shared_tower


@pytest.mark.parametrize(("job", "state", "last"), [(0, "finished", 5), (1, "failed", 3), (2, "finished", 5)])
def test_each_job_of_a_multirun_is_a_run(multirun: Tower, job: int, state: str, last: int) -> None:
    """The job that fails has failed, and no other."""
    run = the_run(multirun, f"hydra-{job}", state)
    assert (run["config"]["lr"], run["last_step"]) == (pytest.approx(0.1 * (job + 1)), last)
    assert (run["error"] is None) is (state == "finished")
