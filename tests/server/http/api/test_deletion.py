"""Deletion over the API, on a real server with connected clients."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tocsin.protocol import Refused


def delete(server: Any, path: str, **headers: str) -> httpx.Response:
    return httpx.delete(f"{server.base}/api/v1{path}", headers=server.headers | headers, timeout=30)


def rows(data_dir: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(data_dir / "tocsin.db")) as connection:
        return connection.execute(statement).fetchall()


def test_a_deleted_run_is_gone_everywhere(server: Any, trainer: Callable[..., Any]) -> None:
    """Immediately: its page, the list, its records and alerts."""
    run = trainer()
    run.records({"loss": [1.0, float("nan")]})
    assert server.get("/alerts", run=run.run)["items"]
    assert delete(server, f"/runs/{run.run}").status_code == 204
    for path in ("", "/records", "/events", "/series"):
        answer = httpx.get(f"{server.base}/api/v1/runs/{run.run}{path}", headers=server.headers)
        assert answer.status_code == 404, path
    assert run.run not in [row["id"] for row in server.get("/runs")["items"]]
    assert server.get("/alerts", run=run.run)["items"] == []
    assert delete(server, f"/runs/{run.run}").status_code == 404


def test_a_project_is_deleted_with_its_runs(server: Any, trainer: Callable[..., Any]) -> None:
    """Runs of other projects stay."""
    doomed = [trainer(project="doomed/ü") for _ in range(2)]
    stays = trainer(project="stays")
    assert delete(server, "/projects/doomed%2F%C3%BC").status_code == 204
    ids = [row["id"] for row in server.get("/runs")["items"]]
    assert stays.run in ids
    assert not {run.run for run in doomed} & set(ids)
    assert "doomed/ü" not in [row["name"] for row in server.get("/projects")["items"]]
    assert delete(server, "/projects/doomed%2F%C3%BC").status_code == 404


def restore(server: Any, run: str) -> httpx.Response:
    return httpx.post(f"{server.base}/api/v1/runs/{run}/restore", headers=server.headers, timeout=30)


def test_a_scheduled_deletion_is_canceled(server: Any, trainer: Callable[..., Any]) -> None:
    """Until then the run is complete, shows its deadline, and its client continues; canceling removes the
    deadline."""
    run = trainer()
    run.records({"loss": [1.0]})
    assert delete(server, f"/runs/{run.run}?after_s=600").status_code == 204
    found = server.get(f"/runs/{run.run}")
    assert 590e3 < found["deletion_ms"] - found["last_seen_ms"] < 660e3
    run.records({"loss": [2.0]})
    assert restore(server, run.run).json()["deletion_ms"] is None
    assert len(server.get(f"/runs/{run.run}/records")["items"]) == 2
    assert restore(server, run.run).status_code == 404
    assert delete(server, "/runs/no-such-run?after_s=600").status_code == 404


def test_a_deletion_to_come_survives_the_server_and_comes(
    start_server: Callable[..., Any], dial: Callable[..., Any], eventually: Callable[..., Any], tmp_path: Path
) -> None:
    """After a restart the run still shows its deadline, clients are accepted, and then all rows are
    deleted."""
    server = start_server()
    client = dial(server.base, run="r", token=server.client_token)
    client.acked(client.train([0, 1], loss=[1.0, 2.0]))
    assert delete(server, "/runs/r?after_s=600").status_code == 204
    server.stop()
    server = start_server()
    assert server.get("/runs/r")["deletion_ms"]
    again = dial(server.base, run="r", token=server.client_token)
    again.acked(again.train([2], loss=[3.0]))
    assert delete(server, "/runs/r?after_s=1").status_code == 204
    eventually(lambda: rows(tmp_path, "SELECT count(*) FROM writer") == [(0,)], "the rows to go")
    assert httpx.get(f"{server.base}/api/v1/runs/r", headers=server.headers).status_code == 404
    assert restore(server, "r").status_code == 404
    acts = [act for (act,) in rows(tmp_path, "SELECT action FROM audit")]
    assert acts == ["run.delete-later"] * 2


@pytest.mark.parametrize("path", ["/runs/x", "/projects/x"])
def test_only_write_scope_may_delete(server: Any, path: str) -> None:
    """A reader is rejected, and so is a request without a token."""
    made = httpx.post(
        f"{server.base}/api/v1/tokens", json={"name": "r", "scope": "read"}, headers=server.headers
    )
    secret = made.json()["token"]
    assert delete(server, path, authorization=f"Bearer {secret}").status_code == 403
    assert httpx.delete(f"{server.base}/api/v1{path}").status_code == 401


def test_a_trainer_in_a_deleted_run_begins_a_new_one(
    start_server: Callable[..., Any], dial: Callable[..., Any], eventually: Callable[..., Any]
) -> None:
    """The client gets the reason and reconnects; its later records form a new run with the same id."""
    server = start_server()
    client = dial(server.base, run="r", token=server.client_token)
    client.acked(client.train([0, 1], loss=[1.0, 2.0]))
    assert delete(server, "/runs/r").status_code == 204
    client.train([2], loss=[3.0])
    assert client.ended() == 4503
    assert [m.retry for m in client.received if isinstance(m, Refused)] == [True]
    eventually(lambda: dial_again(dial, server), "the old rows to go")
    assert [item["step"] for item in server.get("/runs/r/records")["items"]] == [7]


def dial_again(dial: Callable[..., Any], server: Any) -> bool:
    """Return whether a client was accepted again; it sends one step."""
    client = dial(server.base)
    client.send(trainer_hello(server.client_token))
    message = client.receive(object)
    if isinstance(message, Refused):
        assert message.retry
        assert "deleted" in message.got or message.got == "no answer"  # within 10 s, on a busy machine
        return False
    client.acked(client.train([7], loss=[1.0]))
    return True


def trainer_hello(token: str) -> Any:
    from tests.server.conftest import hello_of

    return hello_of("r", token)


def test_rows_and_room_go_behind_the_answer(
    start_server: Callable[..., Any], dial: Callable[..., Any], eventually: Callable[..., Any], tmp_path: Path
) -> None:
    """All rows are deleted, the file shrinks, and the audit log has the user."""
    server = start_server()
    client = dial(server.base, run="r", token=server.client_token)
    for step in range(0, 30_000, 3000):
        client.train(list(range(step, step + 3000)), **{f"s{n}": [n / 7 + step] * 3000 for n in range(20)})
    client.acked(29_999)
    assert delete(server, "/runs/r").status_code == 204
    eventually(lambda: not rows(tmp_path, "SELECT * FROM deletion"), "the mark to go")
    for table in ("tail", "chunk", "roll", "series", "writer", "rule_state"):
        assert rows(tmp_path, f"SELECT count(*) FROM {table}") == [(0,)]
    eventually(lambda: rows(tmp_path, "PRAGMA freelist_count") == [(0,)], "free pages to go")
    eventually(lambda: (tmp_path / "tocsin.db").stat().st_size < 1_000_000, "the file to be cut")
    assert rows(tmp_path, "SELECT action, subject FROM audit") == [("run.delete", "r")]
