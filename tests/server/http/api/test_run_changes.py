"""What differs from what was healthy, over the API."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.server.http.api.test_channels import ask

CONFIG = {"lr": 0.1, "model": {"width": 8}, "batch": 32}
GOOD = {"loss": [1.0] * 20}
NAN = {"loss": [1.0] * 10 + [math.nan] * 10}


@pytest.fixture(scope="module")
def names() -> Iterator[int]:
    """Numbers of projects, so that every test has one of its own."""
    return iter(range(10**9))


@pytest.fixture
def project(names: Iterator[int], kind: str) -> str:
    return f"changes {kind} {next(names)}"


def incident_of(server: Any, run: str) -> str:
    (incident,) = server.get("/incidents", run=run)["items"]
    return str(incident["id"])


def healthy(trainer: Callable[..., Any], **hello: Any) -> Any:
    """A run that finishes."""
    run = trainer(**{"config": CONFIG} | hello)
    run.records(GOOD)
    run.finish()
    return run


def test_a_broken_run_is_compared_with_the_most_similar_healthy_one(
    server: Any, trainer: Callable[..., Any], project: str
) -> None:
    """Only the learning rate is the same in all failing runs and in no healthy one."""
    for width in (8, 9, 16):
        healthy(trainer, project=project, name=f"good {width}", config=CONFIG | {"model": {"width": width}})
    for lr in (3.0, 3.0):
        bad = trainer(project=project, config=CONFIG | {"lr": lr, "model": {"width": 9}})
        bad.records(NAN)
    answer = server.get(f"/incidents/{incident_of(server, bad.run)}/changes")
    assert (answer["failing"], answer["healthy"], answer["attempt"]) == (2, 3, 1)
    (found,) = answer["comparisons"]
    assert (found["kind"], found["run_name"], found["attempt"]) == ("run", "good 9", None)
    assert found["text"] == "the most similar healthy run (2 of 3 settings are equal)"
    (change,) = found["changes"]
    assert change == {
        "category": "config",
        "name": "lr",
        "before": "0.1",
        "after": "3.0",
        "only_failing": True,
        "text": "Differs in all 2 failing runs and in none of the 3 healthy runs of this project.",
    }


def test_the_broken_attempt_is_compared_with_the_last_healthy_one(
    server: Any, trainer: Callable[..., Any], project: str
) -> None:
    """Each attempt keeps its own environment, also when a later one has begun."""
    for attempt, (commit, records) in enumerate(
        (("aaa", GOOD), ("bbb", GOOD), ("ccc", NAN), ("ddd", GOOD)), 1
    ):
        run = trainer(project=project, config=CONFIG, run=project.replace(" ", "_"))
        run.event("environment", config=CONFIG | {"lr": attempt}, git={"commit": commit, "branch": "main"})
        run.records(records, first_step=20 * attempt)
    answer = server.get(f"/incidents/{incident_of(server, run.run)}/changes")
    assert answer["attempt"] == 3
    (found,) = answer["comparisons"]
    assert (found["kind"], found["attempt"]) == ("attempt", 2)
    assert [(each["name"], each["before"], each["after"]) for each in found["changes"]] == [
        ("lr", "2", "3"),
        ("commit", "bbb", "ccc"),
    ]
    assert server.get(f"/runs/{run.run}")["environment"]["git"] == {"commit": "ddd", "branch": "main"}


def test_the_newest_attempt_is_compared_with_a_chosen_one(
    server: Any, trainer: Callable[..., Any], project: str
) -> None:
    """Whether that one was healthy or not; an attempt that the run does not have is unknown."""
    for lr, records in ((1, GOOD), (2, NAN), (3, GOOD)):
        run = trainer(project=project, config=CONFIG, run=project.replace(" ", "_"))
        run.event("environment", config=CONFIG | {"lr": lr})
        run.records(records, first_step=20 * lr)
    (found,) = server.get(f"/runs/{run.run}/changes", attempt=2)["comparisons"]
    assert (found["kind"], found["attempt"], found["text"]) == (
        "attempt",
        2,
        "an earlier attempt of this run",
    )
    assert [(each["name"], each["before"], each["after"]) for each in found["changes"]] == [("lr", "2", "3")]
    assert ask(server, "GET", f"/runs/{run.run}/changes?attempt=9").status_code == 404


def test_the_uncommitted_changes_are_part_of_the_answer_but_not_of_the_run(
    server: Any, trainer: Callable[..., Any], project: str
) -> None:
    run = trainer(project=project)
    run.event("environment", git={"commit": "a", "dirty": True, "diff": "+lr = 3"}, packages={"torch": "2.6"})
    run.records(GOOD)
    assert server.get(f"/runs/{run.run}/changes")["diff"] == "+lr = 3"
    environment = server.get(f"/runs/{run.run}")["environment"]
    assert environment["git"] == {"commit": "a", "dirty": True}
    assert "packages" not in environment


def test_packages_are_compared_between_runs(server: Any, trainer: Callable[..., Any], project: str) -> None:
    for version, records in (("2.5", GOOD), ("2.6", NAN)):
        run = trainer(project=project, name="net 1", config=CONFIG)
        run.event("environment", packages={"torch": version})
        run.records(records)
        run.finish()
    (found,) = server.get(f"/runs/{run.run}/changes")["comparisons"]
    assert [(each["category"], each["name"]) for each in found["changes"]] == [("versions", "torch")]
    assert found["not_recorded"] == ["command line", "git commit", "GPUs"]


def test_a_run_without_anything_healthy_has_no_comparisons(
    server: Any, trainer: Callable[..., Any], project: str
) -> None:
    """Neither has a run without a step."""
    run = trainer(project=project)
    assert server.get(f"/runs/{run.run}/changes")["comparisons"] == []
    run.records(NAN)
    answer = server.get(f"/runs/{run.run}/changes")
    assert answer == {
        "run_id": run.run, "attempt": 1, "failing": 1, "healthy": 0, "comparisons": [], "diff": "",
    }  # fmt: skip


def test_an_unknown_run_or_incident_has_no_changes(server: Any) -> None:
    for path in ("/runs/r_missing/changes", "/incidents/r_missing.f.1/changes", "/incidents/x/changes"):
        assert ask(server, "GET", path).status_code == 404


def test_a_new_attempt_does_not_show_the_commit_of_the_one_before(
    server: Any, trainer: Callable[..., Any], project: str
) -> None:
    """It may have switched the recording off. A connection of the same process changes nothing."""
    run = trainer(project=project)
    run.event("environment", git={"commit": "a"}, data={"train": "c4"})
    run.event("environment", data={"val": "pile"})
    environment = server.get(f"/runs/{run.run}")["environment"]
    assert (environment["git"], environment["data"]) == ({"commit": "a"}, {"train": "c4", "val": "pile"})
    again = trainer(project=project, run=run.run)
    again.event("metric", name="val/x")
    assert server.get(f"/runs/{run.run}")["environment"].keys().isdisjoint({"git", "data"})


def test_a_postmortem_says_what_changed(server: Any, trainer: Callable[..., Any], project: str) -> None:
    """Names of settings cannot break its table."""
    healthy(trainer, project=project, name="good *1*")
    bad = trainer(project=project, config=CONFIG | {"lr": 3.0, "a|b": None})
    bad.records(NAN)
    path = f"/incidents/{incident_of(server, bad.run)}/postmortem?format=markdown"
    section = ask(server, "GET", path).text.partition("## What changed")[2].partition("\n## ")[0]
    assert "good \\*1\\*, the most similar healthy run (2 of 4 settings are equal):" in section
    assert "| lr | 0.1 | 3.0 |" in section
    assert "a\\|b | not set | none |" in section


def test_an_alert_belongs_to_the_attempt_that_was_running_although_it_connected_later(
    server: Any, trainer: Callable[..., Any], project: str
) -> None:
    """The second attempt is broken from its first step, which it computed before its handshake."""
    for ago_s, records in ((60, GOOD), (30, NAN)):
        time_ns = time.time_ns() + ago_s * 1_000_000_000
        run = trainer(project=project, config=CONFIG, run=project.replace(" ", "_"), time_ns=time_ns)
        run.event("attached", optimizers=[], scalers=[])
        run.records(records, first_step=60 - ago_s)
    assert server.get(f"/incidents/{incident_of(server, run.run)}/changes")["attempt"] == 2


def test_the_optimizer_of_an_earlier_attempt_is_known(
    server: Any, trainer: Callable[..., Any], project: str
) -> None:
    """From its events, or for the newest attempt from its handshake."""
    adam = [{"name": "opt1", "class": "Adam", "defaults": {"lr": 0.1}}]
    first = trainer(project=project, optimizers=adam)
    first.event("environment", optimizers=adam, versions={})
    first.records(GOOD)
    faster = [adam[0] | {"defaults": {"lr": 0.5}}]
    second = trainer(project=project, run=first.run, optimizers=faster)
    second.event("attached", optimizers=[], scalers=[])
    second.records(NAN, first_step=20)
    (found,) = server.get(f"/runs/{first.run}/changes")["comparisons"]
    assert [(each["category"], each["name"], each["after"]) for each in found["changes"]] == [
        ("schedule", "optimizer.opt1.defaults.lr", "0.5")
    ]
