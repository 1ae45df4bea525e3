"""The real trackers: alone and under ``tocsin run``, a script gets the same from them; tocsin gets it too."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Tower
from tests.hook.auto.test_start import RUN, address, execute, the_run
from tests.matrix import LONG
from tocsin.importers import Log, LogRecord, TrackedRun
from tocsin.importers.folder import runs_in

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "trackers"
SCRIPT = str(Path(__file__).with_name("training.py"))
IMPORTED = {
    "wandb": "W&B run file",
    "swanlab": "SwanLab run file",
    "mlflow": "MLflow database",
    "trackio": "Trackio database",
    "aim": "Aim repository",
}
"""Trackers whose files are imported, and the kind of the runs."""
NAMES = ("wandb", "mlflow", "trackio", "aim", "swanlab", "comet")
CALLED = (
    "import runpy, sys, tocsin; tocsin.mirror(sys.argv[2]); tocsin.watch('p', name='called-' + sys.argv[2]); "
    "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)
"""A script that calls ``tocsin.mirror`` and ``tocsin.watch`` and then does what another one does."""

pytestmark = LONG


def imported(folder: Path, kind: str) -> list[list[Any]]:
    """Return steps and values that the importer finds in a folder of a tracker."""
    found: list[Any] = [
        run for run in runs_in(folder) if isinstance(run, TrackedRun | Log) and run.kind == kind
    ]
    return [
        [item.step, item.values["train/tensor"]]
        for run in found
        for item in run.items()
        if isinstance(item, LogRecord) and "train/tensor" in item.values
    ]


def environment(folder: Path, *names: str) -> dict[str, str]:
    """Return the variables of a script that logs to these trackers."""
    path = os.pathsep.join(map(str, [ROOT, *(FOLDER / name for name in names)]))
    own = {"HOME": str(folder), "TRACKIO_DIR": str(folder), "WANDB_SILENT": "true"}
    return {"PYTHONPATH": path, **own}


class Pair:
    """The output of the script alone and under ``tocsin run``, and what arrived."""

    def __init__(self, name: str, tower: Tower, folder: Path) -> None:
        packages = FOLDER / name
        assert packages.is_dir(), f"Run `make build/stamps/trackers/{name}`."
        self.tower, self.name, self.folder = tower, name, folder
        self.alone = self.run("alone", sys.executable)
        self.watched = self.run("watched", *RUN, "--name", f"watched-{name}", sys.executable)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sys, "path", [*sys.path, str(packages)])  # of aimrocks, which reads Aim's files
            self.imported = imported(folder / "alone", IMPORTED[name]) if name in IMPORTED else []
        """Steps and values in the tracker's files."""
        self.series = self.arrived("watched")

    def run(self, place: str, *command: str) -> Any:
        """Return the output of the script, which this command runs."""
        own = self.folder / place
        own.mkdir()
        environ = environment(own, self.name) | {"PYTHONWARNINGS": "ignore", **address(self.tower)}
        done = execute(*command, SCRIPT, self.name, str(own), **environ)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    def arrived(self, place: str) -> dict[str, list[list[Any]]]:
        """Return the steps and values of a run."""
        found: dict[str, list[list[Any]]] = {}
        for record in self.tower.records(the_run(self.tower, f"{place}-{self.name}")["id"]):
            for key, value in record["values"].items():
                if key.startswith("train/"):
                    found.setdefault(key, []).append([record["step"], value])
        return found


