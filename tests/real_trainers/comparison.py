"""Run a training of ``trainings/`` against a real server; compare the framework's log with the run.

The Makefile installs the frameworks into FOLDER, so that none changes the environment of the tests.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import distributions
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from tests.conftest import Tower, wait_for

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "real-trainers"
EXTENSIONS = FOLDER / "extensions"
"""Modules that DeepSpeed compiles at their first use."""
TRAININGS = Path(__file__).parent / "trainings"
RELATIVE = 1e-6
"""Relative difference of two values that count as equal: frameworks log float32, the hook sends float64."""
LONGEST_S = 400
COST_STEPS = 320
"""Length of the trainings in which the cost is measured."""

Values = dict[int, float]
"""Step -> value."""


class Difference(NamedTuple):
    """A step at which the framework's value and the recorded one differ; None is a missing value."""

    step: int
    own: float | None
    recorded: float | None


class Cost(NamedTuple):
    """Seconds per step without and with the hook, of each pair of trainings."""

    pairs: list[tuple[float, float]]

    def __str__(self) -> str:
        """Return the ratio of the two as its median and range, and the median time without the hook."""
        ratios = sorted(watched / plain for plain, watched in self.pairs)
        plain_ms = 1e3 * median(plain for plain, _ in self.pairs)
        return f"{median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) x {plain_ms:.2f} ms"


class NotInstalledError(AssertionError):
    """A framework that a test needs is missing; the text says how to install it."""


def environment(tower: Tower, packages: Sequence[str]) -> dict[str, str]:
    """Return the variables of a process that trains with the packages of these requirements files.

    Raises:
        NotInstalledError: a package is missing, or is there in another version.
    """
    for name in packages:
        if missing := missing_of(name, FOLDER / name):
            raise NotInstalledError(
                f"Cannot train: {', '.join(missing)} missing in {(FOLDER / name).relative_to(ROOT)}. "
                f"Run `make build/stamps/real-trainers/{name}`."
            )
    delete_locks(EXTENSIONS)
    path = os.pathsep.join(map(str, [ROOT, *(FOLDER / name for name in packages)]))
    own = {"TOCSIN_URL": tower.base, "TOCSIN_TOKEN": tower.token, "PYTHONPATH": path}
    own |= {"TOCSIN_SPOOL_DIR": str(tower.directory / "spool"), "OMP_NUM_THREADS": "1"}
    own |= {"HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore", "YOLO_CONFIG_DIR": str(FOLDER / "ultralytics")}
    return os.environ | own | {"TORCH_EXTENSIONS_DIR": str(EXTENSIONS)}


def delete_locks(extensions: Path) -> None:
    """Delete the locks that killed builds have left. torch would wait for them indefinitely."""
    for lock in extensions.glob("*/lock"):
        if time.time() - lock.stat().st_mtime > LONGEST_S:
            lock.unlink(missing_ok=True)


def missing_of(requirements: str, folder: Path) -> list[str]:
    """Return the lines of ``NAME.txt`` that the folder does not hold in that version."""
    lines = Path(__file__).with_name(f"{requirements}.txt").read_text("utf-8").splitlines()
    wanted = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    found = {
        f"{one.name}=={one.version}".replace("_", "-").lower() for one in distributions(path=[str(folder)])
    }
    return [line for line in wanted if line not in found]


@dataclass(frozen=True)
class Recorded:
    """One run as the server holds it."""

    row: dict[str, Any]
    records: list[dict[str, Any]]
    alerts: list[dict[str, Any]]
    events: list[dict[str, Any]]

    @property
    def warnings(self) -> list[str]:
        """Warnings of the config check."""
        found = [
            one for event in self.events if event["kind"] == "preflight" for one in event["data"]["findings"]
        ]
        return [
            f"{one['check']}: {one['subject']}: {one['got']}" for one in found if one["severity"] == "warning"
        ]

    @property
    def epochs(self) -> list[int]:
        """Epochs that began, in order, as rank 0 reported them."""
        return [event["data"]["epoch"] for event in self.events if event["kind"] == "epoch"]

    @property
    def fired(self) -> list[tuple[str, int]]:
        """(rule, onset step) of every alert."""
        return [(one["rule"], one["onset_step"]) for one in self.alerts]

    @property
    def ranks(self) -> set[tuple[int, int]]:
        """(attempt, rank) of its writers."""
        return {(record["attempt"], record["rank"]) for record in self.records}

    def steps(self, rank: int = 0) -> list[int]:
        """Return the step of each record of a rank that has a loss, in order."""
        mine = [record for record in self.records if record["rank"] == rank]
        return [record["step"] for record in mine if "loss" in record["values"]]

    def series(self, name: str, rank: int = 0) -> Values:
        """Return the recorded values of a series of a rank."""
        mine = [record for record in self.records if record["rank"] == rank and name in record["values"]]
        return {record["step"]: float(record["values"][name]) for record in mine}


