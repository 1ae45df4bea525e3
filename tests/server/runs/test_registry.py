"""Runs in memory and rows of the fleet: bounded, and complete after a restart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tocsin.protocol import Finish
from tocsin_server.core.models import RecordBatch, SavedRuleState
from tocsin_server.runs.registry import load_engine

Start = Callable[..., Any]
Dial = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("url")


def finished(server: Any, dial: Dial, run: str) -> None:
    client = dial(server.base, run, server.token)
    client.train([0], loss=[1.0])
    client.send(Finish(0, time.time_ns(), records=1))
    client.acked(0, 0)


@pytest.mark.both_databases
def test_the_fleet_of_ended_runs_survives_a_restart(run_server: Start, dial: Dial, tmp_path: Any) -> None:
    """Rows of ended runs are read at the start, without loading the runs."""
    server = run_server()
    finished(server, dial, "r1")
    before = server.rows()
    server.stop()
    again = run_server(tmp_path)
    row = again.rows()[0]
    assert again.pipeline.registry.active == {}
    assert (row["state"], row["last"], row["sparks"]) == tuple(
        before[0][name] for name in ("state", "last", "sparks")
    )


def test_the_fleet_is_bounded_and_the_query_is_not(run_server: Start, dial: Dial) -> None:
    """Above the limit, the oldest ended runs leave the live fleet; queries still return their rows."""
    server = run_server(fleet_runs=2)
    for number in range(3):
        finished(server, dial, f"r{number}")
        server.call(lambda number=number: server.pipeline.registry.retire(f"r{number}"))
    assert [row["id"] for row in server.rows()] == ["r2", "r1"]
    asked = asyncio.run_coroutine_threadsafe(server.pipeline.registry.find("r0"), server.loop).result(30)
    assert (asked.metadata.id, asked.metadata.state) == ("r0", "finished")


def test_runs_outside_the_live_fleet_are_read_together(run_server: Start, dial: Dial) -> None:
    """Their rows are those that are read one by one; an unknown run is left out."""
    server = run_server(fleet_runs=1)
    for number in range(3):
        finished(server, dial, f"r{number}")
        server.call(lambda number=number: server.pipeline.registry.retire(f"r{number}"))
    registry, names = server.pipeline.registry, ["r0", "r1", "r2"]

    async def both() -> Any:
        return await registry.find_all([*names, "gone"]), [await registry.find(name) for name in names]

    together, singly = asyncio.run_coroutine_threadsafe(both(), server.loop).result(30)
    assert [together.pop(one.metadata.id).json(0) for one in singly] == [one.json(0) for one in singly]
    assert together == {}


def test_rules_of_another_version_start_again(run_server: Start, dial: Dial) -> None:
    """If the saved state of the rules cannot be read, everything stored is evaluated again."""
    server = run_server(rule_state_records=2, rule_state_pause_s=1e-9)
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0, 1, 2], loss=[1.0, 1.0, 1.0]))
    reader = server.services.reader

    class Newer:
        run = reader.run

        def recovery(self, run_id: str, *, from_start: bool = False) -> Any:
            found = reader.recovery(run_id, from_start=from_start)
            return found if from_start else replace(found, rule_state=SavedRuleState(run_id, 0, b"\xc0"))

    _, recovery = load_engine(Newer(), reader.run("r1"))  # type: ignore[arg-type]
    assert sum(item.n for item in recovery.replay if isinstance(item, RecordBatch)) == 3
