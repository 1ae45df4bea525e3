"""All that a script logs to a tracker arrives, nothing else does, and the tracker's files stay the same."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import Tower
from tests.hook.auto.test_start import address, execute, the_run
from tests.matrix import LONG
from tests.trackers.everything import HUGEST, NONE
from tests.trackers.test_trackers import FOLDER, NAMES, environment

SCRIPT = str(Path(__file__).with_name("everything.py"))
WATCHED = (
    "import runpy, sys, tocsin; sys.argv = sys.argv[1:]; "
    f"sys.argv[1] == {NONE!r} or tocsin.mirror(sys.argv[1], alerts=False); "
    "tocsin.watch('p', name='all-' + sys.argv[1]); runpy.run_path(sys.argv[0], run_name='__main__')"
)
SYSTEM = ("_step", "_runtime", "_timestamp", "__system__", "sys.", "process duration")
"""How the names of what a tracker itself measures begin."""
Point = tuple[str, int, str]

pytestmark = LONG


def number(value: Any, name: str) -> float:
    """Return a value as the tracker stores it."""
    read = float(value)
    if name == "mlflow" and abs(read) == HUGEST:
        return math.copysign(math.inf, read)
    return float(np.float32(read)) if name == "tensorboard" else read


class Everything:
    """What a tracker stores alone and while it is mirrored, and what arrived."""

    def __init__(self, name: str, tower: Tower, folder: Path) -> None:
        assert name in (NONE, "tensorboard") or (FOLDER / name).is_dir(), (
            f"Run `make build/stamps/trackers/{name}`."
        )
        self.name, self.tower, self.folder = name, tower, folder
        self.mirrored = self.run("mirrored", "-c", WATCHED, SCRIPT)
        self.records = tower.records(the_run(tower, f"all-{name}")["id"])
        self.names = {series for record in self.records for series in record["values"]}

    def run(self, place: str, *arguments: str) -> Any:
        """Return what the script prints."""
        own = self.folder / place
        own.mkdir()
        environ = environment(own, self.name) | {"PYTHONWARNINGS": "ignore", **address(self.tower)}
        done = execute(sys.executable, *arguments, self.name, str(own), **environ)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    def stored(self) -> list[Point]:
        """Return all that the tracker has stored. The values of "free", logged without a step, have that of
        the training instead of the tracker's."""
        series = {
            name: found for name, found in self.mirrored["series"].items() if not name.startswith(SYSTEM)
        }
        series["free"] = [(at, value) for at, (_, value) in enumerate(series.get("free", []))]
        return ordered(
            (name, step, number(value, self.name)) for name, found in series.items() for step, value in found
        )

    def arrived(self, captured: set[str]) -> list[Point]:
        """Return all that tocsin has recorded, except what it captures from a script without a tracker."""
        return ordered(
            (name, record["step"], number(value, self.name))
            for record in self.records
            for name, value in record["values"].items()
            if name not in captured
        )


def ordered(points: Any) -> list[Point]:
    """Return points in an order in which equal ones compare equal, NaN too."""
    return sorted((name, step, repr(value)) for name, step, value in points)


@pytest.fixture(scope="module")
def everything(shared_tower: Tower, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Everything]:
    """Return a function that runs the script with a tracker, once for all tests."""
    return cache(lambda name: Everything(name, shared_tower, tmp_path_factory.mktemp(name)))


@pytest.mark.parametrize("name", [*NAMES, "tensorboard"])
def test_everything_arrives_and_nothing_else(everything: Callable[[str], Everything], name: str) -> None:
    """Every name, step and value, also of nested mappings, without a step, and NaN and infinities."""
    arrived = everything(name).arrived(everything(NONE).names)
    if name == "comet":  # which itself stores no NaN and no infinity
        arrived = [one for one in arrived if math.isfinite(float(one[2]))]
    assert arrived == everything(name).stored()
    assert len(arrived) >= 40


@pytest.mark.parametrize("name", [*NAMES, "tensorboard"])
def test_the_files_are_those_of_the_tracker_alone(everything: Callable[[str], Everything], name: str) -> None:
    """The same files, records of each kind, names, steps and values."""
    mirrored, alone = everything(name).mirrored, everything(name).run("alone", SCRIPT)
    for found in (mirrored, alone):
        found["series"] = {key: value for key, value in found["series"].items() if not key.startswith(SYSTEM)}
    assert mirrored == alone
