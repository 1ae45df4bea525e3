"""A hello ends in a durable run or in a request to reconnect, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import httpx
import pytest

from tests.server.conftest import hello_of
from tocsin_server.core.models import Writer
from tocsin_server.core.settings import Settings
from tocsin_server.runs import admission, registry, watchdog
from tocsin_server.runs.admission import Admission, TryLaterError
from tocsin_server.runs.registry import RunRegistry
from tocsin_server.store import registration
from tocsin_server.store.registration import Registered, register

Start = Callable[..., Any]
Dial = Callable[..., Any]
on_both = pytest.mark.usefixtures("url")


class Held:
    """Do what ``work`` does, then wait for ``go`` before returning."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self.begun, self.go = threading.Event(), threading.Event()

    def __call__(self, *reported: Any, **named: Any) -> Any:
        result = self._work(*reported, **named)
        self.begun.set()
        assert self.go.wait(60)
        return result


@on_both
@pytest.mark.both_databases
def test_a_run_deleted_while_a_hello_reads_it_stays_deleted(
    run_server: Start, dial: Dial, monkeypatch: pytest.MonkeyPatch, eventually: Any
) -> None:
    """If a run is deleted while it is read, its client is asked to retry, and no row is shown."""
    server = run_server()
    first = dial(server.base, "r1", server.token)
    first.acked(first.train([0], loss=[1.0]))
    first.socket.close()
    eventually(lambda: not server.pipeline.registry.active["r1"].connected, "the trainer to go")
    server.call(lambda: server.pipeline.registry.retire("r1"))
    reading = Held(registry.load_engine)
    monkeypatch.setattr(registry, "load_engine", reading)
    late = dial(server.base)
    late.send(hello_of("r1", server.token))
    assert reading.begun.wait(60)
    headers = {"authorization": f"Bearer {server.token}"}
    assert httpx.delete(f"{server.base}/api/v1/runs/r1", headers=headers).status_code == 204
    reading.go.set()
    assert late.ended() == 4503
    assert server.pipeline.registry.active == {}
    assert server.rows() == []


@on_both
def test_a_known_client_is_welcomed_before_its_run_is_loaded(
    run_server: Start, dial: Dial, monkeypatch: pytest.MonkeyPatch, eventually: Any
) -> None:
    """After a start, loading hundreds of runs takes longer than clients wait; acks come after it."""
    server = run_server()
    first = dial(server.base, "r1", server.token)
    last = first.train([0, 1], loss=[1.0, 1.0])
    first.acked(last)
    first.socket.close()
    eventually(lambda: not server.pipeline.registry.active["r1"].connected, "the trainer to go")
    server.call(lambda: server.pipeline.registry.retire("r1"))
    reading = Held(registry.load_engine)
    monkeypatch.setattr(registry, "load_engine", reading)
    again = dial(server.base, "r1", server.token)
    assert (again.welcome.seq, "r1" in server.pipeline.registry.active) == (last, False)
    reading.go.set()
    again.acked(again.train([2], loss=[1.0]))


class Answering:
    """A store whose calls the test completes."""

    failing: str | None = None

    def __init__(self) -> None:
        self.answer: Future[Any] = Future()

    def call(self, work: Callable[..., Any], *, together: bool = False) -> Future[Any]:
        return self.answer


def test_a_hello_registered_before_a_delete_does_not_join_the_run_after_it() -> None:
    """The run was deleted between registering and joining, so its numbers are invalid."""

    async def scene() -> None:
        store, runs = Answering(), RunRegistry(Settings(), reader=None)  # type: ignore[arg-type]
        hello = hello_of("r1")
        admitted = asyncio.create_task(Admission(store, runs).admit(hello, 1))
        await asyncio.sleep(0)
        store.answer.set_result((Registered(Writer("r1", 0, 1, 0), False, 99, 9, {}, 1, False), False))
        runs.drop("r1")
        runs.active["r1"] = type("Anew", (), {"id": "r1", "writers": {}})()
        with pytest.raises(TryLaterError, match="deleted"):
            await admitted
        assert runs.active["r1"].writers == {}

    asyncio.run(scene())


@on_both
def test_a_hello_that_times_out_leaves_nothing(
    run_server: Start, dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database was busy too long: the client retries, and no run without a client is left."""
    server = run_server()
    monkeypatch.setattr(admission, "REGISTER_S", 0.1)
    busy = Held(lambda connection: None)
    server.services.writer.call(busy)
    late = dial(server.base)
    late.send(hello_of("r1", server.token))
    assert late.ended() == 4503
    busy.go.set()
    server.services.writer.call(lambda connection: None).result(60)
    assert server.services.reader.run("r1") is None


@on_both
def test_a_hello_registered_too_late_is_watched(
    run_server: Start, dial: Dial, monkeypatch: pytest.MonkeyPatch, eventually: Any
) -> None:
    """Its client was rejected and may never return: then the run is lost, instead of running indefinitely."""
    server = run_server()
    monkeypatch.setattr(admission, "REGISTER_S", 0.1)
    registering = Held(register)
    monkeypatch.setattr(registration, "register", registering)
    late = dial(server.base)
    late.send(hello_of("r1", server.token))
    assert late.ended() == 4503
    registering.go.set()
    eventually(lambda: "r1" in server.pipeline.registry.active, "the run to be watched")
    server.call(lambda: watchdog.look(server.pipeline, time.time_ns() + 10**12))
    assert server.rows()[0]["state"] == "lost"
    monkeypatch.undo()
    assert dial(server.base, "r1", server.token).welcome.seq == -1
