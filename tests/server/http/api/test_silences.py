"""Silences and routes over the API."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.server.http.api.test_channels import ask
from tocsin_server.http.api.silences import silence_item
from tocsin_server.store.notification_config import SilenceRow


def wanted(**change: Any) -> dict[str, Any]:
    ends = (time.time() + 3600) * 1000
    return {"matchers": ['run_id="nobody"'], "ends_ms": ends, "reason": "maintenance"} | change


def test_a_silence_is_made_changed_and_ended(server: Any) -> None:
    """The author is the user of the request; an ended silence stays in the list as expired."""
    made = ask(server, "POST", "/silences", wanted()).json()
    assert (made["state"], made["author"], made["reason"]) == ("active", "admin login link", "maintenance")
    place = f"/silences/{made['id']}"
    changed = ask(server, "PUT", place, wanted(reason="longer")).json()
    assert (changed["id"], changed["reason"], changed["author"]) == (made["id"], "longer", made["author"])
    assert ask(server, "DELETE", place).status_code == 204
    listed = {item["id"]: item["state"] for item in ask(server, "GET", "/silences").json()["items"]}
    assert (listed[made["id"]], made["problem"]) == ("expired", None)
    assert ask(server, "DELETE", "/silences/nothing").status_code == 404


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        ({"matchers": []}, "matchers"),
        ({"matchers": ["x"]}, "matchers[0]"),
        ({"matchers": ['rule=~"(?x)(a+) +b"']}, "matchers[0]"),
        ({"matchers": ['rule=~".{0,150}x"'] * 9}, "matchers"),
        ({"ends_ms": 1.0}, "ends_ms"),
        ({"ends_ms": 1e20}, "ends_ms"),
        ({"starts_ms": -5}, "ends_ms"),
        ({"reason": " "}, "reason"),
        ({"author": "me"}, "author"),
    ],
)
def test_invalid_input_is_rejected_by_field(server: Any, change: dict[str, Any], subject: str) -> None:
    """A silence needs matchers, an end in the future and a reason; its author cannot be set."""
    answer = ask(server, "POST", "/silences", wanted(**change))
    assert (answer.status_code, answer.json()["subject"]) == (422, subject)


def test_an_unreadable_silence_is_listed_with_the_reason() -> None:
    """An unreadable silence stays in the list, with the reason."""
    item = silence_item(SilenceRow("s1", ['rule=~"(?=a)a"'], 0, 1, "ann", "known", 0))
    assert (item["state"], item["matchers"]) == ("expired", ['rule=~"(?=a)a"'])
    assert "invalid perl operator" in item["problem"]


def test_the_routing_document_is_kept_and_checked(run_server: Any) -> None:
    """A stored document is returned; an invalid field or an unknown channel changes nothing."""
    server = run_server()
    usual = ask(server, "GET", "/routes").json()
    assert ([route["name"] for route in usual["routes"]], usual["problems"]) == (["default"], [])
    body = {"routes": [{"name": "a", "matchers": ['severity="critical"'], "group_by": ["rule"]}]}
    written = ask(server, "PUT", "/routes", body).json()
    assert ask(server, "GET", "/routes").json() == written
    assert ask(server, "PUT", "/routes", written).json() == written
    for bad, subject in (
        ({"routes": [{"name": "a", "x": 1}]}, "routes[0].x"),
        ({"colour": 1}, "routing.colour"),
        ({"routes": [{"name": "a", "channels": ["nobody"]}]}, "routes[0].channels"),
    ):
        answer = ask(server, "PUT", "/routes", bad)
        assert (answer.status_code, answer.json()["subject"]) == (422, subject)
    assert ask(server, "GET", "/routes").json() == written
