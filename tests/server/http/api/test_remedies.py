"""What was tried after an incident, over the API."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.server.conftest import wait_until
from tests.server.http.api.test_channels import ask

ONSET, LAST = 40, 141
"""The onset, and the last step that is compared: 100 steps after the alert."""
CONFIG = {"lr": 0.1, "width": 8, "batch_size": 32, "layers": 2, "dropout": 0.1}
Trains = Callable[..., Any]


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    return iter(range(10**9))


@pytest.fixture
def project(numbers: Iterator[int], kind: str) -> str:
    return f"remedies {kind}/{next(numbers)}"


@pytest.fixture
def trains(trainer: Callable[..., Any], project: str) -> Trains:
    """``trains(0, 200, nan_from=40)``: an attempt that trains these steps."""

    def train(first: int, last: int, *, lr: float = 0.1, nan_from: int | None = None, **hello: Any) -> Any:
        broken_at = math.inf if nan_from is None else nan_from
        run = trainer(**{"project": project} | hello)
        steps = range(first, last + 1)
        loss = [math.nan if step >= broken_at else 1.0 + 0.01 * (step % 7) for step in steps]
        run.records({"loss": loss, "lr": [lr] * len(loss)}, first_step=first)
        return run

    return train


def broken(server: Any, trains: Trains, **hello: Any) -> tuple[str, str]:
    """Return the ids of a run whose loss is NaN from step 40 on, and of its incident."""
    run = trains(0, 80, nan_from=ONSET, **hello)
    run.finish()
    (incident,) = server.get("/incidents", run=run.run)["items"]
    wait_until(lambda: time.time() * 1000 > incident["onset_ms"] + 5, "a time after the onset")
    return run.run, incident["id"]


def remedies(server: Any, incident: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = server.get(f"/incidents/{incident}/remedies")["items"]
    return items


def test_an_attempt_with_half_the_rate_recovers(server: Any, trains: Trains) -> None:
    """The configuration says nothing; the recorded learning rate does."""
    run, incident = broken(server, trains)
    trains(30, 200, lr=0.05, run=run)
    answer = server.get(f"/incidents/{incident}/remedies")
    assert answer["stretch"]["onset"] == ONSET
    (found,) = answer["items"]
    assert (found["outcome"], found["attempt"], found["label"]) == ("recovered", 2, "lr lowered")
    assert found["changed"] == "Continues from step 29 with lr halved."
    (change,) = found["changes"]
    assert (change["before"], change["after"], change["recorded"]) == ("0.1", "0.05", True)
    assert (found["loss_before"], found["loss_after"]) == ("NaN", 1.03)
    assert answer["text"].endswith("recovered: continues from step 29 with lr halved.")


def test_an_attempt_that_breaks_again_recurs(server: Any, trains: Trains) -> None:
    run, incident = broken(server, trains)
    trains(30, 200, nan_from=60, run=run)
    (found,) = remedies(server, incident)
    assert (found["outcome"], found["step"]) == ("recurred", 60)
    assert found["changed"] == "Continues from step 29 without a known change."
    assert (found["label"], found["text"]) == ("resumed unchanged", "Recurred at step 60.")


def test_a_remedy_of_any_run_of_a_shared_incident_is_found(server: Any, trains: Trains) -> None:
    """Two runs fail together, and each in turn is resumed with half the learning rate."""
    runs = [trains(0, ONSET - 1), trains(0, ONSET - 1)]
    for run in runs:
        run.records({"loss": [math.nan] * 40, "lr": [0.1] * 40}, first_step=ONSET)
    (incident,) = server.get("/incidents", run=runs[0].run)["items"]
    assert {each["id"] for each in incident["runs"]} == {run.run for run in runs}
    for run in runs:
        run.finish()
        trains(30, 200, lr=0.05, run=run.run)
        assert (run.run, "recovered") in [
            (each["run_id"], each["outcome"]) for each in remedies(server, incident["id"])
        ]


def test_an_attempt_in_the_stretch_says_nothing_yet(server: Any, trains: Trains) -> None:
    run, incident = broken(server, trains)
    trains(30, ONSET + 5, run=run)
    (found,) = remedies(server, incident)
    assert (found["outcome"], found["step"]) == ("too-early", None)
    assert found["text"].startswith("Too early: the attempt is at step 45 ")


def test_an_attempt_after_the_onset_is_no_remedy(server: Any, trains: Trains) -> None:
    run, incident = broken(server, trains)
    trains(ONSET + 1, 300, run=run)
    assert server.get(f"/incidents/{incident}/remedies")["text"] == ""
    assert remedies(server, incident) == []


def test_a_later_run_of_the_same_configuration_is_linked(server: Any, trains: Trains) -> None:
    """One with two settings changed; not one that has nothing in common, and not one from before."""
    trains(0, 200, config=CONFIG)
    _, incident = broken(server, trains, config=CONFIG)
    trains(0, 200, config={"data": "other"})
    again = trains(0, 200, lr=0.02, config=CONFIG | {"lr": 0.02, "output_dir": "/b"})
    (found,) = remedies(server, incident)
    assert (found["run_id"], found["outcome"]) == (again.run, "recovered")
    assert found["changed"] == "Starts over with lr divided by 5."


def test_a_run_that_names_the_checkpoint_is_linked(server: Any, trains: Trains) -> None:
    """However much else differs."""
    run = trains(0, 30)
    run.event("checkpoint", step=20, path="/runs/a/ckpt_20.pt")
    run.records({"loss": [math.nan] * 20}, first_step=31)
    (incident,) = server.get("/incidents", run=run.run)["items"]
    trains(21, 200, config={"resume": "/runs/other/ckpt_20.pt"})
    other = trains(21, 200, config={"resume": "/runs/a/ckpt_20.pt", "x": 1})
    (found,) = remedies(server, incident["id"])
    assert (found["run_id"], found["outcome"]) == (other.run, "recovered")
    assert found["changed"].startswith("Continues from step 20")


def test_the_ledger_counts_what_helped(server: Any, trains: Trains, project: str) -> None:
    for lr, nan_from in ((0.05, None), (0.05, None), (0.05, 50), (0.1, 45)):
        run, _ = broken(server, trains)
        trains(30, 200, lr=lr, nan_from=nan_from, run=run)
    items = server.get(f"/projects/{project}/remedies")["items"]
    counted = [(row["cause"], row["label"], row["held"], row["recurred"], row["open"]) for row in items]
    assert counted[:2] == [
        ("nonfinite-loss", "lr lowered", 2, 1, 0),
        ("nonfinite-loss", "resumed unchanged", 0, 1, 0),
    ]
    assert {case["outcome"] for case in items[0]["cases"]} == {"recovered", "recurred"}


def test_a_similar_incident_and_the_postmortem_name_what_helped(server: Any, trains: Trains) -> None:
    run, first = broken(server, trains)
    trains(30, 200, lr=0.05, run=run)
    _, second = broken(server, trains)
    (similar,) = server.get(f"/incidents/{second}/similar")["items"]
    assert similar["solved"]["changed"] == "Continues from step 29 with lr halved."
    address = f"{server.base}/api/v1/incidents/{first}/postmortem"
    text = httpx.get(address, params={"format": "markdown"}, headers=server.headers, timeout=30).text
    tried = text.partition("## What was tried")[2].partition("##")[0]
    assert "attempt 2 | Continues from step 29 with lr halved. | " in tried


def test_an_unknown_incident_or_project_has_no_remedies(server: Any) -> None:
    assert ask(server, "GET", "/incidents/r_0.f.1/remedies").status_code == 404
    assert ask(server, "GET", "/projects/none/remedies").status_code == 404
