"""Carry out what the server requests of a training that opted in: a checkpoint or a stop.

A single process acts immediately. With several ranks, none may act alone, because the others would wait
indefinitely in a collective. The server therefore first asks all ranks for their step, then names a step
ahead of all of them, and confirms it once all have acknowledged it in time. A rank without a confirmation
before that step drops the request. Everything runs on the training thread, at the end of the previous
record's optimizer step; each outcome is sent as an ``action`` event.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from ..protocol import Request

LOG = logging.getLogger("tocsin")
KINDS = ("checkpoint", "stop")
MOST = 3
"""Maximum number of times that each action is carried out in one run."""
REMEMBERED = 256
EVENT = "action"

Handler = Callable[[Request], Any]


class ServerRequests:
    """The server's requests to one run. ``ledger`` is None or quiet if the script reports its steps."""

    def __init__(self, reporter: Any, ledger: Any, wanted: Collection[str], world: Callable[[], int]) -> None:
        self._reporter = reporter
        self.ledger = ledger
        self._world = world
        self._done: deque[tuple[str, str]] = deque(maxlen=REMEMBERED)
        """(alert, action) of the requests that were carried out."""
        self._counts = dict.fromkeys(KINDS, 0)
        self._armed: dict[int, list[Request]] = {}
        """Confirmed requests by step, for a run without a ledger."""
        self._handlers: dict[str, list[Handler]] = {kind: [] for kind in KINDS}
        self._due: tuple[str, int] = ("", -1)
        self._step = -1
        self.wanted = tuple(kind for kind in KINDS if kind in wanted)
        for unknown in sorted(set(wanted) - set(KINDS)):
            self._warn_unknown(unknown)

    # -- called by the script

    def register(self, kind: str, handler: Handler) -> Handler:
        """Call ``handler`` for each request of this kind."""
        if kind in KINDS:
            self._handlers[kind].append(handler)
        else:
            self._warn_unknown(kind)
        return handler

    def _warn_unknown(self, kind: str) -> None:
        LOG.warning("tocsin: unknown action %r is ignored. Use one of: %s.", kind, ", ".join(KINDS))

    @property
    def requested(self) -> str:
        """The action that is due after the current step, or empty. A stop stays due."""
        kind, step = self._due
        return kind if kind == "stop" or step == self.step else ""

    @property
    def step(self) -> int:
        """The newest step."""
        ledger = self.ledger
        return self._step if ledger is None or ledger.quiet else int(ledger.step)

    def stepped(self, step: int) -> None:
        """Note a step that the script has reported itself."""
        self._step = step
        for at in sorted(at for at in self._armed if at <= step):
            for request in self._armed.pop(at):
                self._act(request, late=at < step)

    # -- called with messages of the server

    def take(self, request: Request) -> None:
        """Process a request on the training thread."""
        refusal = self._refusal(request)
        if refusal:
            self._report_outcome(request, "dropped", reason=refusal)
        elif self._world() == 1:
            self._act(request)
        elif request.at_step is None:
            self._report_outcome(request, "received")
        elif request.at_step <= self.step:
            self._report_outcome(request, "dropped", reason=f"received after step {self.step}")
        elif not request.confirmed:
            self._report_outcome(request, "received")
        else:
            self._arm(request, request.at_step)

    def _refusal(self, request: Request) -> str:
        if request.action not in self.wanted:
            return "the script did not opt in"
        if (request.alert, request.action) in self._done:
            return "already carried out for this alert"
        return f"already carried out {MOST} times in this run" if self._counts[request.action] >= MOST else ""

    def _arm(self, request: Request, at: int) -> None:
        ledger = self.ledger
        if ledger is None or ledger.quiet or ledger.primary is None:
            self._armed.setdefault(at, []).append(request)
        else:
            ahead = at - ledger.step
            ledger.step_scheduler.schedule(ledger.primary.number + ahead, lambda: self._act(request))

    def _act(self, request: Request, *, late: bool = False) -> None:
        """Carry out a request: call the handlers, and set ``run.requested``."""
        refusal = "the agreed step was never reported" if late else self._refusal(request)
        if refusal:
            self._report_outcome(request, "dropped", reason=refusal)
            return
        self._done.append((request.alert, request.action))
        self._counts[request.action] += 1
        if self._due[0] != "stop":
            self._due = (request.action, self.step)
        handlers = self._handlers[request.action]
        for handler in tuple(handlers):
            try:
                handler(request)
            except Exception as error:
                text = 'tocsin: the function for the request "%s" failed. Training continues.'
                LOG.warning(text, request.action, exc_info=True)
                reason = self._reporter.redact.text(f"{type(error).__name__}: {error}"[:300])
                self._report_outcome(request, "failed", reason=reason)
                return
        self._report_outcome(request, "done" if handlers else "requested")

    def _report_outcome(self, request: Request, outcome: str, **more: Any) -> None:
        data = {
            "id": request.id,
            "action": request.action,
            "alert": request.alert,
            "rule": request.reason,
            "outcome": outcome,
            "at_step": request.at_step,
            "step": self.step,
        }
        self._reporter.put_event(EVENT, {**data, **more}, max(self.step, 0))
