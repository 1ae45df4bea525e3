"""A process that died before it reached the server is delivered while its successor trains."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import Tower
from tests.hook.ingest_server import closed_port
from tests.hook.trainers import Script, bring_in
from tocsin.protocol import Finish, WriterId

Start = Callable[..., Any]
Dial = Callable[..., Any]
HOUR = 3600 * 10**9


def read(server: Any, path: str) -> Any:
    """Return what the API answers about the run."""
    url = f"{server.base}/api/v1/runs/lone{path}"
    answer = httpx.get(url, headers={"authorization": f"Bearer {server.token}"}, timeout=60)
    return answer.raise_for_status().json()


@pytest.fixture
def server(run_server: Start) -> Any:
    """A server with an empty database."""
    return run_server(tick_ms=20)


@pytest.fixture
def live(server: Any, dial: Dial) -> Any:
    """A process that began an hour ago and trains the run from step 50 on."""
    writer = WriterId("second", 0, "boot", 2, time.time_ns() - HOUR)
    client = dial(server.base, "lone", server.token, writer=writer, config={"lr": 2.0})
    client.acked(client.train(range(50, 100), loss=[2.0] * 50))
    return client


def dead(server: Any, dial: Dial) -> Any:
    """A process that began two hours ago, delivered by another one."""
    writer = WriterId("first", 0, "boot", 1, time.time_ns() - 2 * HOUR)
    return dial(
        server.base,
        "lone",
        server.token,
        writer=writer,
        config={"lr": 1.0},
        began_ns=time.time_ns() - 2 * HOUR,
    )


def test_its_steps_are_below_those_of_its_successor(server: Any, dial: Dial, live: Any) -> None:
    """If both have a step, the successor's value is shown; all records are kept."""
    late = dead(server, dial)
    late.acked(late.train(range(60), loss=[1.0] * 60))
    layers = read(server, "/series?metrics=loss")["series"]["loss"]
    assert [layer["attempt"] for layer in layers] == [1, 0]
    run = read(server, "")
    assert (run["attempt"], run["attempts"], run["last_step"]) == (1, 2, 99)
    assert run["config"] == {"lr": 2.0}


def test_its_nan_is_no_alert_and_its_failure_ends_nothing(server: Any, dial: Dial, live: Any) -> None:
    """The run continues with its successor, so an alert about the dead process could never resolve."""
    late = dead(server, dial)
    last = late.train(range(60), loss=[float("nan")] * 60)
    late.send(Finish(0, time.time_ns(), "failed", last + 1, {"type": "OOM", "message": "", "lines": []}))
    late.acked(last, 0)
    run = read(server, "")
    assert (run["state"], run["error"], run["alerts"]) == ("running", None, 0)


def test_a_run_that_ended_stays_ended(server: Any, dial: Dial, live: Any) -> None:
    """Late records are kept, but do not make the run active."""
    live.send(Finish(0, time.time_ns(), "finished", 50))
    live.acked(49, 0)
    late = dead(server, dial)
    late.acked(late.train(range(60), loss=[1.0] * 60))
    run = read(server, "")
    assert (run["state"], run["attempt"], run["attempts"]) == ("finished", 1, 2)


def test_its_successor_still_raises_alerts(server: Any, dial: Dial, live: Any, eventually: Any) -> None:
    """The rules keep their state for the running process."""
    late = dead(server, dial)
    late.acked(late.train(range(60), loss=[1.0] * 60))
    live.acked(live.train(range(100, 110), loss=[float("nan")] * 10))
    eventually(lambda: read(server, "")["alerts"], "an alert")


BODY = """
import math
run = watch(resume='lone')
while True:
    run.log(step=step, loss={loss})
    os.write(1, b"%d\\n" % step)
    step += 1
    time.sleep(0.002)
"""
STEADILY, BROKEN = (
    BODY.format(loss="math.exp(-step / 2000) + step * 7919 % 101 / 2000"),
    BODY.format(loss="math.nan"),
)
"""Real training processes of one run."""


def killed_offline(spool: Path, body: str) -> int:
    """Kill a real training process that never reached a server; return its last logged step."""
    script = Script(body, f"http://127.0.0.1:{closed_port()}", spool)
    script.until(300)
    script.process.kill()
    script.end()
    return script.last


@pytest.mark.parametrize("restarts", [False, True], ids=["one server", "server restarted before sync"])
def test_sync_after_a_successor_trains(tower: Tower, tmp_path: Path, restarts: bool) -> None:
    """Two real processes are killed offline and synced one after the other while a third one trains."""
    spools = [tmp_path / "first", tmp_path / "second"]
    lasts = [killed_offline(spool, body) for spool, body in zip(spools, (STEADILY, BROKEN), strict=True)]
    live = Script(STEADILY, tower.base, tmp_path / "third", environ={"TOCSIN_TOKEN": tower.token})
    try:
        live.until(300)
        if restarts:
            tower.kill()
            tower.start()
        for spool in reversed(spools):
            bring_in(spool, tower.base, tower.token)
            run = tower.get("/runs/lone")
            assert (run["state"], run["error"], run["attempt"]) == ("running", None, 1)
        assert [(alert["rule"], alert["summary"]) for alert in tower.alerts("lone")] == []
        attempts = {row["attempt"] for row in tower.records("lone")}
        assert attempts == {1, 0, -1}
        steps = [[row["step"] for row in tower.records("lone") if row["attempt"] == no] for no in (-1, 0)]
        assert [found[: last + 1] for found, last in zip(steps, lasts, strict=True)] == [
            list(range(last + 1)) for last in lasts
        ]
        before = live.last
        live.until(before + 50)
    finally:
        live.process.kill()
        live.end()
    assert tower.get("/runs/lone")["attempts"] == 3
