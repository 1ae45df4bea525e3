"""Decode frames of clients. A large one is checked against the limits before its contents are decoded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from tocsin.protocol import (
    ClientMessage,
    Finish,
    Int64,
    ProtocolError,
    Refused,
    decode_client,
)
from tocsin_server.runs.validation.limits import SMALL_FRAME, WIRE_FACTOR, Limits
from tocsin_server.runs.validation.names import shown

MOST_COLUMNS = 4
"""Maximum number of columns of a message, as a multiple of the series that a run may have."""
UNREADABLE = (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError)
T = TypeVar("T")


class Outline(msgspec.Struct):
    """The header of a message whose contents are not decoded."""

    type: str = ""
    seq: Int64 = -1
    n: Int64 = 0
    no: Int64 = -1
    kind: str = ""
    step: msgspec.Raw = msgspec.Raw(b"")
    t: msgspec.Raw = msgspec.Raw(b"")
    cols: msgspec.Raw = msgspec.Raw(b"")

    @property
    def columns(self) -> int:
        """Number of series in a ``records`` message: the length in the header of the map."""
        head = bytes(self.cols)[:5]
        if not head or head[0] not in (0xDE, 0xDF):
            return head[0] & 0x0F if head and 0x80 <= head[0] <= 0x8F else 0
        return int.from_bytes(head[1 : 3 if head[0] == 0xDE else 5], "big")


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A message that was rejected because of its size, and the numbers that it counts as handled."""

    outline: Outline
    refusal: Refused


class SealedFinish(Finish, tag="finish", tag_field="type", omit_defaults=True):
    """A finish message whose error is not decoded yet."""

    error: msgspec.Raw = msgspec.Raw(b"")  # type: ignore[assignment]


_outlines = msgspec.msgpack.Decoder(Outline)
_finishes = msgspec.msgpack.Decoder(SealedFinish)


def read_with(decoder: msgspec.msgpack.Decoder[T], frame: bytes) -> T:
    """Decode ``frame``. Raises ProtocolError if that fails."""
    try:
        return decoder.decode(frame)
    except UNREADABLE as error:
        raise malformed(error) from error


def malformed(error: Exception) -> ProtocolError:
    """Return the error for a frame that cannot be decoded."""
    return ProtocolError("malformed-frame", "frame", "a msgpack message of protocol version 1", str(error))


def read_outline(frame: bytes) -> Outline:
    """Return the header of the message in ``frame``. Raises ProtocolError if it contains none."""
    return read_with(_outlines, frame)


def read_message(frame: bytes, limits: Limits) -> ClientMessage | TooLarge:
    """Return the message in ``frame``. Raises ProtocolError if it contains none.

    A decoded message can take seventy times its length in memory. Large messages are therefore checked
    against the limits before their contents are decoded.
    """
    if len(frame) <= min(SMALL_FRAME, limits.frame_bytes):
        return decode_client(frame)
    outline, size = read_outline(frame), len(frame)
    event_bytes = WIRE_FACTOR * limits.event_bytes + SMALL_FRAME
    refusal: Refused | None = None
    if outline.type == "records" and size > limits.frame_bytes:
        refusal = frame_refusal(size, limits, outline.seq)
    elif outline.type == "records":
        refusal = _columns_refusal(size, outline, limits)
    elif outline.type == "event" and size > event_bytes:
        expected, got = (
            f"data of at most {limits.event_bytes} bytes",
            f"{size} bytes in event {shown(outline.kind)}",
        )
        refusal = Refused("event", "event-size", expected, got, outline.no)
    elif outline.type == "finish" and size > event_bytes:
        return _finish_without_error(read_with(_finishes, frame))
    elif outline.type == "alive" and size > SMALL_FRAME:
        refusal = Refused(
            "connection", "frame-size", f"a heartbeat of at most {SMALL_FRAME} bytes", f"{size} bytes"
        )
    elif outline.type not in ("event", "finish", "alive"):
        got = "a second hello" if outline.type == "hello" else f"type {shown(outline.type)}"
        raise ProtocolError("malformed-frame", "frame", "records, event, alive or finish", got)
    return decode_client(frame) if refusal is None else TooLarge(outline, refusal)


def _columns_refusal(size: int, outline: Outline, limits: Limits) -> Refused | None:
    """Reject a ``records`` message with far too many series, or with too much other data."""
    most = MOST_COLUMNS * limits.series
    rest = size - sum(len(bytes(part)) for part in (outline.cols, outline.step, outline.t))
    if outline.columns <= most and rest <= SMALL_FRAME:
        return None
    got = f"{outline.columns} columns and {rest} bytes of other data"
    return Refused("records", "bad-batch", f"at most {most} columns", got, outline.seq)


def frame_refusal(size: int, limits: Limits, seq: int | None = None) -> Refused:
    """Return the rejection of a frame above the limit; ``seq``: its first record, if that could be read."""
    expected = f"a message of at most {limits.frame_bytes} bytes"
    return Refused("records", "frame-size", expected, f"{size} bytes", seq)


def _finish_without_error(sealed: SealedFinish) -> Finish:
    """Return the finish without an error that is too large: the end of the run must still be recorded."""
    size = len(bytes(sealed.error))
    error = {"type": "", "message": f"The error was left out because it has {size} bytes.", "lines": []}
    return Finish(sealed.no, sealed.t, sealed.state, sealed.records, error if size else {})
