"""What the script creates after hello is in the environment of its run."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tocsin.protocol import Event
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.store.environment import KEPT, learned


def _names(facts: dict[str, Any]) -> list[str]:
    return [one["name"] for one in facts["optimizers"]]


def test_facts_follow_the_events_of_a_run(run_server: Any, dial: Any) -> None:
    """A second optimizer, a scaler and a schedule from events are listed with those of hello."""
    server = run_server()
    client = dial(server.base, "r1", server.token, optimizers=[{"name": "opt1", "class": "SGD"}])
    reported = {
        "optimizers": [{"name": "opt2", "class": "Adam"}],
        "scalers": [{"name": "s", "init_scale": 2.0}],
    }
    client.send(Event(0, "attached", time.time_ns(), data=reported))
    client.send(Event(1, "schedule", time.time_ns(), data={"optimizer": "opt2", "scheduler": "StepLR"}))
    client.acked(client.train([0], loss=[1.0]))
    facts = server.services.reader.run("r1").environment
    assert _names(facts) == ["opt1", "opt2"]
    assert facts["scalers"] == [{"name": "s", "init_scale": 2.0}]
    assert [one["scheduler"] for one in facts["schedulers"]] == ["StepLR"]


def test_the_newest_description_counts() -> None:
    """A repeated description replaces the old one; empty lists change nothing."""
    facts: dict[str, Any] = {"optimizers": [{"name": "a", "lr": 1}, {"name": "b"}], "hosts": ["h"]}
    again = learned(facts, "attached", {"optimizers": [{"name": "a", "lr": 2}], "scalers": []})
    assert again == {"optimizers": [{"name": "a", "lr": 2}, {"name": "b"}], "scalers": [], "hosts": ["h"]}


def test_an_optimizer_is_listed_once_also_if_it_got_its_name_later() -> None:
    """Before its first step it has none; both descriptions can arrive in either order."""
    unnamed = {"optimizers": [{"name": "", "class": "AdamW"}]}
    named = {"optimizers": [{"name": "opt1", "class": "AdamW"}]}
    assert learned(unnamed, "attached", named) == named | {"scalers": []}
    assert learned(named, "attached", unnamed) == named | {"scalers": []}


@pytest.mark.parametrize("data", [{}, {"optimizers": 3}, {"optimizers": ["SGD", None]}])
def test_malformed_descriptions_are_ignored(data: dict[str, Any]) -> None:
    """Events of an older or another client are ignored."""
    assert learned({}, "attached", data)["optimizers"] == []


def test_a_script_that_always_makes_new_ones_keeps_the_newest() -> None:
    """The environment of a run is bounded."""
    reported = {"optimizers": [{"name": f"opt{k}"} for k in range(KEPT + 10)]}
    assert _names(learned({}, "attached", reported)) == [f"opt{k}" for k in range(10, KEPT + 10)]


def test_a_setting_that_changes_after_the_start_changes_the_configuration(run_server: Any, dial: Any) -> None:
    """So does ``run.config.update(...)``, and its summary is shown with the run."""
    server = run_server()
    client = dial(server.base, "r1", server.token, config={"lr": 0.1, "depth": 2})
    client.send(Event(0, "environment", time.time_ns(), data={"config": {"lr": 0.2, "batch": 8}}))
    client.send(Event(1, "environment", time.time_ns(), data={"summary": {"best": 0.5}}))
    client.send(Event(2, "environment", time.time_ns(), data={"summary": {"worst": float("nan")}}))
    client.acked(client.train([0], loss=[1.0]))
    run = server.services.reader.run("r1")
    assert run.config == {"lr": 0.2, "depth": 2, "batch": 8}
    assert run.environment["summary"]["best"] == 0.5
    assert run.environment["summary"]["worst"] == "NaN"


def test_a_length_that_is_known_after_the_start_reaches_the_run_and_its_rules(
    run_server: Any, dial: Any
) -> None:
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.send(Event(0, "environment", time.time_ns(), data={"planned_steps": 500}))
    client.acked(client.train([0], loss=[1.0]))
    assert server.services.reader.run("r1").planned_steps == 500
    assert RunContext().learn("environment", None, {"planned_steps": 500}).planned_steps == 500


def test_a_late_event_of_an_earlier_attempt_does_not_change_the_configuration(
    run_server: Any, dial: Any
) -> None:
    server = run_server()
    first = dial(server.base, "r1", server.token, config={"lr": 0.1}, attempt="a1")
    first.acked(first.train([0], loss=[1.0]))
    second = dial(server.base, "r1", server.token, config={"lr": 0.2}, attempt="a2")
    second.acked(second.train([1], loss=[1.0]))
    first.send(Event(0, "environment", time.time_ns(), data={"config": {"lr": 0.1}}))
    first.acked(events=0)
    assert server.services.reader.run("r1").config == {"lr": 0.2}
