"""Rules in other processes: nothing is lost or doubled, whatever happens to them."""

from __future__ import annotations

import logging
import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import make_url

from tests.matrix import ALL
from tests.server import siege
from tocsin.protocol import Event, Finish
from tocsin_server.detect.engine.plan import EVERY
from tocsin_server.runs import rule_process, rule_processes
from tocsin_server.runs.rule_process import RemoteEvaluator

Start = Callable[..., Any]
Dial = Callable[..., Any]

ROOT = Path(__file__).parents[3]
KILLS = rule_processes.LIVES + 1 if ALL else 2
"""With more than three kills, the server evaluates the rest itself."""


@pytest.fixture
def process_of(eventually: Any) -> Callable[[Any], int]:
    """``process_of(server)``: the id of its only rule process, once it runs."""

    def found(server: Any) -> int:
        (process,) = eventually(lambda: server.pipeline.registry.processes.live, "a rule process")
        return int(process.pid)

    return found


@pytest.fixture
def stopped(run_server: Start, dial: Dial, process_of: Any) -> Start:
    """``stopped(**settings)``: a server, a client with a stored record, and its stopped rule process."""

    def begin(**settings: Any) -> tuple[Any, Any, int]:
        server = run_server(rule_processes=1, **settings)
        pid = process_of(server)
        client = dial(server.base, "r1", server.token)
        client.acked(client.train([0], loss=[1.0]))
        os.kill(pid, signal.SIGSTOP)
        return server, client, pid

    return begin


def alerts(server: Any, run: str) -> list[tuple[str, str]]:
    return [(found.alert.rule, found.alert.state.value) for found in server.services.reader.alerts(run)]


def test_killed_rule_processes_lose_and_double_nothing(tmp_path: Path) -> None:
    """SIGKILL while trainings report: records, alerts and their history are those without a kill."""
    url = make_url(f"sqlite:///{tmp_path / 'tocsin.db'}")
    records = siege.Siege(url, tmp_path, clients=2, seed=3).rule_process_kills(KILLS)
    siege.check(url, records, 2)


def test_a_run_moves_to_a_process_between_two_batches(
    run_server: Start, dial: Dial, process_of: Any, eventually: Any
) -> None:
    """Busy rules start a process; a run continues there with its state, and its alert fires once."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train(range(60), loss=[1.0] * 60))
    processes, run = server.pipeline.registry.processes, server.pipeline.registry.active["r1"]
    for _ in range(rule_processes.BUSY_LOOKS):
        server.call(lambda: processes.look(rule_processes.BUSY))
    process_of(server)
    eventually(lambda: isinstance(run.evaluator, RemoteEvaluator), "the run to move")
    client.acked(client.train([60, 61], loss=[math.nan, math.nan]))
    assert alerts(server, "r1") == [("nonfinite-loss", "firing")]
    assert len(processes.live) == 1


def test_a_run_that_cannot_move_does_not_keep_others_from_it(
    run_server: Start, dial: Dial, process_of: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server continues to evaluate its rules, and health says why."""
    server = run_server()
    clients = [dial(server.base, run, server.token) for run in ("r1", "r2")]
    for client in clients:
        client.acked(client.train([0], loss=[1.0]))
    processes, runs = server.pipeline.registry.processes, server.pipeline.registry.active
    monkeypatch.setattr(runs["r1"].evaluator.engine, "save", lambda: 1 / 0)
    for _ in range(rule_processes.BUSY_LOOKS):
        server.call(lambda: processes.look(rule_processes.BUSY))
    process_of(server)
    eventually(lambda: isinstance(runs["r2"].evaluator, RemoteEvaluator), "the other run to move")
    clients[0].acked(clients[0].train([1], loss=[math.nan]))
    assert alerts(server, "r1") == [("nonfinite-loss", "firing")]
    assert [one["subject"] for one in server.call(server.pipeline.jobs.failing)] == ["run r1"]


def test_a_run_moves_from_a_busy_process_to_another(run_server: Start, dial: Dial, eventually: Any) -> None:
    """It continues there with its state, and its alert fires once."""
    server = run_server(rule_processes=2)
    processes, runs = server.pipeline.registry.processes, server.pipeline.registry.active
    eventually(lambda: len(processes.live) == 2, "two processes")
    clients = {name: dial(server.base, name, server.token) for name in ("r1", "r2", "r3")}
    for client in clients.values():
        client.acked(client.train([0], loss=[math.nan]))
    busy = max(processes.live, key=lambda process: len(process.held))
    server.call(lambda: busy.busy_s.update(dict.fromkeys(busy.held, 1e6)))
    moved = eventually(
        lambda: [one for one in clients if runs[one].evaluator._process is not busy][1:], "a move"
    )
    for name in clients:
        clients[name].acked(clients[name].train([1], loss=[math.nan]))
        assert alerts(server, name) == [("nonfinite-loss", "firing")]
    assert len(moved) == len(busy.held) == 1


def test_a_finish_waits_for_the_findings_before_it(stopped: Start, eventually: Any) -> None:
    """Behind a batch without an answer, events and the end of the run keep their order."""
    server, client, pid = stopped()
    client.train([1], loss=[math.nan])
    client.send(Event(0, "note", time.time_ns()))
    client.send(Finish(1, time.time_ns(), "failed", 2, {"type": "ValueError"}))
    run = server.pipeline.registry.active["r1"]
    eventually(lambda: run.writers[0].event == 1, "the finish to be accepted")
    assert server.rows()[0]["state"] == "running"
    os.kill(pid, signal.SIGCONT)
    client.acked(1, 1)
    causes = [found.alert.diagnosis.cause for found in server.services.reader.alerts("r1")]
    assert any("unstable before it failed" in cause for cause in causes)


