"""``tocsin import wandb://...``: the real package wandb reads runs from a small server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Tower, wait_for
from tests.hook.auto.test_start import Done, address, execute
from tests.hook.ingest_server import closed_port
from tests.matrix import LONG
from tests.trackers.wandb_server import ENTITY, KEY, NONFINITE, PROJECT, WandbServer

PACKAGES = Path(__file__).resolve().parents[2] / "build" / "trackers" / "wandb"
PLACE = f"{ENTITY}/{PROJECT}"
NAMES = {"train/loss": "loss", "train/grad_norm": "grad_norm"}
"""tocsin's names of what is logged; others keep their own."""
UNREACHABLE = {"WANDB_BASE_URL": f"http://127.0.0.1:{closed_port()}", "WANDB_HTTP_TIMEOUT": "2"}

pytestmark = LONG


@pytest.fixture
def wandb() -> Iterator[WandbServer]:
    """A server of W&B."""
    assert PACKAGES.is_dir(), "Run `make build/stamps/trackers/wandb`."
    with WandbServer().serving() as serving:
        yield serving


class Imports:
    """Calls the command with an empty home directory."""

    def __init__(self, tower: Tower, wandb: WandbServer, folder: Path) -> None:
        self.tower = tower
        own = {"HOME": str(folder), "PYTHONPATH": str(PACKAGES), "WANDB_ERROR_REPORTING": "false"}
        self.environ = {**own, **address(tower), "WANDB_API_KEY": KEY, "WANDB_BASE_URL": wandb.url}
        self.outcomes: list[dict[str, Any]] = []

    def __call__(self, place: str, **environ: str) -> Done:
        """Import what is there."""
        return execute(sys.executable, "-m", "tocsin.cli", "import", place, **{**self.environ, **environ})

    def by_name(self, place: str) -> dict[str, dict[str, Any]]:
        """Import what is there, and return the results by the names of the runs."""
        command = (sys.executable, "-m", "tocsin.cli", "import", place, "--json")
        done = execute(*command, **self.environ)
        assert done.stdout, done.stderr
        return {one["name"]: one for one in json.loads(done.stdout)}

    def records(self, outcome: dict[str, Any]) -> list[tuple[int, dict[str, str]]]:
        """Return steps and values that arrived."""
        return [(one["step"], texts(one["values"])) for one in self.tower.records(outcome["run"])]


@pytest.fixture
def imports(shared_tower: Tower, wandb: WandbServer, tmp_path: Path) -> Imports:
    """The command."""
    return Imports(shared_tower, wandb, tmp_path)


def texts(values: dict[str, Any]) -> dict[str, str]:
    """Return numbers as text, in which NaN equals NaN."""
    return {name: repr(float(value)) for name, value in values.items()}


def logged(run: dict[str, Any]) -> list[tuple[int, dict[str, str]]]:
    """Return steps and numbers in the file of runs."""
    found = []
    for row in run["rows"]:
        nested = {f"val.{name}": value for name, value in row.get("val", {}).items()}
        values = {
            NAMES.get(name, name): value
            for name, value in {**row, **nested}.items()
            if name[0] != "_" and (type(value) in (int, float) or value in NONFINITE)
        }
        found.append((row["_step"], texts(values)))
    return found


@pytest.mark.parametrize("exported", [0, 7, 12])
def test_every_value_arrives_at_its_step(imports: Imports, wandb: WandbServer, exported: int) -> None:
    """NaN and infinities too, in pages, and if W&B has exported the first rows as Parquet. Texts, booleans
    and media are left out.
    """
    wandb.exported = {"owl1": exported}
    outcome = imports.by_name(f"wandb://{PLACE}")["swift owl"]
    assert outcome["ok"]
    assert imports.records(outcome) == logged(wandb.runs["owl1"])


def test_a_run_has_what_w_and_b_knows_of_it(imports: Imports) -> None:
    """Name, project, configuration, tags, notes, results without media, and that it crashed."""
    outcome = imports.by_name(f"wandb://{PLACE}/owl1")["swift owl"]
    run = imports.tower.get(f"/runs/{outcome['run']}")
    assert (run["project"], run["state"], run["notes"]) == (PROJECT, "failed", "second try")
    assert sorted(run["tags"]) == ["baseline", "fp16", "imported"]
    config = {name: run["config"][name] for name in ("lr", "amp", "model", "group", "job_type", "path")}
    sweep = {"group": "sweep-a", "job_type": "train", "path": f"{PLACE}/owl1"}
    assert config == {"lr": 0.1, "amp": True, "model": {"depth": 12}, **sweep}
    assert run["environment"]["summary"] == {"train/loss": 0.208333, "best": 0.9}
    assert "W&B says that the run crashed" in {one["summary"] for one in imports.tower.alerts(run["id"])}


def test_every_run_of_a_project_is_found(imports: Imports, wandb: WandbServer) -> None:
    """Also on the second page, and without a name."""
    assert list(imports.by_name(f"wandb://{PLACE}")) == ["swift owl", "quiet fox", "elk3"]
    assert wandb.asked.count("Runs") == 2


def test_the_address_in_the_browser_is_understood(imports: Imports, wandb: WandbServer) -> None:
    """That of a run, with a page after it."""
    assert list(imports.by_name(f"{wandb.url}/{PLACE}/runs/elk3/overview?nw=abc")) == ["elk3"]


