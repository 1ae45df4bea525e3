"""Validate one message after the handshake: decode it and check all of it in one call."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.protocol import Alive, Event, Finish, Hello, ProtocolError, Records, Refused
from tocsin_server.core.memory_size import size_of
from tocsin_server.runs.rate_limit import weight_of_event
from tocsin_server.runs.validation.events import event_problem, finish_problem
from tocsin_server.runs.validation.frames import TooLarge, read_message
from tocsin_server.runs.validation.limits import Limits
from tocsin_server.runs.validation.records import Position, ValidatedRecords, read_records


@dataclass(frozen=True, slots=True)
class Validated:
    """A message after validation. ``refusal``: why an event or a finish cannot be stored."""

    message: ValidatedRecords | Event | Finish | Alive | TooLarge
    refusal: Refused | None = None
    weight: int = 0
    """Number of records that the message counts for against the rate limit of its writer."""
    size: int = 0
    """Bytes of memory that the data of an event take."""
    gap: int = 0
    """Records before those of this message that the client dropped."""


def validate(frame: bytes, position: Position, limits: Limits) -> Validated:
    """Decode and fully check one message of a training process.

    An event or finish that was already accepted is returned unchecked, because only its number matters.

    Raises:
        ProtocolError: The frame contains no message that is allowed after the handshake.
    """
    message = read_message(frame, limits)
    if isinstance(message, Records):
        valid = read_records(message, position, limits)
        return Validated(valid, weight=len(message.step) // 8, gap=max(message.seq - position.seq - 1, 0))
    if isinstance(message, Event):
        size = size_of(message.data)
        refusal = event_problem(message, limits) if message.no > position.event else None
        return Validated(message, refusal, weight_of_event(size), size)
    if isinstance(message, Finish):
        return Validated(message, finish_problem(message) if message.no > position.event else None)
    if isinstance(message, Hello):
        raise ProtocolError("malformed-frame", "frame", "records, event, alive or finish", "a second hello")
    return Validated(message)
