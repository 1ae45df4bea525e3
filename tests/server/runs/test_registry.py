"""Runs in memory and rows of the fleet: bounded, and complete after a restart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tocsin.protocol import Finish
from tocsin_server.core.models import RecordBatch, RuleSnapshot
from tocsin_server.runs.registry import recall

Start = Callable[..., Any]
Dial = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("url")


def finished(server: Any, dial: Dial, run: str) -> None:
    trainer = dial(server.base, run, server.token)
    trainer.train([0], loss=[1.0])
    trainer.send(Finish(0, time.time_ns(), records=1))
    trainer.acked(0, 0)


def test_the_fleet_of_ended_runs_survives_a_restart(run_server: Start, dial: Dial, tmp_path: Any) -> None:
    """Rows of ended runs are read at the start, without bringing the runs themselves into memory."""
    server = run_server()
    finished(server, dial, "r1")
    before = server.rows()
    server.stop()
    again = run_server(tmp_path)
    row = again.rows()[0]
    assert again.pipeline.roster.active == {}
    assert (row["state"], row["last"], row["sparks"]) == tuple(
        before[0][name] for name in ("state", "last", "sparks")
    )


def test_the_fleet_is_bounded_and_the_query_is_not(run_server: Start, dial: Dial) -> None:
    """Above the bound the oldest ended runs leave the live fleet; their row can still be asked for."""
    server = run_server(fleet_runs=2)
    for number in range(3):
        finished(server, dial, f"r{number}")
        server.call(lambda number=number: server.pipeline.roster.retire(f"r{number}"))
    assert [row["id"] for row in server.rows()] == ["r2", "r1"]
    asked = asyncio.run_coroutine_threadsafe(server.pipeline.roster.find("r0"), server.loop).result(30)
    assert (asked.card.id, asked.card.state) == ("r0", "finished")


def test_rules_of_another_version_begin_anew(run_server: Start, dial: Dial) -> None:
    """Where the saved state of the rules cannot be read, everything stored is judged again."""
    server = run_server(snapshot_records=2, snapshot_pause_s=1e-9)
    trainer = dial(server.base, "r1", server.token)
    trainer.acked(trainer.train([0, 1, 2], loss=[1.0, 1.0, 1.0]))
    reader = server.services.reader

    class Newer:
        def recovery(self, run_id: str, *, anew: bool = False) -> Any:
            found = reader.recovery(run_id, anew=anew)
            return found if anew else replace(found, snapshot=RuleSnapshot(run_id, 0, b"\xc0"))

    _, recovery = recall(Newer(), reader.run("r1"))  # type: ignore[arg-type]
    assert sum(item.n for item in recovery.replay if isinstance(item, RecordBatch)) == 3
