"""A real training breaks, restarts from the checkpoint that tocsin names, and recovers with half the rate."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import Tower, wait_for
from tests.matrix import LONG
from tests.scenarios.diverging import BROKEN_AT, STEPS

SCRIPT = Path(__file__).with_name("diverging.py")
RATES = ("1.5", "0.75")
"""Learning rates of the second and the third attempt. Only the first of them diverges."""


def execute(tower: Tower, *command: str) -> str:
    """Run ``python COMMAND`` with the variables of the hook; return what it printed."""
    own = {
        "TOCSIN_URL": tower.base,
        "TOCSIN_TOKEN": tower.token,
        "TOCSIN_SPOOL_DIR": str(tower.directory / "spool"),
        "PYTHONPATH": str(SCRIPT.parents[2]),
    }
    line = [sys.executable, *command]
    return subprocess.run(line, env=os.environ | own, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def broken(tower_of_the_module: Tower, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tower, str, Path]:
    """The server, the id of the broken run, and the folder of its checkpoints, of which one was deleted."""
    tower, folder = tower_of_the_module, tmp_path_factory.mktemp("checkpoints")
    execute(tower, str(SCRIPT), "diverging", str(folder), "1e30")
    row = wait_for(lambda: tower.run_named("diverging"), "the run")
    wait_for(lambda: tower.run_named("diverging")["state"] == "finished", "its end")  # type: ignore[index]
    return tower, str(row["id"]), folder


def test_the_incident_names_the_checkpoint_before_the_onset(broken: tuple[Tower, str, Path]) -> None:
    """Under its final name. The one after it holds NaN weights, which is true of the file."""
    tower, run, folder = broken
    answer = tower.get(f"/runs/{run}/checkpoints")
    assert answer["last_good"]["path"] == str(folder / "ckpt_250.pt")
    assert answer["last_good"]["size"] == (folder / "ckpt_250.pt").stat().st_size
    named = {Path(item["path"]).name: item["problem"] for item in answer["items"]}
    assert named["ckpt_300.pt"] == "holds NaN weights"
    assert "writing.tmp" not in named
    onset = int(answer["text"].partition("250, ")[2].partition(" ")[0]) + 250
    assert BROKEN_AT <= onset <= BROKEN_AT + 1
    assert "; ckpt_350.pt was written after it and holds NaN weights." in answer["text"]
    weights = torch.load(folder / "ckpt_300.pt")["net"]
    assert any(not bool(torch.isfinite(tensor).all()) for tensor in weights.values())


def test_the_first_action_names_the_file(broken: tuple[Tower, str, Path]) -> None:
    """As a sentence, with the line that loads it."""
    tower, run, folder = broken
    remedies = [remedy for alert in tower.alerts(run) for remedy in alert["diagnosis"]["remedies"]]
    named = [remedy for remedy in remedies if f'torch.load("{folder}/ckpt_250.pt"' in remedy.get("code", "")]
    assert named
    assert all("ckpt_250.pt (step 250" in remedy["text"] for remedy in named)


@LONG
def test_the_training_recovers_with_half_the_rate(broken: tuple[Tower, str, Path]) -> None:
    """A restart script asks for the path, as a shell does, after newer files were deleted.

    Twice: the first rate is still too high.
    """
    tower, run, folder = broken
    for each in ("ckpt_200.pt", "ckpt_250.pt"):
        away = (folder / each).rename(folder.parent / each)
        other = execute(tower, "-m", "tocsin.cli", "checkpoints", run, "--path").strip()
        assert Path(other).name == {"ckpt_200.pt": "ckpt_250.pt", "ckpt_250.pt": "ckpt_200.pt"}[each]
        away.rename(folder / each)
    path = execute(tower, "-m", "tocsin.cli", "checkpoints", run, "--path").strip()
    assert path == str(folder / "ckpt_250.pt")
    for rate in RATES:
        execute(tower, str(SCRIPT), "diverging", str(folder), rate, path, run)
    losses = {record["step"]: record["values"]["loss"] for record in newest(tower, run)}
    assert list(losses) == list(range(251, STEPS))
    assert all(math.isfinite(loss) for loss in losses.values())
    assert losses[STEPS - 1] < losses[251] * 2

    def known() -> dict[str, Any] | None:
        answer: dict[str, Any] = tower.get(f"/runs/{run}/checkpoints")
        newest = answer["last_good"]["path"], answer["last_good"]["attempt"]
        return answer if newest == (str(folder / "ckpt_350.pt"), 3) else None

    answer = wait_for(known, "the last checkpoint of the third attempt")
    assert "holds NaN weights" not in {item["problem"] for item in answer["items"]}


@LONG
def test_each_remedy_is_linked_with_its_outcome(broken: tuple[Tower, str, Path]) -> None:
    """Both attempts belong to the incident: the second was broken at once, the third recovered."""
    tower, run, _ = broken
    found = [each for each in tower.get("/incidents", run=run)["items"] if each["severity"] == "critical"]
    (incident,) = found
    again, held = tower.get(f"/incidents/{incident['id']}/remedies")["items"]
    assert (again["outcome"], held["outcome"]) == ("recurred", "recovered")
    assert abs(again["step"] - BROKEN_AT) < 20
    assert held["changed"] == "Continues from step 250 with lr lowered from 1e+30 to 0.75."
    assert incident["state"] == "resolved"


def newest(tower: Tower, run: str) -> list[dict[str, Any]]:
    """Return the records of the third attempt, once all have arrived."""

    def found() -> list[dict[str, Any]]:
        every = [record for record in tower.records(run) if record["attempt"] == 3]
        return every if len(every) >= STEPS - 251 else []

    records: list[dict[str, Any]] = wait_for(found, "the records of the third attempt")
    return records
