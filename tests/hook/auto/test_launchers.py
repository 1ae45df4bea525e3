"""``tocsin run`` and ``tocsin enable`` with other ways to start a training, and from an installed wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.conftest import Tower
from tests.hook.auto.test_start import RUN, SCRIPT, address, execute, the_run
from tests.hook.auto.untouched import STEPS
from tests.matrix import LONG
from tests.real_trainers.comparison import ROOT

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
CHILD = "import subprocess, sys; sys.exit(subprocess.run({command!r}).returncode)"


def steps_of(tower: Tower, name: str) -> list[int]:
    """Return the steps with a loss of the only run of that name, once it has ended with status 3."""
    records = tower.records(the_run(tower, name, "failed")["id"])
    return [one["step"] for one in records if "loss" in one["values"]]


def nested(depth: int) -> list[str]:
    """Return the command of a training that is a child of a child, ``depth`` times."""
    command = [sys.executable, SCRIPT, "--lr", "0.1"]
    for _ in range(depth):
        command = [sys.executable, "-c", CHILD.format(command=command)]
    return command


@LONG
def test_a_module_is_watched(shared_tower: Tower) -> None:
    """``python -m``, with the status of the script."""
    path = {"PYTHONPATH": str(Path(SCRIPT).parent)}
    command = (sys.executable, "-m", "untouched", "--lr", "0.1")
    done = execute(*RUN, "--name", "auto-module", *command, **address(shared_tower), **path)
    assert done.returncode == 3
    assert steps_of(shared_tower, "auto-module") == list(range(STEPS))


@LONG
def test_a_child_of_a_child_is_watched(shared_tower: Tower) -> None:
    """Each process passes the environment on, and only the last one trains."""
    done = execute(*RUN, "--name", "auto-nested", *nested(2), **address(shared_tower))
    assert done.returncode == 3
    assert steps_of(shared_tower, "auto-nested") == list(range(STEPS))


@LONG
def test_a_script_of_another_user_is_watched(shared_tower: Tower) -> None:
    """A launcher that changes the user and keeps the environment."""
    command = (*NOBODY, sys.executable)
    if shutil.which(NOBODY[0]) is None or execute(*command, "-c", "import torch, tocsin").returncode:
        pytest.skip("another user cannot be taken here, or cannot read this environment")
    reach = {name: value for name, value in address(shared_tower).items() if name != "TOCSIN_SPOOL_DIR"}
    done = execute(*RUN, "--name", "auto-nobody", *command, SCRIPT, "--lr", "0.1", **reach)
    assert done.returncode == 3, done.stderr
    assert steps_of(shared_tower, "auto-nobody") == list(range(STEPS))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel of the hook; torch and the rest are those of the tests."""
    folder = tmp_path_factory.mktemp("installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT / "client_hook", check=True, capture_output=True)
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    (wheel,) = folder.glob("*.whl")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--no-deps",
        "--quiet",
        str(wheel),
    ]
    subprocess.run(pip, check=True, capture_output=True)
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "env" / "bin"


@LONG
def test_an_installed_wheel_watches_a_script(shared_tower: Tower, installed: Path) -> None:
    """``tocsin run`` of the environment."""
    command = (str(installed / "tocsin"), "run", "--name", "auto-wheel", str(installed / "python"), SCRIPT)
    execute(*command, "--lr", "0.1", **address(shared_tower))
    assert steps_of(shared_tower, "auto-wheel") == list(range(STEPS))


@LONG
def test_an_installed_wheel_watches_every_training_while_enabled(
    shared_tower: Tower, installed: Path
) -> None:
    """After ``tocsin enable``, TOCSIN_AUTO=1 is enough; after ``tocsin disable``, nothing is watched."""
    train = (str(installed / "python"), SCRIPT, "--lr", "0.1")
    environ = address(shared_tower) | {"TOCSIN_AUTO": "1", "TOCSIN_NAME": "auto-enabled"}
    assert execute(str(installed / "tocsin"), "enable").returncode == 0
    execute(*train, **environ)
    assert steps_of(shared_tower, "auto-enabled") == list(range(STEPS))
    assert execute(str(installed / "tocsin"), "disable").returncode == 0
    assert "tocsin" not in execute(*train, **environ).stderr
    assert len([one for one in shared_tower.get("/runs")["items"] if one["name"] == "auto-enabled"]) == 1
