"""The main program of a rule process: evaluate the rules of the runs that the server passes to it.

It holds no data that the store does not have, writes nothing, and ends when the server's end of the socket is
closed, however the server ended.
"""

from __future__ import annotations

import faulthandler
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any

from tocsin_server.core.collector import calm_collector
from tocsin_server.core.models import RunEvent
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.engine.plan import Plan
from tocsin_server.detect.engine.state_codec import EngineStateError
from tocsin_server.detect.rules.catalog import rule_modules
from tocsin_server.runs.evaluators import engine_of, evaluated, informed
from tocsin_server.runs.rule_messages import (
    LENGTH,
    Answer,
    Close,
    Inform,
    Message,
    Open,
    attempt_in,
    context_of,
    encoded,
    item_in,
    length_of,
    message_in,
    packed_findings,
)


class Run:
    """The rules of one run, and what the server knows about them."""

    def __init__(self, run_id: str, engine: Engine) -> None:
        self.id = run_id
        self.engine = engine
        self._plan: Plan | None = None
        self._checkpoints: Any = None

    def changes(self) -> dict[str, Any]:
        """Return the plan and the checkpoints, unless the server has them already."""
        found: dict[str, Any] = {}
        if self.engine.plan is not self._plan:
            self._plan = self.engine.plan
            found["plan"] = self._plan.plain()
        if self.engine.context.checkpoints is not self._checkpoints:
            self._checkpoints = self.engine.context.checkpoints
            found["checkpoints"] = [one.plain() for one in self._checkpoints]
        return found


class Runs:
    """The runs of this process by the key that the server gave them."""

    def __init__(self) -> None:
        self._runs: dict[int, Run] = {}

    def answer(self, message: Message) -> Answer:
        """Do what a message asks for."""
        if isinstance(message, Open):
            return self._open(message)
        if isinstance(message, Close):
            self._runs.pop(message.key, None)
            return Answer(message.no)
        run = self._runs[message.key]
        if isinstance(message, Inform):
            run.engine = informed(run.engine, attempt_in(message))
            return Answer(message.no, **run.changes())
        item = item_in(message, run.id)
        result = evaluated(run.engine, item, save=message.save)
        changes = run.changes() if isinstance(item, RunEvent) else {}
        findings = packed_findings(result.findings)
        failed = list(result.failed)
        return Answer(message.no, result.seconds, findings, result.state, result.crash, failed, **changes)

    def engine(self, key: int) -> Engine:
        """Return the rules of a run."""
        return self._runs[key].engine

    def _open(self, message: Open) -> Answer:
        try:
            run = Run(message.run_id, engine_of(context_of(message), message.state, message.barred))
        except EngineStateError as error:
            return Answer(message.no, unreadable=str(error))
        self._runs[message.key] = run
        return Answer(message.no, **run.changes())


def messages(incoming: IO[bytes]) -> Iterator[Message]:
    """Yield messages until the server closes the connection."""
    while len(head := incoming.read(LENGTH)) == LENGTH:
        body = incoming.read(length_of(head))
        if len(body) < length_of(head):
            return
        yield message_in(body)


def main(descriptor: int, stack: int) -> None:
    """Serve the connection of a file descriptor until the server closes it.

    Args:
        descriptor: The process's end of a socket pair.
        stack: Where to write what is executed, on SIGUSR1.
    """
    faulthandler.register(signal.SIGUSR1, stack, all_threads=False)
    # A terminal's Ctrl-C and systemd reach all processes of the server. Its runs end with the connection.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    rule_modules()
    calm_collector()
    runs = Runs()
    with socket.socket(fileno=descriptor) as connection, suppress(ConnectionError):
        connection.sendall(encoded(Answer(0)))
        with connection.makefile("rb") as incoming:
            for message in messages(incoming):
                connection.sendall(encoded(runs.answer(message)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
