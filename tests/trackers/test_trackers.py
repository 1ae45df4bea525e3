"""The real trackers: alone and under ``tocsin run``, a script gets the same from them; tocsin gets it too."""

from __future__ import annotations

import json
import os
import re
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


class Pair:
    """The output of the script alone and under ``tocsin run``, and what arrived."""

    def __init__(self, name: str, tower: Tower, folder: Path) -> None:
        packages = FOLDER / name
        assert packages.is_dir(), f"Run `make build/stamps/trackers/{name}`."
        path = os.pathsep.join(map(str, [ROOT, packages]))
        environ = {
            "PYTHONPATH": path,
            "PYTHONWARNINGS": "ignore",
            "WANDB_SILENT": "true",
            "HOME": str(folder),
        }
        outputs = []
        for place, command in (("alone", ()), ("watched", (*RUN, "--name", f"tracked-{name}"))):
            (folder / place).mkdir()
            own = {"TRACKIO_DIR": str(folder / place)}
            line = (*command, sys.executable, SCRIPT, name, str(folder / place))
            done = execute(*line, **address(tower), **environ, **own)
            assert done.returncode == 0, done.stderr[-2000:]
            outputs.append(json.loads(done.stdout))
        self.alone, self.watched = outputs
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sys, "path", [*sys.path, str(packages)])  # of aimrocks, which reads Aim's files
            self.imported = imported(folder / "alone", IMPORTED[name]) if name in IMPORTED else []
        """Steps and values in the tracker's files."""
        self.series: dict[str, list[list[Any]]] = {}
        for record in tower.records(the_run(tower, f"tracked-{name}")["id"]):
            for key, value in record["values"].items():
                if key.startswith("train/"):
                    self.series.setdefault(key, []).append([record["step"], value])


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


def test_the_steps_of_a_step_metric_are_used(pairs: Any) -> None:
    """``wandb.define_metric``: the epoch, not W&B's step."""
    steps = {step for step, _ in pairs("wandb").series["train/by_epoch"]}
    assert steps == {10, 11, 12, 13, 14, 15}


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_name_of_tocsin_and_a_tracker_is_recorded_once(
    shared_tower: Tower, tmp_path: Path, name: str
) -> None:
    """Where the values are equal; others have the tracker's name before theirs."""
    script = str(Path(__file__).with_name("both.py"))
    environ = {"PYTHONPATH": os.pathsep.join(map(str, [ROOT, FOLDER / name])), "TRACKIO_DIR": str(tmp_path)}
    environ |= {"WANDB_SILENT": "true", "HOME": str(tmp_path), **address(shared_tower)}
    done = execute(*RUN, "--name", f"both-{name}", sys.executable, script, name, str(tmp_path), **environ)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, list[float]] = {}
    for record in shared_tower.records(the_run(shared_tower, f"both-{name}")["id"]):
        for key, value in record["values"].items():
            found.setdefault(key, []).append(value)
    assert (found["equal"], found["other"]) == ([0.0, 0.125, 0.25, 0.375], [0.0, 1.0, 2.0, 3.0])
    assert (f"{name}/equal" in found, found[f"{name}/other"]) == (False, [0.5, 1.5, 2.5, 3.5])
    assert done.stderr.count("is logged both to tocsin and to") == 1
