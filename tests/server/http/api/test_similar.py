"""Similar incidents over the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.server.http.api.test_channels import ask
from tests.server.http.api.test_incidents import NAN


@pytest.fixture
def broke(server: Any, trainer: Callable[..., Any], kind: str) -> Callable[..., str]:
    """``broke("run name", project="...")``: the incident of a run whose loss becomes NaN."""

    def run(name: str, project: str) -> str:
        client = trainer(name=name, project=f"{project} {kind}", config={"lr": 0.1, "depth": 4})
        client.records(NAN)
        (incident,) = server.get("/incidents", run=client.run, state="open")["items"]
        return str(incident["id"])

    return run


def test_the_same_incident_of_another_run_of_the_project_is_similar(
    server: Any, broke: Callable[..., str]
) -> None:
    first, second = broke("one", "similar"), broke("two", "similar")
    ask(server, "POST", f"/incidents/{first}/ack", {"note": "lr halved"})
    found = server.get(f"/incidents/{second}/similar")
    assert [each["id"] for each in found["items"]] == [first]
    (item,) = found["items"]
    assert (item["run_name"], item["ack"]["note"]) == ("one", "lr halved")
    assert {"same likely cause", "nearly the same configuration"} <= set(item["reasons"])


def test_one_of_two_similar_incidents_was_before_the_other(server: Any, broke: Callable[..., str]) -> None:
    ids = broke("one", "again"), broke("two", "again")
    found = [server.get(f"/incidents/{each}/similar") for each in ids]
    assert [each["count"] for each in found] == [1, 1]
    assert sorted(each["before"] for each in found) == [0, 1]


def test_incidents_of_other_projects_are_not_compared(server: Any, broke: Callable[..., str]) -> None:
    broke("one", "theirs")
    assert server.get(f"/incidents/{broke('two', 'mine')}/similar")["items"] == []


def test_an_unknown_incident_has_none(server: Any) -> None:
    assert ask(server, "GET", "/incidents/r_none.f.1/similar").status_code == 404
