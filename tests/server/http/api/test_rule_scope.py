"""``GET /rules/scope`` on a real server: the runs and series to which a rule would apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx


def scope(server: Any, **query: Any) -> Any:
    address = f"{server.base}/api/v1/rules/scope"
    return httpx.get(address, params=query, headers=server.headers, timeout=60).json()


def test_the_scope_has_the_series_of_all_its_runs(server: Any, trainer: Callable[..., Any]) -> None:
    """Not only of the newest run; the most frequent series are first."""
    for name, series in (("a", ("loss", "psnr")), ("b", ("loss",))):
        trainer(project="scoped", name=name).records({each: [1.0, 2.0] for each in series})
    found = scope(server, projects=["scop*"])
    assert found["total"] == 2
    assert {run["name"] for run in found["runs"]} == {"a", "b"}
    assert found["series"] == [{"name": "loss", "runs": 2}, {"name": "psnr", "runs": 1}]
    assert scope(server, projects=["scoped"], runs=["b"])["series"] == [{"name": "loss", "runs": 1}]


def test_the_incidents_of_a_run_in_scope_are_counted(server: Any, trainer: Callable[..., Any]) -> None:
    run = trainer(project="scoped-incidents")
    run.records({"loss": [1.0] * 20 + [float("nan")] * 20})
    assert [each["incidents"] for each in scope(server, projects=["scoped-incidents"])["runs"]] == [1]


def test_a_glob_that_cannot_be_used_is_a_problem(server: Any) -> None:
    answer = scope(server, tags=["a", "*" * 9])
    assert (answer["subject"], answer["got"]) == ("tags[1]", "*" * 9)
