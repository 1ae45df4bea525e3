"""Changes of a run by users over the API, on a real server."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import httpx


def patch(server: Any, run: str, change: dict[str, Any]) -> httpx.Response:
    return httpx.patch(f"{server.base}/api/v1/runs/{run}", json=change, headers=server.headers, timeout=30)


def test_a_run_is_archived_and_unarchived(server: Any, trainer: Callable[..., Any]) -> None:
    """The list shows it immediately, and the run's records stay."""
    run = trainer()
    run.records({"loss": [1.0, 2.0]})
    for archived in (True, False):
        assert patch(server, run.run, {"archived": archived}).json()["archived"] is archived
        assert server.get(f"/runs/{run.run}")["archived"] is archived
    assert len(server.get(f"/runs/{run.run}/records")["items"]) == 2


def test_unknown_runs_and_invalid_changes_are_rejected(server: Any, trainer: Callable[..., Any]) -> None:
    """An unknown run gives 404, an invalid change 422."""
    run = trainer()
    assert patch(server, "no-such-run", {"archived": True}).status_code == 404
    wrong: list[dict[str, Any]] = [
        {},
        {"archived": True, "state": "failed"},
        {"name": " "},
        {"name": "x" * 257},
    ]
    wrong += [
        {"name": "x" * 257},
        {"name": "a\x07b"},
        {"tags": ["x"] * 65},
        {"tags": [""]},
        {"notes": "x" * 100_001},
    ]
    assert [patch(server, run.run, each).status_code for each in wrong] == [422] * len(wrong)


def test_a_person_writes_name_notes_and_tags(server: Any, trainer: Callable[..., Any]) -> None:
    """The run, its row and its alerts have them; hostile text is literal."""
    run = trainer(tags=["fp16"], notes="first")
    run.records({"loss": [1.0, math.nan]})
    name = "<img src=x onerror=alert(1)>"
    row = patch(server, run.run, {"name": f" {name} ", "tags": ["a", "a", name], "notes": name}).json()
    assert (row["name"], row["tags"]) == (name, ["a", name])
    assert row["edited_ms"] > row["created_ms"]
    assert server.get(f"/runs/{run.run}")["notes"] == name
    assert {alert["run_name"] for alert in server.get("/alerts", run=run.run)["items"]} == {name}


def test_a_concurrent_change_is_not_overwritten(server: Any, trainer: Callable[..., Any]) -> None:
    """If the notes have changed meanwhile, the response is 409 and nothing is stored."""
    run = trainer(notes="first")
    assert patch(server, run.run, {"notes": "mine", "seen": {"notes": "first"}}).status_code == 200
    late = patch(server, run.run, {"notes": "theirs", "tags": ["t"], "seen": {"notes": "first"}})
    assert (late.status_code, late.json()["subject"], late.json()["got"]) == (409, "notes", "mine")
    found = server.get(f"/runs/{run.run}")
    assert (found["notes"], found["tags"]) == ("mine", [])
    assert patch(server, run.run, {"notes": "mine", "seen": {"notes": "first"}}).status_code == 200
    assert patch(server, run.run, {"notes": "theirs", "seen": {"notes": "mine"}}).status_code == 200


def test_user_edits_override_the_script(start_server: Callable[..., Any], dial: Callable[..., Any]) -> None:
    """After another handshake without a run id, it is the same run with the edited fields."""
    server = start_server()
    reported = {"run": "", "token": server.client_token, "name": "reported", "tags": ["reported"]}
    reported |= {"notes": "reported", "rendezvous": "node:29500", "world_size": 2}
    first = dial(server.base, **reported)
    first.acked(first.train([0], loss=[1.0]))
    run = server.get("/runs")["items"][0]["id"]
    assert patch(server, run, {"name": "shown", "tags": [], "notes": ""}).status_code == 200
    first.socket.close()
    again = dial(server.base, **reported)
    again.acked(again.train([1], loss=[2.0]))
    (row,) = server.get("/runs")["items"]
    assert (row["id"], row["name"], row["tags"], row["last_step"]) == (run, "shown", [], 1)
    assert server.get(f"/runs/{run}")["notes"] == ""
