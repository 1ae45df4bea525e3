"""A critical alert sends requests to clients that opted in: to all ranks or none."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import fork_server
from tocsin.protocol import Hello, Request, WriterId
from tocsin_server.core.models import Alert, AlertState, Diagnosis, Severity, Transition, Writer
from tocsin_server.runs import client_requests
from tocsin_server.runs.client_requests import MOST, Participant, RequestCoordinator


class RecordedRequests:
    """Collect the audit events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.dropped = asyncio.Event()

    def add_event(self, run_id: str, kind: str, data: Mapping[str, Any]) -> None:
        self.events.append(dict(data))
        if data["outcome"] == "dropped":
            self.dropped.set()

    def steps_per_s(self, run_id: str) -> float | None:
        return 10.0

    @property
    def outcomes(self) -> list[str]:
        return [event["outcome"] for event in self.events]


def _alert(no: int = 1, **changes: Any) -> Transition:
    alert = Alert("r", f"f{no}", 1, "nonfinite-loss", "loss", Severity.CRITICAL, AlertState.FIRING,
                  5, 0, 0, 5, 0, None, None, "", Diagnosis(""))  # fmt: skip
    return Transition(replace(alert, **changes), None, 0)


class Coordination:
    """A coordinator for one run with ``world`` ranks."""

    def __init__(self, world: int, present: int, wants: tuple[str, ...] = ("checkpoint",)) -> None:
        self.recorded = RecordedRequests()
        self.requests = RequestCoordinator(self.recorded)
        self.stack = ExitStack()
        self.participants = [
            self.stack.enter_context(self._joined(rank, world, wants)) for rank in range(present)
        ]

    def _joined(self, rank: int, world: int, wants: tuple[str, ...]) -> Any:
        who = WriterId("a", rank, "b", rank, 0)
        hello = Hello(1, "", "p", "n", "r", who, world, "h", 0, wants=list(wants))
        return self.requests.joined(Writer("r", rank, 1, rank), hello, lambda: None)

    def requests_received(self) -> list[Request]:
        """Return what each rank receives now; all receive the same."""
        received = [participant.drain() for participant in self.participants]
        assert all(one == received[0] for one in received)
        found: list[Request] = received[0]
        return found

    def answer(self, request: Request, *steps: int) -> None:
        for participant, step in zip(self.participants, steps, strict=False):
            self.say(participant, request, step)

    def say(self, participant: Participant, request: Request, step: int, outcome: str = "received") -> None:
        data = {"id": request.id, "outcome": outcome, "at_step": request.at_step, "step": step}
        self.requests.answered(participant.writer, data)


def _on_a_loop(play: Callable[[], None]) -> None:
    async def run() -> None:
        play()

    asyncio.run(run())


def test_requests_are_limited_per_episode_and_per_run() -> None:
    """However many connections report the alert, and however many rules detect the same problem."""
    coordination = Coordination(1, 1)
    for no in [1, 2, 3, 4, 5]:
        for other in (no, no, no + 10):
            coordination.requests.alert(_alert(other))
        coordination.requests.alert(_alert(no, state=AlertState.RESOLVED))
    assert [request.alert for request in coordination.requests_received()] == [
        f"r.f{no}.1" for no in range(1, MOST + 1)
    ]
    assert coordination.recorded.outcomes == ["asked"] * MOST + ["dropped"] * 2


@pytest.mark.parametrize(
    "changes", [{"severity": Severity.WARNING}, {"state": AlertState.RESOLVED}, {"late": True}]
)
def test_only_a_critical_alert_of_now_asks(changes: dict[str, Any]) -> None:
    """No warnings, resolved alerts, or alerts from an old spool."""
    coordination = Coordination(1, 1)
    coordination.requests.alert(_alert(**changes))
    assert (coordination.requests_received(), coordination.recorded.events) == ([], [])


def test_all_ranks_are_brought_to_one_step() -> None:
    """At least LEAD_S ahead of the furthest rank at the run's speed; confirmed when all have responded."""

    def play() -> None:
        coordination = Coordination(2, 2)
        coordination.requests.alert(_alert())
        (where,) = coordination.requests_received()
        coordination.answer(where, 100, 103)
        (order,) = coordination.requests_received()
        assert (order.at_step, order.confirmed) == (103 + 60, False)
        coordination.answer(order, 110, 111)
        (go,) = coordination.requests_received()
        assert (go.at_step, go.confirmed) == (163, True)
        assert coordination.recorded.outcomes == ["asked", "confirmed"]

    _on_a_loop(play)


def test_one_rank_missing_drops_it() -> None:
    """If one is not connected or has not opted in, no rank gets the request."""
    coordination = Coordination(2, 1)
    coordination.requests.alert(_alert())
    assert coordination.requests_received() == []
    assert coordination.recorded.events[0]["reason"] == "of 2 ranks, these do not take part: 1"


@pytest.mark.parametrize("how", ["silent", "late", "gone", "refuses"])
def test_one_rank_that_does_not_answer_in_time_drops_it(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No confirmation is sent, so no rank acts."""
    monkeypatch.setattr(client_requests, "LEAD_S", 0.02)

    async def play() -> None:
        coordination = Coordination(2, 2)
        coordination.requests.alert(_alert())
        coordination.answer(coordination.requests_received()[0], 1, 1)
        (order,) = coordination.requests_received()
        assert order.at_step == 21
        coordination.say(coordination.participants[0], order, 2)
        if how == "late":
            coordination.say(coordination.participants[1], order, 21)
        elif how == "gone":
            coordination.stack.close()
        elif how == "refuses":
            coordination.say(coordination.participants[1], order, 2, "dropped")
        await coordination.recorded.dropped.wait()  # the timer of the coordinator ends the wait
        assert not any(
            request.confirmed for participant in coordination.participants for request in participant.drain()
        )

    asyncio.run(asyncio.wait_for(play(), 30))


SINGLE = """
import time, torch, tocsin
run = tocsin.watch("actions", name=NAME, actions={"checkpoint", "stop"})
weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1)