def test_batches_without_an_answer_count_as_backlog(stopped: Start, eventually: Any) -> None:
    """While a rule process does not answer, the server stops reading; then everything is acknowledged."""
    server, client, pid = stopped(backlog_bytes=100_000)
    for start in range(1, 101):
        last = client.train([start], loss=[1.0], **{f"m{no}": [1.0] for no in range(20)})
    eventually(lambda: server.health()["pressed"], "the backlog to be full")
    assert server.health()["backlog_bytes"] < 200_000
    os.kill(pid, signal.SIGCONT)
    client.acked(last)
    assert server.health()["backlog_bytes"] == 0


def test_a_process_that_hangs_is_replaced(
    stopped: Start,
    eventually: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its runs continue in another process, and their alerts fire."""
    server, client, _ = stopped()
    last = client.train([1], loss=[math.nan])
    monkeypatch.setattr(rule_process, "HANG_S", 0.0)
    eventually(lambda: "does not answer" in caplog.text, "the process to be replaced")
    monkeypatch.undo()
    client.acked(last)
    assert alerts(server, "r1") == [("nonfinite-loss", "firing")]


def test_the_innermost_rule_of_a_stack_hangs() -> None:
    """Also if it hangs in a function that the rule calls; other files are no rules."""
    frames = (
        '  File "/a/stats/level.py", line 1 in median',
        '  File "/a/rules/loss/loss_spike.py", line 2 in observe',
    )
    assert rule_process.rule_in("\n".join(frames)) == "loss-spike"
    assert rule_process.rule_in(frames[0]) == EVERY


def test_a_rule_that_loops_is_disabled_for_its_run(
    run_server: Start, dial: Dial, eventually: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """After the second hang: what waits is acknowledged, other rules see it, and other runs keep the rule."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(rule_process, "PROGRAM", "tests.server.app.endless_rule")
    monkeypatch.setattr(rule_process, "HANG_S", 0.5)
    server = run_server(rule_processes=1)
    client, other = (dial(server.base, run, server.token) for run in ("r1", "r2"))
    client.acked(client.train([0], loss=[math.nan], grad_norm=[1.0]))
    client.acked(client.train([1, 2], loss=[math.inf, 1.0], grad_norm=[math.nan, 1.0]))
    eventually(lambda: ("nonfinite-loss", "resolved") in alerts(server, "r1"), "its alert to be closed")
    assert ("nonfinite-grad-norm", "firing") in alerts(server, "r1")
    other.acked(other.train([0], loss=[math.nan]))
    assert alerts(server, "r2") == [("nonfinite-loss", "firing")]
    assert server.health()["rule_process_restarts"] == rule_processes.HANGS
    assert "Rule nonfinite-loss is evaluated no more for run r1" in caplog.text


def test_a_rule_that_raises_is_disabled_for_its_run(
    run_server: Start, dial: Dial, eventually: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process continues, other rules see the same records, and other runs keep the rule."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(rule_process, "PROGRAM", "tests.server.app.endless_rule")
    server = run_server(rule_processes=1)
    client, other = (dial(server.base, run, server.token) for run in ("r1", "r2"))
    client.acked(client.train([0], loss=[math.nan], grad_norm=[1.0]))
    for step in range(1, rule_processes.RAISES + 1):
        client.acked(client.train([step], loss=[-math.inf], grad_norm=[math.nan]))
    eventually(lambda: ("nonfinite-loss", "resolved") in alerts(server, "r1"), "its alert to be closed")
    assert ("nonfinite-grad-norm", "firing") in alerts(server, "r1")
    other.acked(other.train([0], loss=[math.nan]))
    assert alerts(server, "r2") == [("nonfinite-loss", "firing")]
    assert server.health()["rule_process_restarts"] == 0


def test_without_processes_the_server_evaluates_the_rules(
    run_server: Start,
    dial: Dial,
    eventually: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """If a process cannot start, that is logged once and shown in health, and alerts fire as usual."""
    monkeypatch.setattr(rule_process, "PROGRAM", "tocsin_server.absent")
    monkeypatch.setattr(rule_processes, "PAUSE_S", 0.0)
    server = run_server(rule_processes=1)
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0, 1], loss=[1.0, math.nan]))
    assert alerts(server, "r1") == [("nonfinite-loss", "firing")]
    assert server.health()["rule_process_problem"] == "it ended before it was ready"
    assert len([one for one in caplog.records if one.levelno >= logging.ERROR]) == 1


def test_a_deleted_run_stores_no_late_answer(stopped: Start, eventually: Any) -> None:
    """A batch whose run is deleted before its answer arrives is not submitted."""
    server, client, pid = stopped()
    client.train([1], loss=[1.0])
    run = server.pipeline.registry.active["r1"]
    eventually(lambda: not run.turns.idle, "the batch to be accepted")
    server.call(lambda: server.pipeline.changes.forget("r1"))
    os.kill(pid, signal.SIGCONT)
    eventually(lambda: run.turns.idle, "the answer")
    assert (run.pending, run.evaluated_arrival) == (0, 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_the_server(start_server: Start, eventually: Any, number: signal.Signals) -> None:
    """However the server ends, its rule processes end, too."""
    server = start_server(TOCSIN_RULE_PROCESSES="2")
    children = eventually(lambda: len(found := siege.rule_processes(server)) == 2 and found, "two processes")
    server.stop(number)
    assert not psutil.wait_procs(children, timeout=30)[1]
