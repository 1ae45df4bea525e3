"""What is asked of trainings that opted in: a checkpoint or a stop, when a critical alert fires.

Each action once an episode (alerts that come while the first is open are of the same trouble) and MOST
times a run, audited as ``action`` events of the run. One process is
told to act. Of several ranks all must be there and have opted in: they are asked where they are, then told
of a step ahead of every one of them, and it is confirmed only when each has answered in time. Whatever is
missing, the request is dropped: an action on one rank alone would leave it waiting for the others.

Runs on the event loop; the pipeline's ``tell`` makes the events.
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
"""How long the ranks have to say where they are."""
LEAD_S, LEAD_STEPS = 6.0, 20
"""How far ahead the step is, at least; half of that time is for their answers, half for the confirmation."""
QUEUED = 64
REMEMBERED = 4096


class Teller(Protocol):
    """The pipeline: puts an event into a run, and knows how many steps a second it makes."""

    def pace(self, run_id: str) -> float | None: ...

    def tell(self, run_id: str, kind: str, data: Mapping[str, Any]) -> None: ...


@dataclass(eq=False)
class Seat:
    """One connected process that opted in."""

    writer: Writer
    wants: frozenset[str]
    world_size: int
    ring: Callable[[], None]
    messages: deque[Request] = field(default_factory=lambda: deque(maxlen=QUEUED))

    def say(self, request: Request) -> None:
        self.messages.append(request)
        self.ring()

    def take(self) -> list[Request]:
        """What is to be sent, oldest first."""
        found = list(self.messages)
        self.messages.clear()
        return found


@dataclass(eq=False)
class Ask:
    """One request to all ranks of a run, on its way."""

    request: Request
    run_id: str
    seats: dict[int, Seat]
    heard: dict[int, int] = field(default_factory=dict)
    """Rank -> its step, of those that answered the present question."""
    timer: asyncio.TimerHandle | None = None


class Desk:
    """Who takes part in which run, and what was asked of them."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._seats: dict[str, list[Seat]] = {}
        self._asks: dict[str, Ask] = {}
        self._asked: dict[tuple[str, str], None] = {}
        """(alert, action) asked for, the newest REMEMBERED."""
        self._trouble: dict[tuple[str, str], str] = {}
        """(run, action) -> the alert it was asked for, while that is open: others are of the same trouble."""
        self._counts: dict[tuple[str, str], int] = {}
        self._number = 0

    @contextmanager
    def seated(self, writer: Writer, hello: Hello, ring: Callable[[], None]) -> Iterator[Seat]:
        """A process takes part while it is connected. ``ring`` is called when something is to be sent."""
        seat = Seat(writer, frozenset(hello.wants) & frozenset(ACTIONS), hello.world_size, ring)
        self._seats.setdefault(writer.run_id, []).append(seat)
        try:
            yield seat
        finally:
            self._leave(seat)

    def _leave(self, seat: Seat) -> None:
        run_id = seat.writer.run_id
        self._seats[run_id].remove(seat)
        if not self._seats[run_id]:
            del self._seats[run_id]
            for action in ACTIONS:
                self._trouble.pop((run_id, action), None)
        for ask in [ask for ask in self._asks.values() if seat in ask.seats.values()]:
            self._drop(ask, f"rank {seat.writer.rank} is gone")

    def alert(self, transition: Transition) -> None:
        """An alert changed; every connection of the run may say so, once is enough."""
        alert = transition.alert
        if alert.state is AlertState.RESOLVED:
            self._over(alert)
        grave = alert.severity is Severity.CRITICAL and alert.state is AlertState.FIRING
        if not grave or alert.late or not transition.first:
            return
        for action in ACTIONS:
            key = (alert.id, action)
            wanted = any(action in seat.wants for seat in self._seats.get(alert.run_id, ()))
            if wanted and key not in self._asked and (alert.run_id, action) not in self._trouble:
                self._trouble[alert.run_id, action] = alert.id
                self._remember(key)
                self._ask(alert, action)

    def _over(self, alert: Alert) -> None:
        """The alert that was asked for is over: the next one is another trouble."""
        for key in [key for key, cause in self._trouble.items() if cause == alert.id]:
            del self._trouble[key]

    def _remember(self, key: tuple[str, str]) -> None:
        self._asked[key] = None
        if len(self._asked) > REMEMBERED:
            del self._asked[next(iter(self._asked))]

    def _ask(self, alert: Alert, action: str) -> None:
        self._number += 1
        request = Request(id=f"q{self._number}", action=action, reason=alert.rule, alert=alert.id)
        count = self._counts.get((alert.run_id, action), 0)
        ask = Ask(request, alert.run_id, self._ranks(alert.run_id))
        world = max((seat.world_size for seat in ask.seats.values()), default=1)
        missing = [str(rank) for rank in range(world) if not self._may(ask.seats.get(rank), action)]
        if count >= MOST:
            self._drop(ask, f"asked {MOST} times in this run")
        elif missing:
            self._drop(ask, f"of {world} ranks these take no part: {', '.join(missing[:16])}")
        else:
            self._counts[alert.run_id, action] = count + 1
            self._tell(ask, "asked")
            if world > 1:
                self._begin(ask, ANSWER_S)
            self._say(ask)

    @staticmethod
    def _may(seat: Seat | None, action: str) -> bool:
        return seat is not None and action in seat.wants

    def _ranks(self, run_id: str) -> dict[int, Seat]:
        """The newest attempt's processes by rank."""
        seats = self._seats.get(run_id, [])
        newest = max((seat.writer.attempt_no for seat in seats), default=0)
        return {seat.writer.rank: seat for seat in seats if seat.writer.attempt_no == newest}

    def _begin(self, ask: Ask, limit_s: float) -> None:
        """A question goes out to all ranks; they have ``limit_s`` to answer."""
        if ask.timer is not None:
            ask.timer.cancel()
        ask.heard = {}
        self._asks[ask.request.id] = ask
        ask.timer = asyncio.get_running_loop().call_later(limit_s, self._expire, ask)

    def _say(self, ask: Ask) -> None:
        for seat in ask.seats.values():
            seat.say(ask.request)

    def heard(self, writer: Writer, data: Mapping[str, Any]) -> None:
        """What a process made of a request (an ``action`` event of its own)."""
        ask = self._asks.get(str(data.get("id", "")))
        if ask is None or writer.rank not in ask.seats or ask.run_id != writer.run_id:
            return
        if data.get("outcome") != "heard":
            self._drop(ask, f"rank {writer.rank}: {data.get('reason') or data.get('outcome')}")
            return
        step = data.get("step")
        if not isinstance(step, int) or data.get("at_step") != ask.request.at_step:
            return
        ask.heard[writer.rank] = step
        if len(ask.heard) == len(ask.seats):
            self._go_on(ask)

    def _go_on(self, ask: Ask) -> None:
        """All have answered: where they are, or that they heard of the step."""
        request = ask.request
        if request.at_step is None:
            lead = max(LEAD_STEPS, math.ceil(LEAD_S * (self._teller.pace(ask.run_id) or 0.0)))
            ask.request = _changed(request, at_step=max(ask.heard.values()) + lead)
            self._begin(ask, LEAD_S / 2)
            self._say(ask)
        elif max(ask.heard.values()) < request.at_step:
            ask.request = _changed(request, confirmed=True)
            self._tell(ask, "confirmed")
            self._say(ask)
            self._end(ask)
        else:
            self._drop(ask, "a rank had passed the step")

    def _expire(self, ask: Ask) -> None:
        silent = sorted(set(ask.seats) - set(ask.heard))
        self._drop(ask, f"no answer in time from ranks {', '.join(map(str, silent[:16]))}")

    def _drop(self, ask: Ask, reason: str) -> None:
        self._end(ask)
        self._tell(ask, "dropped", reason)

    def _end(self, ask: Ask) -> None:
        if ask.timer is not None:
            ask.timer.cancel()
        self._asks.pop(ask.request.id, None)

    def _tell(self, ask: Ask, outcome: str, reason: str = "") -> None:
        request = ask.request
        data = {
            "id": request.id,
            "action": request.action,
            "alert": request.alert,
            "rule": request.reason,
            "outcome": outcome,
            "at_step": request.at_step,
            "reason": reason,
        }
        self._teller.tell(ask.run_id, KIND, data)


def _changed(request: Request, **changes: Any) -> Request:
    fields = {name: getattr(request, name) for name in request.__struct_fields__}
    return Request(**{**fields, **changes})