@run.on_request("checkpoint")
def save(request):
    run.event("checkpoint", path=f"for {request.reason}")

for step in range(20_000):
    optimizer.zero_grad()
    (weight.pow(2).sum() * (float("nan") if step >= 40 else 1.0)).backward()
    optimizer.step()
    if run.requested == "stop":
        break
    time.sleep(0.005)
run.finish()
"""

HEARING = """
import threading, time, torch, tocsin
run = tocsin.watch("actions", name=NAME)
weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
handled = []

@run.on_alert(severity="critical", rules=["nonfinite-loss"])
def note(alert):
    main = threading.current_thread() is threading.main_thread()
    handled.append(alert)
    run.event("handled", rule=alert.rule, onset=alert.onset_step, doing=doing, main=main, remedy=alert.remedy)

@run.on_alert(rules="loss-spike")
def never(alert):
    run.event("handled", rule=alert.rule)

for step in range(20_000):
    doing = "forward"
    loss = weight.pow(2).sum() * (float("nan") if step >= 40 else 1.0)
    run.log(forward=1.0)
    doing = "backward"
    loss.backward()
    run.log(backward=1.0)
    doing = "step"
    optimizer.step()
    doing = "after"
    run.log(after=1.0)
    optimizer.zero_grad()
    if handled:
        break
    time.sleep(0.005)
run.finish()
"""

SEVERAL = """
import time, torch, tocsin
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
run = tocsin.watch("actions", name=NAME, actions=["checkpoint", "stop"])
net = DistributedDataParallel(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

@run.on_request("checkpoint")
def save(request):
    dist.barrier()  # alone it would wait for ever

for step in range(5_000):
    optimizer.zero_grad()
    (net(torch.ones(1, 2)).sum() * (float("nan") if step >= 40 else 1.0)).backward()
    optimizer.step()
    if run.requested == "stop":
        break
    time.sleep(0.01)
run.finish()
dist.destroy_process_group()
"""


def _events(server: Any, name: str) -> list[dict[str, Any]]:
    run = next(row["id"] for row in server.get("/runs", project="actions")["items"] if row["name"] == name)
    items: list[dict[str, Any]] = server.get(f"/runs/{run}/events")["items"]
    return items


def _outcomes(events: list[dict[str, Any]], action: str) -> list[tuple[int, str]]:
    return [
        (event["rank"], event["data"]["outcome"])
        for event in events
        if event["kind"] == "action" and event["data"]["action"] == action
    ]


def _environ(server: Any, tmp_path: Path, **more: str) -> dict[str, str]:
    own = {"TOCSIN_URL": server.base, "TOCSIN_TOKEN": server.token, "TOCSIN_SPOOL_DIR": str(tmp_path)}
    return {**os.environ, **own, "OMP_NUM_THREADS": "1", **more}


def _train(code: str, environ: dict[str, str]) -> fork_server.Process:
    return fork_server.train("-c", code, env=environ, stdout=1, stderr=2)


def test_a_training_saves_and_stops_when_its_loss_is_nan(server: Any, tmp_path: Path) -> None:
    """A real loop, server and alert: the request is carried out, and the script leaves its loop."""
    code = SINGLE.replace("NAME", repr("single"))
    assert _train(code, _environ(server, tmp_path)).wait(120) == 0
    events = _events(server, "single")
    assert _outcomes(events, "checkpoint") == [(0, "asked"), (0, "done")]
    assert _outcomes(events, "stop") == [(0, "asked"), (0, "requested")]
    assert [event["data"]["path"] for event in events if event["kind"] == "checkpoint"] == [
        "for nonfinite-loss"
    ]


def test_an_alert_returns_to_its_training_process(server: Any, tmp_path: Path) -> None:
    """Those it subscribed to, within the optimizer's step on the main thread, however much is logged."""
    code = HEARING.replace("NAME", repr("hearing"))
    assert _train(code, _environ(server, tmp_path)).wait(120) == 0
    (received,) = [event["data"] for event in _events(server, "hearing") if event["kind"] == "handled"]
    assert received.pop("remedy")
    assert received == {"rule": "nonfinite-loss", "onset": 40, "doing": "step", "main": True}


def test_two_ranks_save_and_stop_at_one_step(server: Any, tmp_path: Path) -> None:
    """Two gloo processes with a barrier in their handlers: neither waits indefinitely."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    shared = {
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "TORCHELASTIC_RUN_ID": f"t{time.time_ns()}",
    }
    code = SEVERAL.replace("NAME", repr("several"))
    processes = [_train(code, _environ(server, tmp_path, RANK=str(rank), **shared)) for rank in range(2)]
    try:
        assert [process.wait(120) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    events = [event for event in _events(server, "several") if event["kind"] == "action"]
    for action, outcome in (("checkpoint", "done"), ("stop", "requested")):
        acted = [e for e in events if e["data"]["action"] == action and e["data"]["outcome"] == outcome]
        assert sorted(event["rank"] for event in acted) == [0, 1]
        assert len({event["data"]["step"] for event in acted}) == 1
        assert all(event["data"]["step"] == event["data"]["at_step"] for event in acted)
