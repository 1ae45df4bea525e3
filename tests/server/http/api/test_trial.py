"""Test of routes and silences against open alerts before they are saved."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.server.http.api.test_channels import ask, made


@pytest.fixture
def firing(server: Any, trainer: Callable[..., Any]) -> tuple[str, str]:
    """Return the project and the id of a critical alert that fires."""
    run = trainer(project="tried")
    run.records({"loss": [1.0, math.nan]})
    return run.run, str(server.get("/alerts", run=run.run)["items"][0]["id"])


def way(server: Any, alert: str, routing: Any) -> Any:
    answer = ask(server, "POST", "/routes/test", {"routing": routing})
    assert answer.status_code == 200, answer.text
    return next(item for item in answer.json()["items"] if item["alert"] == alert)


def test_open_alerts_show_their_routes(server: Any, firing: tuple[str, str]) -> None:
    """The first matching route, and more after `continue`; nothing is stored."""
    channel = made(server, enabled=True)["name"]
    own = {"matchers": [f'run_id="{firing[0]}"'], "channels": [channel]}
    routes = [
        {"name": "no", "matchers": ['severity="info"']},
        {"name": "a", "continue": True, **own},
        {"name": "b", **own},
        {"name": "c"},
    ]
    before = ask(server, "GET", "/routes").json()
    found = way(server, firing[1], {"routes": routes})
    assert [(one["name"], one["channels"], one["wait_s"]) for one in found["routes"]] == [
        ("a", [channel], 0.3),
        ("b", [channel], 0.3),
    ]
    assert found["routes"][0]["group"] == {"project": "tried", "incident": firing[1]}
    assert ask(server, "GET", "/routes").json() == before


def test_example_labels_show_their_routes(server: Any) -> None:
    """Without an alert: a critical one waits 0.3 s, an info one matches no default route."""
    for severity, waits in (("critical", [0.3]), ("warning", [30.0]), ("info", [])):
        labels = {"severity": severity, "rule": "loss-spike"}
        body = {"routing": {"mute_times": []}, "labels": labels}
        (row,) = ask(server, "POST", "/routes/test", body).json()["items"]
        assert [taken["wait_s"] for taken in row["routes"]] == waits


def test_a_muted_route_is_marked(server: Any) -> None:
    """A mute time that covers every hour."""
    always = {"name": "always", "times": [{"from": "00:00", "to": "24:00"}]}
    routing = {"routes": [{"name": "a", "mute_times": ["always"]}], "mute_times": [always]}
    answer = ask(server, "POST", "/routes/test", {"routing": routing, "labels": {"severity": "info"}})
    assert answer.json()["items"][0]["routes"][0]["muted"] is True


@pytest.mark.parametrize(
    ("routing", "subject"),
    [
        ({"routes": [{"name": "a", "matchers": ["x"]}]}, "routes[0].matchers[0]"),
        ({"routes": [{"name": "a", "channels": ["nowhere"]}]}, "routes[0].channels"),
        ({"else": 1}, "routing.else"),
    ],
)
def test_an_invalid_document_is_rejected_by_field(server: Any, routing: Any, subject: str) -> None:
    """The errors are those of saving."""
    answer = ask(server, "POST", "/routes/test", {"routing": routing})
    assert (answer.status_code, answer.json()["subject"]) == (422, subject)


def test_a_silence_lists_what_it_would_silence(server: Any, firing: tuple[str, str]) -> None:
    """The ids of matching open alerts; the test silences nothing."""
    body = {"matchers": [f'run_id="{firing[0]}"', 'severity=~"crit.*"']}
    answer = ask(server, "POST", "/silences/test", body).json()
    assert answer["items"] == [firing[1]]
    assert answer["open"] >= 1
    assert server.get(f"/alerts/{firing[1]}/history")["marks"]["silenced_by"] == []
    assert ask(server, "POST", "/silences/test", {"matchers": []}).json()["subject"] == "matchers"
