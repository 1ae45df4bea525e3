"""The fleet, and details of one run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import httpx


def ids(answer: dict[str, Any]) -> list[str]:
    return [row["id"] for row in answer["items"]]


def test_a_row_summarizes_a_run(server: Any, trainer: Callable[..., Any]) -> None:
    """State, last values (infinite ones by name), skipped steps, non-finite points, alerts."""
    run = trainer(project="rows", name="mdt-fp16", tags=["fp16"], planned_steps=100)
    run.records({"loss": [1.0, math.nan], "grad_norm": [2.0, math.inf], "skipped": [0.0, 1.0]})
    (row,) = server.get("/runs", project="rows")["items"]
    assert (row["name"], row["state"], row["tags"], row["host"]) == ("mdt-fp16", "running", ["fp16"], "node")
    assert row["last"] == {"loss": "NaN", "grad_norm": "Infinity", "scale": None, "lr": None}
    assert (row["last_step"], row["planned_steps"], row["skipped"], row["nonfinite"]) == (1, 100, 1, 2)
    assert row["sparks"]["loss"]["buckets"][1] == [None, None, None, 1, 0, 0]
    assert sum(row["severities"].values()) <= row["alerts"]


def test_the_details_of_a_run_come_without_sparklines_if_asked(
    server: Any, trainer: Callable[..., Any]
) -> None:
    """Only the fleet draws them."""
    run = trainer()
    run.records({"loss": [1.0]})
    assert "loss" in server.get(f"/runs/{run.run}")["sparks"]
    assert "sparks" not in server.get(f"/runs/{run.run}", sparks="false")


def test_runs_come_newest_first_and_in_pages(server: Any, trainer: Callable[..., Any]) -> None:
    """`next` leads through all of them, without duplicates."""
    made = [trainer(project="paged").run for _ in range(5)]
    first = server.get("/runs", project="paged", limit=3)
    second = server.get("/runs", project="paged", limit=3, after=first["next"])
    assert ids(first) + ids(second) == made[::-1]
    assert second["next"] is None


def test_runs_are_chosen_by_state(server: Any, trainer: Callable[..., Any]) -> None:
    """A finished run is not among the running ones."""
    going, done = trainer(project="states"), trainer(project="states")
    done.records({"loss": [1.0]})
    done.finish()
    assert ids(server.get("/runs", project="states", state="finished")) == [done.run]
    assert ids(server.get("/runs", project="states", state="running")) == [going.run]


def test_pages_continue_after_a_run_that_has_left_them(server: Any, trainer: Callable[..., Any]) -> None:
    """The cursor is a run that has ended since, in a list of running ones."""
    runs = [trainer(project="leaving") for _ in range(3)]
    first = server.get("/runs", project="leaving", state="running", limit=1)
    runs[2].records({"loss": [1.0]})
    runs[2].finish()
    rest = server.get("/runs", project="leaving", state="running", after=first["next"])
    assert (ids(first), ids(rest)) == ([runs[2].run], [runs[1].run, runs[0].run])


def test_a_run_has_its_details(server: Any, trainer: Callable[..., Any]) -> None:
    """Configuration (NaN by name), notes, versions, series, attempts and processes."""
    hello = {
        "config": {"lr": math.nan, "net": {"depth": 3}},
        "notes": "second try",
        "versions": {"torch": "2.13"},
    }
    run = trainer(**hello)
    run.records({"loss": [1.0, -0.0]}, first_step=7)
    found = server.get(f"/runs/{run.run}")
    assert found["config"] == {"lr": "NaN", "net": {"depth": 3}}
    assert (found["notes"], found["environment"]["versions"]) == ("second try", {"torch": "2.13"})
    assert found["series"] == [{"name": "loss", "n": 2, "first_step": 7, "last_step": 8, "last": -0.0}]
    assert math.copysign(1, found["series"][0]["last"]) == -1
    assert [(row["attempt"], row["first_step"], row["last_step"]) for row in found["attempts_list"]] == [
        (1, 7, 8)
    ]
    (writer,) = found["writers"]
    assert (writer["host"], writer["records"], writer["connected"]) == ("node", 2, True)


def test_unknown_runs_are_404(server: Any) -> None:
    """An unknown run gives 404, also as a cursor."""
    for path in ("/runs/none", "/runs?after=none"):
        answer = httpx.get(f"{server.base}/api/v1{path}", headers=server.headers)
        assert answer.status_code == 404
        assert answer.json()["got"] == "none"


def test_metrics_are_added_to_the_rows(server: Any, trainer: Callable[..., Any]) -> None:
    """Only those that were asked for; non-finite values by name."""
    run = trainer(project="measured")
    run.records({"val,loss": [2.0, 0.5, math.inf], "acc": [0.1, 0.2, 0.3]})
    (row,) = server.get("/runs", project="measured", metrics=["val,loss", "none"])["items"]
    assert row["metrics"] == {
        "val,loss": {"last": "Infinity", "step": 2, "min": 0.5, "max": 2.0, "n": 3, "nonfinite": 1}
    }
    assert "metrics" not in server.get("/runs", project="measured")["items"][0]


def test_means_of_the_newest_values_are_added(server: Any, trainer: Callable[..., Any]) -> None:
    """Also of a metric that was not asked for otherwise; too long ones are refused."""
    trainer(project="averaged").records({"a:b": [9.0, 0.5, 0.25], "c": [1.0, 2.0, math.inf]})
    (row,) = server.get("/runs", project="averaged", metrics="c", means=["2:a:b", "9:a:b", "2:c"])["items"]
    assert row["metrics"]["a:b"]["means"] == {"2": 0.375, "9": 3.25}
    assert row["metrics"]["c"]["means"] == {"2": "Infinity"}
    for wrong in ("1001:c", "0:c", "c"):
        answer = httpx.get(f"{server.base}/api/v1/runs?means={wrong}", headers=server.headers)
        assert (answer.status_code, answer.json()["subject"].split(".")[0]) == (422, "means")


def test_too_many_metrics_are_refused(server: Any) -> None:
    """The message names the limit."""
    names = [f"metrics={i}" for i in range(21)]
    answer = httpx.get(f"{server.base}/api/v1/runs?{'&'.join(names)}", headers=server.headers)
    assert (answer.status_code, answer.json()["subject"]) == (422, "metrics")
    assert "20" in answer.json()["detail"]


def test_names_of_metrics_are_listed(server: Any, trainer: Callable[..., Any]) -> None:
    """Of one project, the most frequent first."""
    for names in (["rare", "frequent"], ["frequent"]):
        trainer(project="named").records({name: [1.0] for name in names})
    found = server.get("/metric-names", project="named")
    assert found == {"items": [{"name": "frequent", "runs": 2}, {"name": "rare", "runs": 1}], "more": False}


def test_lost_records_are_counted_after_the_end_of_a_run(
    server: Any, trainer: Callable[..., Any], eventually: Callable[..., Any]
) -> None:
    """The heartbeat of the process, which has them too, is gone by then."""
    run = trainer(project="lossy")
    run.records({"loss": [1.0]})
    run.event("dropped", records=7, reason="the spool was deleted")
    run.finish()
    eventually(lambda: server.get(f"/runs/{run.run}")["state"] == "finished", "the end of the run")
    assert server.get(f"/runs/{run.run}")["lost_records"] == 7
