"""Clock-based rules, by the server's arrival times, on runs of real clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from tocsin.protocol import Alive, Event, Finish
from tocsin_server.core.models import RunState
from tocsin_server.runs.watchdog import look

Start = Callable[..., Any]
Dial = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("url")
S = 1_000_000_000


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the server's own checks each second, which would undo the test's time travel."""

    async def idle(*_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("tocsin_server.app.application.run_watchdog", idle)


def after(server: Any, seconds: float) -> list[tuple[str, tuple[str, ...]]]:
    """Return state and open alerts of every run, as the watchdog finds them after ``seconds``."""

    def looked() -> list[tuple[str, tuple[str, ...]]]:
        pipeline = server.pipeline
        look(pipeline, time.time_ns() + int(seconds * S))
        boards = pipeline.registry.newest_first()
        return [
            (board.metadata.state.value, tuple(alert.rule for alert in board.open_alerts)) for board in boards
        ]

    return server.call(looked)  # type: ignore[no-any-return]


@pytest.mark.both_databases
def test_a_trainer_that_is_gone_is_lost_and_comes_back(
    run_server: Start, dial: Dial, eventually: Any
) -> None:
    """After thirty seconds without a connection a run is lost; its return resolves that."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    client.socket.close()
    eventually(lambda: not server.pipeline.registry.active["r1"].connected, "the trainer to go")
    assert after(server, 25) == [("running", ())]
    assert after(server, 31) == [("lost", ("trainer-lost",))]
    assert server.pipeline.registry.active["r1"].summary.health == "warning"
    dial(server.base, "r1", server.token)
    assert after(server, 32) == [("running", ())]


@pytest.mark.usefixtures("by_hand")
def test_an_interrupted_import_is_lost_without_an_alert(
    run_server: Start, dial: Dial, eventually: Any, tmp_path: Any
) -> None:
    """Also after a restart of the server; its continuation runs."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.send(Event(0, "imported", time.time_ns(), data={}))
    client.acked(client.train([0], loss=[1.0]), 0)
    client.socket.close()
    eventually(lambda: not server.pipeline.registry.active["r1"].connected, "the importer to go")
    assert after(server, 700) == [("lost", ())]
    server.stop()
    again = run_server(tmp_path)
    assert after(again, 700) == [("lost", ())]
    dial(again.base, "r1", again.token)
    assert after(again, 1) == [("running", ())]


@pytest.mark.usefixtures("by_hand")
def test_a_run_whose_steps_stop_is_stalled(run_server: Start, dial: Dial) -> None:
    """A client that is alive without steps is stalled, not lost, until steps arrive."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    assert after(server, 1190) == [("running", ())]
    assert after(server, 1210) == [("stalled", ("stalled",))]
    assert after(server, 0) == [("running", ())]


@pytest.mark.usefixtures("by_hand")
def test_a_repeated_check_writes_nothing(run_server: Start, dial: Dial) -> None:
    """While a run stays stalled, the watchdog checks every second and reports it once."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    after(server, 1210)
    alert = server.pipeline.registry.active["r1"].tracker.open()[0]
    assert after(server, 1211.5) == [("stalled", ("stalled",))]
    assert server.pipeline.registry.active["r1"].tracker.open()[0] is alert


@pytest.mark.usefixtures("by_hand")
def test_a_declared_phase_is_no_stall(run_server: Start, dial: Dial) -> None:
    """During an evaluation that the script declared, or that alive names, no steps are expected."""
    server = run_server()
    for message in (
        Event(0, "phase", time.time_ns(), data={"name": "eval", "state": "begin"}),
        Alive(time.time_ns(), phase="eval"),
    ):
        client = dial(server.base, "r1", server.token, attempt=type(message).__name__)
        client.train([0], loss=[1.0])
        client.send(message)
        client.acked(client.train([1], loss=[1.0]))
        assert after(server, 600) == [("running", ())]
    client.send(Alive(time.time_ns()))
    client.acked(client.train([2], loss=[1.0]))
    assert after(server, 1210)[0][0] == "stalled"


@pytest.mark.usefixtures("by_hand")
def test_an_ended_run_gets_no_alert(run_server: Start, dial: Dial) -> None:
    """Neither silence nor absence counts after finish, which also resolves an open alert."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    assert after(server, 1210) == [("stalled", ("stalled",))]
    client.send(Finish(0, time.time_ns(), records=1))
    client.acked(0, 0)
    client.socket.close()
    assert after(server, 40) == [("finished", ())]


@pytest.mark.usefixtures("by_hand")
def test_a_restart_of_the_server_raises_no_storm(run_server: Start, dial: Dial, tmp_path: Any) -> None:
    """Runs that were active when the server stopped have thirty seconds from its start."""
    server = run_server()
    for number in range(5):
        client = dial(server.base, f"r{number}", server.token)
        client.acked(client.train([0], loss=[1.0]))
    server.stop()
    again = run_server(tmp_path)
    assert after(again, 25) == [("running", ())] * 5
    assert after(again, 31) == [("lost", ("trainer-lost",))] * 5


@pytest.mark.usefixtures("by_hand")
def test_a_stall_outlives_a_restart(run_server: Start, dial: Dial, tmp_path: Any) -> None:
    """A stalled run is stalled after a restart, with the same alert, until a record arrives."""
    server = run_server(rule_state_records=1, rule_state_pause_s=1e-9)
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    assert after(server, 1210) == [("stalled", ("stalled",))]
    server.stop()
    again = run_server(tmp_path)
    client = dial(again.base, "r1", again.token)
    assert after(again, 1) == [("stalled", ("stalled",))]
    client.acked(client.train([1], loss=[1.0]))
    assert after(again, 1) == [("running", ())]


@pytest.mark.usefixtures("by_hand")
def test_a_slow_run_is_no_stall_after_a_restart(run_server: Start, dial: Dial, tmp_path: Any) -> None:
    """The usual speed of a run is stored across a restart."""
    server = run_server(rule_state_records=1, rule_state_pause_s=1e-9)
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    server.pipeline.registry.active["r1"].heartbeat.intervals_s.append(300.0)
    client.acked(client.train([1], loss=[1.0]))
    server.stop()
    again = run_server(tmp_path)
    dial(again.base, "r1", again.token)
    assert after(again, 1000) == [("running", ())]
    assert after(again, 1700) == [("stalled", ("stalled",))]


def test_lost_is_durable(run_server: Start, dial: Dial, eventually: Any, tmp_path: Any) -> None:
    """A run that was lost before a restart is lost after it, with the same alert."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    client.socket.close()
    eventually(lambda: not server.pipeline.registry.active["r1"].connected, "the trainer to go")
    after(server, 31)
    eventually(lambda: server.services.reader.run("r1").state is RunState.LOST, "the state to be durable")
    server.stop()
    again = run_server(tmp_path)
    assert after(again, 1) == [("lost", ("trainer-lost",))]
    assert after(again, 31) == [("lost", ("trainer-lost",))]
    assert len(again.services.reader.alerts("r1")) == 1


def test_a_crash_in_one_run_does_not_affect_others(run_server: Start, dial: Dial) -> None:
    """A run that cannot be evaluated is logged, and the next one is evaluated all the same."""
    server = run_server()
    broken, sound = (dial(server.base, run, server.token) for run in ("r1", "r2"))
    for client in (broken, sound):
        client.acked(client.train([0], loss=[1.0]))
    server.pipeline.registry.active["r1"].heartbeat.intervals_s = None
    assert sorted(after(server, 1210)) == [("running", ()), ("stalled", ("stalled",))]


def test_twenty_trainers_come_back_after_a_restart_without_a_word(
    run_server: Start, dial: Dial, tmp_path: Any
) -> None:
    """If they reconnect within thirty seconds, none is lost, and nobody is notified."""
    server = run_server()
    runs = [f"r{number}" for number in range(20)]
    for run in runs:
        client = dial(server.base, run, server.token)
        client.acked(client.train([0], loss=[1.0]))
    server.stop()
    again = run_server(tmp_path)
    assert after(again, 15) == [("running", ())] * 20
    for run in runs:
        dial(again.base, run, again.token)
    assert after(again, 40) == [("running", ())] * 20
    assert again.services.reader.alerts() == []


def test_a_short_cut_of_the_network_is_nothing(run_server: Start, dial: Dial, eventually: Any) -> None:
    """Away for less than thirty seconds, then steps continue: neither lost nor stalled."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    client.socket.close()
    eventually(lambda: not server.pipeline.registry.active["r1"].connected, "the trainer to go")
    assert after(server, 20) == [("running", ())]
    back = dial(server.base, "r1", server.token)
    back.acked(back.train([1], loss=[1.0]))
    assert after(server, 40) == [("running", ())]
    assert server.services.reader.alerts() == []


def test_five_ends_of_a_training_are_five_things(run_server: Start, dial: Dial, eventually: Any) -> None:
    """Stalled, lost, finished, failed and running are distinguished in one fleet."""
    server = run_server()
    clients = {}
    for run in ("finished", "failed", "lost", "stalled", "running"):
        clients[run] = dial(server.base, run, server.token)
        clients[run].acked(clients[run].train([0], loss=[1.0]))
    for state in ("finished", "failed"):
        clients[state].send(Finish(0, time.time_ns(), state=state, error={"type": "Oops"}, records=1))
        clients[state].acked(0, 0)
    clients["lost"].socket.close()
    eventually(lambda: not server.pipeline.registry.active["lost"].connected, "the trainer to go")
    clients["running"].send(Event(0, "phase", time.time_ns(), data={"name": "checkpoint", "state": "begin"}))
    clients["running"].acked(0, 0)
    after(server, 1210)
    rows = server.rows()
    assert {row["name"]: row["state"] for row in rows} == {name: name for name in clients}
    eventually(lambda: len(server.services.reader.alerts()) == 3, "all alerts to be durable")
    reported = {stored.alert.run_id: stored.alert.rule for stored in server.services.reader.alerts()}
    assert reported == {"failed": "run-failed", "lost": "trainer-lost", "stalled": "stalled"}
