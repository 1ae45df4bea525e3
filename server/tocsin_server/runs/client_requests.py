"""Ask training processes that opted in for a checkpoint or a stop when a critical alert fires.

Each action is requested at most once per episode and MOST times per run, and is recorded as ``action`` events
of the run. Further alerts that fire while the first is open are treated as the same problem.

A single process is asked to act directly. With several ranks, all must be connected and have opted in: each
is asked for its current step, then all are sent a step ahead of every one of them, and the request is
confirmed only after each has answered in time. Otherwise the request is dropped, because an action on only
some ranks would block them in a collective operation.

Everything runs on the event loop; ``RunAccess.add_event`` stores the events.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from tocsin.protocol import Hello, Request
from tocsin_server.core.models import Alert, AlertState, Severity, Transition, Writer

KIND = "action"
ACTIONS = ("checkpoint", "stop")
MOST = 3
ANSWER_S = 10.0
"""Time limit for the ranks to report their steps."""
LEAD_S, LEAD_STEPS = 6.0, 20
"""Minimum lead of the step. Half of the time is for the answers, the other half for the confirmation."""
QUEUED = 64
REMEMBERED = 4096


class RunAccess(Protocol):
    """The part of ``ServerChanges`` that requests use: it adds events to a run and knows its throughput."""

    def steps_per_s(self, run_id: str) -> float | None: ...

    def add_event(self, run_id: str, kind: str, data: Mapping[str, Any]) -> None: ...


@dataclass(eq=False)
class Participant:
    """One connected process that opted in."""

    writer: Writer
    wants: frozenset[str]
    world_size: int
    notify: Callable[[], None]
    messages: deque[Request] = field(default_factory=lambda: deque(maxlen=QUEUED))

    def send(self, request: Request) -> None:
        self.messages.append(request)
        self.notify()

    def drain(self) -> list[Request]:
        """Return the requests to be sent, oldest first."""
        found = list(self.messages)
        self.messages.clear()
        return found


@dataclass(eq=False)
class PendingRequest:
    """A request to all ranks of a run that is in progress."""

    request: Request
    run_id: str
    participants: dict[int, Participant]
    answers: dict[int, int] = field(default_factory=dict)
    """Rank -> step, for the ranks that answered the current question."""
    timer: asyncio.TimerHandle | None = None


class RequestCoordinator:
    """Request actions from the participants of each run, and track the answers."""

    def __init__(self, runs: RunAccess) -> None:
        self._runs = runs
        self._participants: dict[str, list[Participant]] = {}
        self._pending: dict[str, PendingRequest] = {}
        self._requested: dict[tuple[str, str], None] = {}
        """(alert, action) pairs already requested; the newest REMEMBERED are kept."""
        self._causes: dict[tuple[str, str], str] = {}
        """(run, action) -> the open alert that caused the request. No other alert requests it meanwhile."""
        self._counts: dict[tuple[str, str], int] = {}
        self._number = 0

    @contextmanager
    def joined(self, writer: Writer, hello: Hello, notify: Callable[[], None]) -> Iterator[Participant]:
        """Register a process while it is connected. ``notify`` is called when a request is to be sent."""
        participant = Participant(
            writer, frozenset(hello.wants) & frozenset(ACTIONS), hello.world_size, notify
        )
        self._participants.setdefault(writer.run_id, []).append(participant)
        try:
            yield participant
        finally:
            self._leave(participant)

    def _leave(self, participant: Participant) -> None:
        run_id = participant.writer.run_id
        self._participants[run_id].remove(participant)
        if not self._participants[run_id]:
            del self._participants[run_id]
            for action in ACTIONS:
                self._causes.pop((run_id, action), None)
        for pending in [
            pending for pending in self._pending.values() if participant in pending.participants.values()
        ]:
            self._drop(pending, f"rank {participant.writer.rank} disconnected")

    def alert(self, transition: Transition) -> None:
        """Request actions for an alert that fired. Repeated calls for the same alert have no effect."""
        alert = transition.alert
        if alert.state is AlertState.RESOLVED:
            self._resolved(alert)
        severe = alert.severity is Severity.CRITICAL and alert.state is AlertState.FIRING
        if not severe or alert.late or not transition.first:
            return
        for action in ACTIONS:
            key = (alert.id, action)
            wanted = any(
                action in participant.wants for participant in self._participants.get(alert.run_id, ())
            )
            if wanted and key not in self._requested and (alert.run_id, action) not in self._causes:
                self._causes[alert.run_id, action] = alert.id
                self._remember(key)
                self._request(alert, action)

    def _resolved(self, alert: Alert) -> None:
        """Forget the cause of a request, so that the next alert can request the action again."""
        for key in [key for key, cause in self._causes.items() if cause == alert.id]:
            del self._causes[key]

    def _remember(self, key: tuple[str, str]) -> None:
        self._requested[key] = None
        if len(self._requested) > REMEMBERED:
            del self._requested[next(iter(self._requested))]

    def _request(self, alert: Alert, action: str) -> None:
        self._number += 1
        request = Request(id=f"q{self._number}", action=action, reason=alert.rule, alert=alert.id)
        count = self._counts.get((alert.run_id, action), 0)
        pending = PendingRequest(request, alert.run_id, self._ranks(alert.run_id))
        world = max((participant.world_size for participant in pending.participants.values()), default=1)
        missing = [
            str(rank) for rank in range(world) if not self._accepts(pending.participants.get(rank), action)
        ]
        if count >= MOST:
            self._drop(pending, f"asked {MOST} times in this run")
        elif missing:
            self._drop(pending, f"of {world} ranks, these do not take part: {', '.join(missing[:16])}")
        else:
            self._counts[alert.run_id, action] = count + 1
            self._record(pending, "asked")
            if world > 1:
                self._await_answers(pending, ANSWER_S)
            self._send(pending)

    @staticmethod
    def _accepts(participant: Participant | None, action: str) -> bool:
        return participant is not None and action in participant.wants

    def _ranks(self, run_id: str) -> dict[int, Participant]:
        """Return the processes of the newest attempt by rank."""
        participants = self._participants.get(run_id, [])
        newest = max((participant.writer.attempt_no for participant in participants), default=0)
        return {
            participant.writer.rank: participant
            for participant in participants
            if participant.writer.attempt_no == newest
        }

    def _await_answers(self, pending: PendingRequest, limit_s: float) -> None:
        """Wait up to ``limit_s`` for all ranks to answer."""
        if pending.timer is not None:
            pending.timer.cancel()
        pending.answers = {}
        self._pending[pending.request.id] = pending
        pending.timer = asyncio.get_running_loop().call_later(limit_s, self._expire, pending)

    def _send(self, pending: PendingRequest) -> None:
        for participant in pending.participants.values():
            participant.send(pending.request)

    def answered(self, writer: Writer, data: Mapping[str, Any]) -> None:
        """Handle the answer of a process (an ``action`` event that it sent)."""
        pending = self._pending.get(str(data.get("id", "")))
        if pending is None or writer.rank not in pending.participants or pending.run_id != writer.run_id:
            return
        if data.get("outcome") != "received":
            self._drop(pending, f"rank {writer.rank}: {data.get('reason') or data.get('outcome')}")
            return
        step = data.get("step")
        if not isinstance(step, int) or data.get("at_step") != pending.request.at_step:
            return
        pending.answers[writer.rank] = step
        if len(pending.answers) == len(pending.participants):
            self._advance(pending)

    def _advance(self, pending: PendingRequest) -> None:
        """Continue after all ranks reported their steps or acknowledged the step of the action."""
        request = pending.request
        if request.at_step is None:
            lead = max(LEAD_STEPS, math.ceil(LEAD_S * (self._runs.steps_per_s(pending.run_id) or 0.0)))
            pending.request = _changed(request, at_step=max(pending.answers.values()) + lead)
            self._await_answers(pending, LEAD_S / 2)
            self._send(pending)
        elif max(pending.answers.values()) < request.at_step:
            pending.request = _changed(request, confirmed=True)
            self._record(pending, "confirmed")
            self._send(pending)
            self._end(pending)
        else:
            self._drop(pending, "a rank had passed the step")

    def _expire(self, pending: PendingRequest) -> None:
        silent = sorted(set(pending.participants) - set(pending.answers))
        self._drop(pending, f"no answer in time from ranks {', '.join(map(str, silent[:16]))}")

    def _drop(self, pending: PendingRequest, reason: str) -> None:
        self._end(pending)
        self._record(pending, "dropped", reason)

    def _end(self, pending: PendingRequest) -> None:
        if pending.timer is not None:
            pending.timer.cancel()
        self._pending.pop(pending.request.id, None)

    def _record(self, pending: PendingRequest, outcome: str, reason: str = "") -> None:
        request = pending.request
        data = {
            "id": request.id,
            "action": request.action,
            "alert": request.alert,
            "rule": request.reason,
            "outcome": outcome,
            "at_step": request.at_step,
            "reason": reason,
        }
        self._runs.add_event(pending.run_id, KIND, data)


def _changed(request: Request, **changes: Any) -> Request:
    fields = {name: getattr(request, name) for name in request.__struct_fields__}
    return Request(**{**fields, **changes})
