"""One process that evaluates rules, as the server sees it, and the runs whose rules it holds."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from itertools import count
from pathlib import PurePath
from typing import cast

from tocsin_server.core.checkpoints import Checkpoint
from tocsin_server.detect.engine.plan import EVERY, NO_PLAN, Plan
from tocsin_server.detect.engine.state_codec import EngineStateError
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.interface.description import rule_id
from tocsin_server.detect.rules.catalog import settings_types
from tocsin_server.runs.evaluators import Attempt, Evaluated, Item
from tocsin_server.runs.rule_messages import (
    LENGTH,
    Answer,
    Close,
    Message,
    answer_in,
    asking,
    checkpoints_in,
    encoded,
    findings_in,
    informing,
    length_of,
    opening,
    plan_in,
)

log = logging.getLogger("tocsin.rules")

PROGRAM = "tocsin_server.runs.rule_worker"
START_S = 60.0
"""Within this time, a process must be ready; a machine may be busy when the server starts."""
HANG_S = 60.0
"""A process hangs if it has not answered for this long while messages wait for an answer."""
END_S = 5.0
"""After the server closed the connection, a process has this long to end before it is killed."""
Receiver = Callable[[Answer | None], None]
"""Receives the answer to a message, or None if the process ended before it answered."""


class RuleProcessError(Exception):
    """A rule process ended, or did not start."""


class RuleProcess(asyncio.Protocol):
    """A child process and the connection to it. Used on the event loop, except where noted."""

    def __init__(self, ended: Callable[[RuleProcess], None]) -> None:
        self.held: dict[int, str] = {}
        """The runs whose rules it holds, by key."""
        self.busy_s: dict[int, float] = {}
        """Seconds that the rules of each run took, halved at each :meth:`forget`."""
        self.alive = False
        self.hangs = False
        """Whether it is asked where it hangs."""
        self._ended = ended
        self._numbers, self._keys = count(1), count(1)
        self._receivers: dict[int, tuple[Receiver, int]] = {}
        """Where the answer to each message goes, and the key of its run, oldest message first."""
        self._stack = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the connection
        """Where the process writes what it executes, when asked."""
        self._buffer = bytearray()
        self._answered_at = 0.0
        """Time on the monotonic clock of the newest answer, or of the message sent when none waited."""
        self._transport: asyncio.Transport | None = None
        self._closed = asyncio.Event()
        self._child: subprocess.Popen[bytes] | None = None

    async def start(self, command: Sequence[str] = ()) -> None:
        """Start the process and wait until it is ready.

        Args:
            command: What to run instead of this program's module.

        Raises:
            RuleProcessError: It did not become ready.
        """
        self._loop = asyncio.get_running_loop()
        ready: asyncio.Future[Answer | None] = self._loop.create_future()
        self._receivers[0] = lambda answer: None if ready.done() else ready.set_result(answer), 0
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                program = command or (sys.executable, "-P", "-m", PROGRAM)
                self._child = _child(program, theirs.fileno(), self._stack.fileno())
            await self._loop.create_unix_connection(lambda: self, sock=ours)
            answer = await asyncio.wait_for(ready, START_S)
        except BaseException as error:
            self.kill()
            await self.close()
            ours.close()
            if isinstance(error, (OSError, TimeoutError)):
                raise RuleProcessError(str(error) or f"it was not ready within {START_S:g} s") from error
            raise
        if answer is None:
            self.kill()
            await self.close()
            raise RuleProcessError("it ended before it was ready")

    @property
    def pid(self) -> int | None:
        """The id of the process."""
        return None if self._child is None else self._child.pid

    def is_hanging(self) -> bool:
        """Return whether messages wait, and none was answered for :data:`HANG_S`."""
        return bool(self._receivers) and time.monotonic() - self._answered_at > HANG_S

    def ask_where(self) -> None:
        """Make it write what it executes. It does so even within an endless loop, but not while stopped."""
        self.hangs = True
        os.ftruncate(self._stack.fileno(), 0)
        self._stack.seek(0)  # the process shares the position
        if self._child is not None:
            self._child.send_signal(signal.SIGUSR1)

    def hang(self) -> tuple[str, str] | None:
        """Return run and rule in which it hangs, or None if it does not execute anything.

        The rule is :data:`~tocsin_server.detect.engine.plan.EVERY` if it hangs outside of the rules.
        """
        stack = os.pread(self._stack.fileno(), 1 << 16, 0).decode(errors="replace")
        _, key = next(iter(self._receivers.values()))
        return (self.held[key], rule_in(stack)) if stack and key in self.held else None

    # From the loop of the server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that messages can be sent."""
        self._transport, self.alive = cast("asyncio.Transport", transport), True  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        """Pass on the answers that have arrived completely."""
        self._buffer += data
        start, size = 0, len(self._buffer)
        while size - start >= LENGTH:
            end = start + LENGTH + length_of(self._buffer[start : start + LENGTH])
            if end > size:
                break
            answer = answer_in(bytes(self._buffer[start + LENGTH : end]))
            start, self._answered_at = end, time.monotonic()
            receiver, key = self._receivers.pop(answer.no)
            self.busy_s[key] = self.busy_s.get(key, 0.0) + answer.seconds
            self._pass_on(receiver, answer)
        del self._buffer[:start]

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass None to everything that waits for an answer."""
        self.alive = False
        self._stack.close()
        self._closed.set()
        receivers, self._receivers = list(self._receivers.values()), {}
        self._ended(self)
        for receiver, _ in receivers:
            self._pass_on(receiver, None)

    @staticmethod
    def _pass_on(receiver: Receiver, answer: Answer | None) -> None:
        try:
            receiver(answer)
        except Exception:
            log.exception("the answer of a rule process could not be used")

    def new_key(self, run_id: str) -> int:
        """Return a key for another run, which counts like the others until it is measured."""
        key = next(self._keys)
        self.busy_s[key] = self.load / max(len(self.busy_s), 1)
        self.held[key] = run_id
        return key

    @property
    def load(self) -> float:
        """Seconds that all rules took recently, see :attr:`busy_s`."""
        return sum(self.busy_s.copy().values())  # other threads may add a run

    def forget(self) -> None:
        """Let older evaluations count half as much, and those of runs that it no longer holds not at all."""
        before = self.busy_s.copy()
        self.busy_s = {key: busy_s / 2 for key, busy_s in before.items() if key in self.held}

    def send(self, make: Callable[[int], Message], receiver: Receiver) -> None:
        """Send the message that ``make`` returns for its number; ``receiver`` gets the answer later."""
        message = make(next(self._numbers))
        self._write(message, encoded(message), receiver)

    def submit(self, make: Callable[[int], Message]) -> Future[Answer | None]:
        """Send a message from another thread; the future gets its answer."""
        answer: Future[Answer | None] = Future()
        message = make(next(self._numbers))
        self._loop.call_soon_threadsafe(self._write, message, encoded(message), answer.set_result)
        return answer

    def _write(self, message: Message, body: bytes, receiver: Receiver) -> None:
        if self._transport is None or not self.alive:
            self._loop.call_soon(receiver, None)
            return
        if not self._receivers:
            self._answered_at = time.monotonic()
        self._receivers[message.no] = receiver, message.key
        self._transport.write(body)

    # The end

    async def close(self) -> None:
        """Close the connection, upon which the process ends."""
        if self._transport is not None:
            self._transport.abort()
            await self._closed.wait()

    def kill(self) -> None:
        """End the process at once."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def wait(self) -> int | None:
        """Wait until the process has ended, and return its exit status. Not on the event loop."""
        if self._child is None:
            return None
        try:
            return self._child.wait(END_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            return self._child.wait()


class RemoteEvaluator:
    """The rules of one run in a rule process."""

    def __init__(self, process: RuleProcess, run_id: str) -> None:
        self.plan: Plan = NO_PLAN
        self.checkpoints: Sequence[Checkpoint] = ()
        self._process = process
        self._key = process.new_key(run_id)

    @classmethod
    def loaded(
        cls, process: RuleProcess, barred: Collection[str], context: RunContext, state: bytes | None
    ) -> RemoteEvaluator:
        """Return the loaded rules of a run, without those in ``barred``. Called on a thread.

        Raises:
            EngineStateError: ``state`` cannot be read.
            RuleProcessError: The process ended.
        """
        made = cls(process, context.run_id)
        answer = _answered(process.submit(lambda no: opening(no, made._key, context, state, barred)))
        if answer.unreadable:
            process.held.pop(made._key, None)
            raise EngineStateError(answer.unreadable)
        made._learn(answer)
        return made

    def move_here(self, context: RunContext, state: bytes, done: Callable[[bool], None]) -> None:
        """Load the rules, and pass to ``done`` whether that succeeded."""

        def receive(answer: Answer | None) -> None:
            if answer is not None and not answer.unreadable:
                self._learn(answer)
            done(answer is not None and not answer.unreadable)

        self._process.send(lambda no: opening(no, self._key, context, state), receive)

    def evaluate(
        self, item: Item, then: Callable[[Evaluated], None], *, save: bool = False, lost: Callable[[], None]
    ) -> None:
        """See :class:`Evaluator`."""

        def receive(answer: Answer | None) -> None:
            if answer is None:
                lost()
                return
            self._learn(answer)
            findings = findings_in(answer)
            then(Evaluated(findings, answer.state, answer.seconds, answer.crash, answer.failed))

        try:
            self._process.send(lambda no: asking(no, self._key, item, save=save), receive)
        except (TypeError, ValueError, RecursionError):  # data that cannot be encoded must not block the run
            then(Evaluated(crash=traceback.format_exc()))

    def replay(self, items: Sequence[Item]) -> list[str]:
        """See :class:`Evaluator`. Raises RuleProcessError."""
        asked = [
            self._process.submit(lambda no, item=item: asking(no, self._key, item, save=False))  # type: ignore[misc]
            for item in items
        ]
        answers = [_answered(one) for one in asked]
        for answer in answers:
            self._learn(answer)
        return [answer.crash for answer in answers if answer.crash]

    def inform(self, attempt: Attempt, done: Callable[[], None]) -> None:
        """See :class:`Evaluator`. After the end of the process, the store has what the attempt said."""
        self._process.send(lambda no: informing(no, self._key, attempt), lambda _answer: done())

    def close(self) -> None:
        """See :class:`Evaluator`. May be called on a thread."""
        self._process.held.pop(self._key, None)
        self._process.submit(lambda no: Close(no, self._key))

    def _learn(self, answer: Answer) -> None:
        plan, checkpoints = plan_in(answer), checkpoints_in(answer)
        self.plan = self.plan if plan is None else plan
        self.checkpoints = self.checkpoints if checkpoints is None else checkpoints


def rule_in(stack: str) -> str:
    """Return the innermost rule in a stack that :mod:`faulthandler` wrote; ``EVERY`` if there is none."""
    files = [PurePath(line.split('"')[1]) for line in stack.splitlines() if line.startswith('  File "')]
    return next((rule for file in files if (rule := rule_id(file.stem)) in settings_types()), EVERY)


def _child(command: Sequence[str], *descriptors: int) -> subprocess.Popen[bytes]:
    """Start a process that inherits these files of the server and no others."""
    return subprocess.Popen(  # noqa: S603 - this interpreter and a module of this program
        [*command, *map(str, descriptors)],
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


def _answered(asked: Future[Answer | None]) -> Answer:
    answer = asked.result()
    if answer is None:
        raise RuleProcessError("the rule process ended")
    return answer