def test_the_steps_of_a_step_metric_are_used(imports: Imports) -> None:
    """``define_metric("*", step_metric=...)``."""
    (outcome,) = imports.by_name(f"wandb://{PLACE}/fox2").values()
    assert [step for step, _ in imports.records(outcome)] == [10, 20, 30, 40, 50, 60, 70, 80]


def test_importing_again_sends_what_is_new(imports: Imports, wandb: WandbServer) -> None:
    """Also if W&B has exported more meanwhile. Then there is nothing new."""
    run, wandb.exported = wandb.runs["owl1"], {"owl1": 4}
    rows, run["rows"] = run["rows"], run["rows"][:8]
    done = []
    for number in (8, 12, 12):
        run["rows"], wandb.exported["owl1"] = rows[:number], number - 4
        (outcome,) = imports.by_name(f"wandb://{PLACE}/owl1").values()
        done.append((outcome["new"], outcome["text"].split(", ")[1]))
    assert done == [(8, "8 records"), (4, "4 new records"), (0, "already imported")]
    assert imports.records(outcome) == logged(run)


def test_a_project_is_diagnosed(imports: Imports) -> None:
    """Without a server of tocsin."""
    command = (sys.executable, "-m", "tocsin.cli", "diagnose", f"wandb://{PLACE}")
    done = execute(*command, **imports.environ)
    assert done.stdout.startswith("3 runs, 1 with problems")
    assert f"{PLACE}/owl1: Gradient norm has been non-finite since step 2000" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_that_is_deleted_meanwhile_keeps_its_beginning(imports: Imports, wandb: WandbServer) -> None:
    """The others are imported, and the result says so."""

    def delete(operation: str, variables: dict[str, Any]) -> int:
        if operation == "HistoryPage" and variables["run"] == "owl1" and variables["minStep"]:
            wandb.runs.pop("owl1", None)
        return 200

    wandb.before, rows = delete, logged(wandb.runs["owl1"])
    found = imports.by_name(f"wandb://{PLACE}")
    assert "3 records, stopped early: the run was deleted, run" in found["swift owl"]["text"]
    assert imports.records(found["swift owl"]) == rows[:3]
    assert [found[name]["ok"] for name in ("quiet fox", "elk3")] == [True, True]


def test_a_run_that_is_deleted_before_it_is_read_is_named(imports: Imports, wandb: WandbServer) -> None:
    """The others are imported, and the exit status is 1."""

    def delete(operation: str, variables: dict[str, Any]) -> int:
        if operation == "Run":
            wandb.runs.pop("owl1", None)
        return 200

    wandb.before = delete
    done = imports(f"wandb://{PLACE}")
    assert f"{PLACE}/owl1: the run was deleted\n" in done.stdout
    assert "2 runs" in done.stdout
    assert done.returncode == 1


def test_a_rate_limit_is_waited_for(imports: Imports, wandb: WandbServer) -> None:
    """The package repeats a request."""
    limited = iter([429, 429])
    wandb.before = lambda operation, _: next(limited, 200) if operation == "HistoryPage" else 200
    (outcome,) = imports.by_name(f"wandb://{PLACE}/owl1").values()
    assert imports.records(outcome) == logged(wandb.runs["owl1"])
    assert next(limited, None) is None


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_import_continues(imports: Imports, wandb: WandbServer) -> None:
    """Ctrl-C while W&B limits the rate; the next import sends the rest."""

    def limit(operation: str, variables: dict[str, Any]) -> int:
        return 429 if operation == "HistoryPage" and variables["minStep"] else 200

    wandb.before, command = limit, (sys.executable, "-m", "tocsin.cli", "import", f"wandb://{PLACE}/owl1")
    with subprocess.Popen(command, env=os.environ | imports.environ, stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: wandb.asked.count("HistoryPage") > 1, "the second page")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    wandb.before = lambda *_: 200
    (outcome,) = imports.by_name(f"wandb://{PLACE}/owl1").values()
    assert imports.records(outcome) == logged(wandb.runs["owl1"])


@pytest.mark.parametrize(
    ("place", "environ", "why"),
    [
        ("wandb://nobody/speech", {}, "there is no such project, or your API key may not read it"),
        (f"wandb://{PLACE}/gone", {}, "there is no such run, or your API key may not read it"),
        (f"https://wandb.ai/{PLACE}", {}, "Set WANDB_BASE_URL to the server at wandb.ai"),
        (f"wandb://{PLACE}", {"WANDB_API_KEY": ""}, "Run `wandb login`, or set WANDB_API_KEY"),
        (f"wandb://{PLACE}", {"PYTHONPATH": ""}, "wandb is missing. Install it: pip install wandb"),
        (f"wandb://{PLACE}", UNREACHABLE, "Check the network and WANDB_BASE_URL"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(
    imports: Imports, place: str, environ: dict[str, str], why: str
) -> None:
    """With the reason and what to do; the exit status is 1."""
    done = imports(place, **environ)
    assert why in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert (done.returncode, done.stderr) == (1, "")


def test_a_key_that_is_rejected_is_one_sentence(imports: Imports, wandb: WandbServer) -> None:
    """With W&B's own words."""
    wandb.before = lambda *_: 401
    done = imports(f"wandb://{PLACE}")
    assert "Failed to verify credentials" in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert (done.returncode, done.stderr) == (1, "")
