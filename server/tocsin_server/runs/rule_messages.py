"""The messages between the server and a rule process. Pure.

Both are the same version of the same program, so there is no protocol version. Arrays are sent as their
bytes, so that every NaN arrives as it was. Findings are pickled: whatever a rule puts into them arrives with
its type.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import numpy as np

from tocsin_server.core.checkpoints import Checkpoint
from tocsin_server.core.models import Column, Finding, RecordBatch, RunEvent, Writer
from tocsin_server.detect.engine.plan import Plan
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.runs.evaluators import Attempt

LENGTH = 4
"""Bytes of the length before each message."""

Place = tuple[int, int, int]
"""Number of a writer within its run, its attempt and its rank."""


class Open(msgspec.Struct, tag=True, array_like=True):
    """Load the rules of a run, from a saved state if there is one."""

    no: int
    key: int
    run_id: str
    project: str
    world_size: int
    planned_steps: int | None
    environment: dict[str, Any]
    state: bytes | None
    barred: list[str]


class Records(msgspec.Struct, tag=True, array_like=True):
    """Evaluate a batch of records."""

    no: int
    key: int
    save: bool
    writer: Place
    arrival: int
    seq: int
    n: int
    step: bytes
    time_ns: bytes
    columns: list[tuple[str, bytes, bytes | None]]


class Occurred(msgspec.Struct, tag=True, array_like=True):
    """Evaluate an event."""

    no: int
    key: int
    save: bool
    writer: Place
    arrival: int
    number: int
    kind: str
    time_ns: int
    step: int | None
    data: dict[str, Any]


class Inform(msgspec.Struct, tag=True, array_like=True):
    """Continue with what the handshake of a new attempt says."""

    no: int
    key: int
    world_size: int
    planned_steps: int | None
    environment: dict[str, Any]


class Close(msgspec.Struct, tag=True, array_like=True):
    """Drop the rules of a run."""

    no: int
    key: int


Message = Open | Records | Occurred | Inform | Close


class Answer(msgspec.Struct, array_like=True):
    """The answer to message ``no``. A process first sends one with number 0, once it is ready."""

    no: int
    seconds: float = 0.0
    findings: bytes = b""
    state: bytes | None = None
    crash: str = ""
    """The traceback if a rule raised."""
    failed: list[str] = []
    """The rules that raised."""
    unreadable: str = ""
    """Why the saved state cannot be read."""
    plan: dict[str, Any] | None = None
    checkpoints: list[dict[str, Any]] | None = None
    """The rules in effect and the newest checkpoints; None if they are as in the answer before."""


# Made on import: msgspec crashes if two threads decode a type for the first time at once.
_encoder = msgspec.msgpack.Encoder()
_messages = msgspec.msgpack.Decoder(Message)
_answers = msgspec.msgpack.Decoder(Answer)


def encoded(message: Message | Answer) -> bytes:
    """Return a message with its length in front."""
    body = _encoder.encode(message)
    return len(body).to_bytes(LENGTH, "little") + body


def length_of(head: bytes | bytearray) -> int:
    """Return the length of the message that follows the first bytes."""
    return int.from_bytes(head[:LENGTH], "little")


def message_in(body: bytes) -> Message:
    """Decode a message to a rule process, without its length."""
    message: Message = _messages.decode(body)
    return message


def answer_in(body: bytes) -> Answer:
    """Decode an answer, without its length."""
    return _answers.decode(body)


def opening(
    no: int, key: int, context: RunContext, state: bytes | None, barred: Collection[str] = ()
) -> Open:
    """Return the message that loads a run; what its events added to the context is part of the state."""
    environment = {
        "versions": dict.fromkeys(sorted(context.libraries), ""),
        "scalers": [dict(one) for one in context.scalers],
        "optimizers": [dict(one) for one in context.optimizers],
        "schedulers": [dict(one) for one in context.schedulers],
    }
    return Open(
        no,
        key,
        context.run_id,
        context.project,
        context.world_size,
        context.planned_steps,
        environment,
        state,
        list(barred),
    )


def context_of(message: Open) -> RunContext:
    """Return the context of a run that is loaded."""
    return RunContext.from_environment(
        message.run_id, message.project, message.world_size, message.planned_steps, message.environment
    )


def asking(no: int, key: int, item: RecordBatch | RunEvent, *, save: bool) -> Records | Occurred:
    """Return the message that evaluates a batch or an event."""
    place = (item.writer.writer_no, item.writer.attempt_no, item.writer.rank)
    if isinstance(item, RunEvent):
        data = dict(item.data)
        return Occurred(no, key, save, place, item.arrival, item.no, item.kind, item.time_ns, item.step, data)
    columns = [
        (name, column.v.tobytes(), None if column.at is None else column.at.tobytes())
        for name, column in item.columns.items()
    ]
    step, time_ns = item.step.tobytes(), item.time_ns.tobytes()
    return Records(no, key, save, place, item.arrival, item.seq, item.n, step, time_ns, columns)


def item_in(message: Records | Occurred, run_id: str) -> RecordBatch | RunEvent:
    """Return the batch or event to evaluate."""
    writer = Writer(run_id, *message.writer)
    if isinstance(message, Occurred):
        return RunEvent(
            writer,
            message.arrival,
            message.number,
            message.kind,
            message.time_ns,
            message.step,
            message.data,
        )
    columns = {
        name: Column(np.frombuffer(v, np.float64), None if at is None else np.frombuffer(at, np.uint32))
        for name, v, at in message.columns
    }
    step = np.frombuffer(message.step, np.int64)
    time_ns = np.frombuffer(message.time_ns, np.int64)
    return RecordBatch(writer, message.arrival, message.seq, message.n, step, time_ns, columns)


def informing(no: int, key: int, attempt: Attempt) -> Inform:
    """Return the message about a new attempt."""
    return Inform(no, key, attempt.world_size, attempt.planned_steps, dict(attempt.environment))


def attempt_in(message: Inform) -> Attempt:
    """Return the new attempt."""
    return Attempt(message.world_size, message.planned_steps, message.environment)


def packed_findings(findings: Sequence[Finding]) -> bytes:
    """Encode findings; nothing for none."""
    return pickle.dumps(list(findings), protocol=5) if findings else b""


def findings_in(answer: Answer) -> Sequence[Finding]:
    """Return the findings of an answer."""
    if not answer.findings:
        return ()
    found: list[Finding] = pickle.loads(answer.findings)  # noqa: S301 - made by a process of this server
    return found


def plan_in(answer: Answer) -> Plan | None:
    """Return the rules in effect, or None if they are as before."""
    return None if answer.plan is None else Plan.from_plain(answer.plan)


def checkpoints_in(answer: Answer) -> tuple[Checkpoint, ...] | None:
    """Return the newest checkpoints, or None if they are as before."""
    if answer.checkpoints is None:
        return None
    return tuple(Checkpoint.from_plain(one) for one in answer.checkpoints)
