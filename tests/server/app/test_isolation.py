"""If the data of one run cannot be processed, every job continues with the other runs and health names the
run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from tests.server.conftest import wait_until
from tocsin_server.runs.similar_runs import SimilarRunFinder
from tocsin_server.runs.watchdog import look
from tocsin_server.store.tables import tail

Start = Callable[..., Any]
Dial = Callable[..., Any]
S = 1_000_000_000


@pytest.fixture
def server(run_server: Start, dial: Dial) -> Any:
    """A server with two runs, ``bad`` and ``good``; the test corrupts the first."""
    started = run_server(tick_ms=20)
    for name in ("bad", "good"):
        client = dial(started.base, name, started.token, config={"lr": 1.0})
        client.acked(client.train([0, 1], loss=[1.0, 1.0]))
    return started


def failing(server: Any) -> set[tuple[str, str]]:
    """Return the pairs of job and subject that health reports."""
    answer = httpx.get(
        f"{server.base}/api/v1/health", headers={"authorization": f"Bearer {server.token}"}, timeout=60
    )
    return {(item["job"], item["subject"]) for item in answer.json()["jobs"]}


def listed(server: Any) -> list[str]:
    answer = httpx.get(
        f"{server.base}/api/v1/runs", headers={"authorization": f"Bearer {server.token}"}, timeout=60
    )
    return sorted(row["id"] for row in answer.json()["items"])


def test_clock_rules_run_for_other_runs(server: Any) -> None:
    """The good run is found stalled although the bad run's last arrival time is not a number."""
    active, work = server.pipeline.registry.active, server.pipeline.jobs.round("watchdog")
    active["bad"].heartbeat.last_record_ns = "yesterday"
    server.call(lambda: look(server.pipeline, time.time_ns() + 3600 * S, work))
    assert active["good"].summary.metadata.state.value == "stalled"
    assert ("watchdog", "run bad") in failing(server)


def test_rows_of_the_others_are_shown(server: Any, watch: Callable[..., Any]) -> None:
    """Rows of other runs are shown on an open page and returned by the query."""
    server.pipeline.registry.active["bad"].summary.metadata.created_ns = 0
    server.pipeline.registry.active["bad"].summary.metadata.last_seen_ns = None
    page = watch(server.base, server.token)
    page.send({"type": "subscribe", "id": 1, "view": "fleet"})
    assert [row["id"] for row in page.receive("fleet")["items"]] == ["good"]
    assert listed(server) == ["good"]
    assert failing(server) >= {("live", "row of run bad"), ("rows", "run bad")}


def test_a_failing_page_does_not_affect_others(server: Any, watch: Callable[..., Any]) -> None:
    """A page that cannot be served is reported; another page gets its rows."""
    watch(server.base, server.token).receive("heartbeat")
    (broken,) = server.services.live.subscribers
    broken.views = {1: None}
    page = watch(server.base, server.token)
    page.send({"type": "subscribe", "id": 1, "view": "fleet"})
    assert [row["id"] for row in page.receive("fleet")["items"]] == ["good", "bad"]
    assert ("live", "some open pages") in failing(server)


def test_other_runs_get_their_siblings(server: Any) -> None:
    """A run that cannot be read is not used as a reference; the bad run still gets the good one as a
    sibling."""
    with server.services.database.engine.begin() as connection:
        connection.execute(update(tail).where(tail.c.run_id == "bad").values(body=b"damaged"))
    siblings = SimilarRunFinder(server.pipeline, server.services.reader)
    asyncio.run_coroutine_threadsafe(siblings.look(), server.loop).result(60)
    reported = {
        name: run.evaluator.engine.context.siblings for name, run in server.pipeline.registry.active.items()
    }
    assert [one.run_id for one in reported["bad"].runs] == ["good"]
    assert [item["subject"] for item in siblings.work.failing()] == ["run bad as a similar run"]


def test_rules_reach_the_others(server: Any) -> None:
    """A new rule applies to the good run; the bad run is retried."""
    active = server.pipeline.registry.active
    spoiled, active["bad"].summary.metadata.tags = active["bad"].summary.metadata.tags, None
    rule = {"id": "mine", "severity": "warning", "series": "loss", "comparison": ">", "limit": 5.0}
    answer = httpx.post(
        f"{server.base}/api/v1/rules",
        json=rule,
        headers={"authorization": f"Bearer {server.token}"},
        timeout=60,
    )
    assert answer.status_code in (200, 201), answer.text
    wait_until(lambda: "mine" in active["good"].plan.by_id, "the rule")
    assert ("rules", "run bad") in failing(server)
    active["bad"].summary.metadata.tags = spoiled
    wait_until(lambda: "mine" in active["bad"].plan.by_id, "the rule in the other run")