@pytest.fixture(scope="module")
def pairs(shared_tower: Tower, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that runs the script of a tracker twice, once for all tests."""
    return cache(lambda name: Pair(name, shared_tower, tmp_path_factory.mktemp(name)))


@pytest.mark.parametrize("name", NAMES)
def test_the_tracker_works_as_before(pairs: Any, name: str) -> None:
    """The same results, exceptions and stored values."""
    pair = pairs(name)
    assert pair.watched["returned"] == pair.alone["returned"]
    assert re.sub(r"\d+", "", pair.watched["raised"]) == re.sub(r"\d+", "", pair.alone["raised"])
    assert pair.watched["series"] == pair.alone["series"]
    assert pair.alone["series"]["train/loss"][3] == [103, 0.375]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_logged_arrives(pairs: Any, name: str) -> None:
    """Every number that the tracker has, at its step."""
    pair = pairs(name)
    for series, values in pair.watched["series"].items():
        assert pair.series[series] == values


@pytest.mark.parametrize("name", NAMES)
def test_a_call_of_mirror_does_the_same(pairs: Any, name: str) -> None:
    """Without ``tocsin run``."""
    pair = pairs(name)
    called = pair.run("called", sys.executable, "-c", CALLED)
    assert called["series"] == pair.alone["series"]
    assert pair.arrived("called") == pair.series


@pytest.mark.parametrize("name", IMPORTED)
def test_its_files_are_imported(pairs: Any, name: str) -> None:
    """What the importer reads from the tracker's folder is what the tracker has."""
    pair = pairs(name)
    assert pair.imported == pair.alone["series"]["train/tensor"]


@pytest.mark.parametrize("name", NAMES)
def test_the_tracker_has_the_alert(pairs: Any, name: str) -> None:
    """Where its users look; without tocsin, it has none."""
    pair = pairs(name)
    assert "NaN at step" in " ".join(pair.watched["alerts"].split())
    assert "/incidents/" in pair.watched["alerts"] or "/runs/" in pair.watched["alerts"]
    assert "NaN at step" not in pair.alone["alerts"]


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_has_the_link_of_its_incident(tmp_path: Path, name: str) -> None:
    """One after the end of the tracker's run raises no error; MLflow and Trackio have it too."""
    environ = environment(tmp_path, name) | {"PYTHONWARNINGS": "ignore"}
    done = execute(sys.executable, str(Path(__file__).with_name("ended.py")), name, str(tmp_path), **environ)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "https://tower/incidents/" in done.stdout
    assert ("/incidents/late" in done.stdout) is (name in ("mlflow", "trackio"))


def test_the_steps_of_a_step_metric_are_used(pairs: Any) -> None:
    """``wandb.define_metric``: the epoch, not W&B's step."""
    steps = {step for step, _ in pairs("wandb").series["train/by_epoch"]}
    assert steps == {10, 11, 12, 13, 14, 15}


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_name_of_tocsin_and_a_tracker_is_recorded_once(
    shared_tower: Tower, tmp_path: Path, name: str
) -> None:
    """Where the values are equal; others have the tracker's name before theirs."""
    found, done = logged_twice(shared_tower, tmp_path, name)
    assert (found["equal"], found["other"]) == ([0.0, 0.125, 0.25, 0.375], [0.0, 1.0, 2.0, 3.0])
    assert (f"{name}/equal" in found, found[f"{name}/other"]) == (False, [0.5, 1.5, 2.5, 3.5])
    assert done.stderr.count("is logged both to tocsin and to") == 1


@pytest.mark.parametrize(("first", "second"), [("wandb", "mlflow"), ("trackio", "tensorboard")])
def test_a_name_of_two_trackers_is_the_first_ones(
    shared_tower: Tower, tmp_path: Path, first: str, second: str
) -> None:
    """The second one's values have its name before theirs."""
    found, _ = logged_twice(shared_tower, tmp_path, first, second)
    assert found["equal"] == found[f"{second}/equal"] == [0.0, 0.125, 0.25, 0.375]
    assert (found["other"], found[f"{second}/other"]) == ([0.5, 1.5, 2.5, 3.5], [1.5, 2.5, 3.5, 4.5])
    assert f"{first}/equal" not in found


def logged_twice(
    tower: Tower, folder: Path, *names: str
) -> tuple[dict[str, list[float]], subprocess.CompletedProcess[str]]:
    """Run a script that logs the same names to several trackers, or to tocsin and one; return its series."""
    script, run = str(Path(__file__).with_name("both.py")), f"both-{'-'.join(names)}"
    environ = environment(folder, *names) | address(tower)
    done = execute(*RUN, "--name", run, sys.executable, script, str(folder), *names, **environ)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[float]] = {}
    for record in tower.records(the_run(tower, run)["id"]):
        for key, value in record["values"].items():
            found.setdefault(key, []).append(value)
    return found, done