class Comparison:
    """One training script, run once, and its runs on the server."""

    def __init__(self, tower: Tower, training: str, folder: Path, packages: Sequence[str]) -> None:
        self.tower, self.training, self.folder, self.packages = tower, training, folder, packages

    @cached_property
    def logs(self) -> dict[str, Any]:
        """Return the framework's logs with and without the hook, as the script wrote them."""
        out = self.folder / f"{self.training}.json"
        self.run([self.script, str(out), self.training])
        found: dict[str, Any] = json.loads(out.read_text("utf-8"))
        return found

    @property
    def script(self) -> str:
        """Path of the training."""
        return str(TRAININGS / f"{self.training}.py")

    def run(self, arguments: list[str], **more: str) -> str:
        """Run Python to its end and return its stdout; fail with its stderr if it failed, or the hook did."""
        variables = environment(self.tower, self.packages) | more
        line = [sys.executable, *arguments]
        done = subprocess.run(
            line, env=variables, capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        assert "internal error" not in done.stderr, done.stderr[-4000:]
        return done.stdout

    def configured(self, case: str, path: str) -> Any:
        """Return a setting in the configuration of the run; ``path`` has dots between keys."""
        row = self.recorded(case).row
        found = self.tower.get(f"/runs/{row['id']}")["config"]
        for key in path.split("."):
            found = found[key]
        return found

    def evaluated(self, case: str) -> dict[str, Values]:
        """Return the evaluation metrics that the framework logged under the hook."""
        return by_step(self.logs["watched"][case]["evaluated"])

    def metrics(self, case: str) -> dict[str, Values]:
        """Return the other metrics that the framework logged under the hook."""
        return by_step(self.logs["watched"][case]["metrics"])

    def recorded(self, case: str) -> Recorded:
        """Return the run of a case, once it has ended."""
        assert self.logs
        return recorded(self.tower, f"{self.training}-{case}")

    def own(self, case: str) -> dict[str, Values]:
        """Return what the framework logged under the hook."""
        return series_of(self.logs["watched"][case])

    def differences(self, case: str, name: str) -> list[Difference]:
        """Return the steps at which the framework's log and the run disagree, or only one has a value."""
        return differences(self.own(case)[name], self.recorded(case).series(name))

    def weights_are_equal(self, case: str) -> bool:
        """Return whether the weights at the end are bit-identical with and without the hook."""
        found: bool = self.logs["plain"][case]["weights"] == self.logs["watched"][case]["weights"]
        return found

    def cost(self) -> Cost:
        """Train in pairs, without and with the hook, in one process; return the times of a step."""
        out = self.folder / f"{self.training}-cost.json"
        self.run([self.script, str(out), f"{self.training}-cost", "cost"], TRAINING_STEPS=str(COST_STEPS))
        return Cost([(plain, watched) for plain, watched in json.loads(out.read_text("utf-8"))])

    def ranks(self, launcher: list[str]) -> tuple[Recorded, list[dict[str, Values]]]:
        """Train on two ranks; return the run, and the log of each rank."""
        out = self.folder / f"{self.training}-ranks.json"
        self.run([*launcher, self.script, str(out), self.training, "ranks"])
        logs = [json.loads(Path(f"{out}.{rank}").read_text("utf-8")) for rank in range(2)]
        return recorded(self.tower, f"{self.training}-ranks"), [series_of(log) for log in logs]


def recorded(tower: Tower, name: str) -> Recorded:
    """Return the one run of that name, once it has ended."""
    rows = wait_for(lambda: ended(tower, name), f"the end of {name}")
    assert len(rows) == 1, f"{len(rows)} runs are called {name}"
    run = rows[0]["id"]
    events = tower.get(f"/runs/{run}/events", limit=1000)["items"]
    return Recorded(rows[0], tower.records(run), tower.alerts(run), events)


def ended(tower: Tower, name: str) -> list[dict[str, Any]]:
    """Return the runs of that name if all have ended."""
    rows = [row for row in tower.get("/runs", limit=500)["items"] if row["name"] == name]
    return [] if any(row["state"] in ("running", "stalled") for row in rows) else rows


def series_of(log: dict[str, Any]) -> dict[str, Values]:
    """Return the series of a log."""
    return by_step(log["series"])


def by_step(found: dict[str, Any]) -> dict[str, Values]:
    """Return series with whole steps; JSON has them as text."""
    return {name: {int(step): value for step, value in values.items()} for name, values in found.items()}


def differences(own: Values, recorded: Values) -> list[Difference]:
    """Return the steps at which they are not equal."""
    pairs = [Difference(step, own.get(step), recorded.get(step)) for step in sorted(own | recorded)]
    return [pair for pair in pairs if not is_equal(pair.own, pair.recorded)]


def is_equal(one: float | None, other: float | None) -> bool:
    """Return whether two values are equal up to float32 rounding; NaN equals NaN."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=RELATIVE) or (math.isnan(one) and math.isnan(other))
