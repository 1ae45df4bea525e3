"""Protocol version 1 between a training process and the server: messages, encode, decode.

This is the one module that both sides import. It knows no socket and no clock.
Messages are binary msgpack maps with a ``type`` key (docs/internals/protocol.md). Columns are
raw little-endian float64, so NaN, +Inf, -Inf and -0.0 are ordinary values, and a
missing value is an absent index, never NaN.

Errors raised: :class:`ProtocolError`, whose text says what was expected and what came.
"""

from __future__ import annotations

import sys
from array import array
from typing import Annotated, Any, Union

import msgspec

VERSION = 1
"""The newest protocol version this module speaks."""
OLDEST_VERSION = 1
"""The oldest one it still speaks."""

PATH = "/api/v1/ingest"
"""Path of the trainers' websocket on the server."""

NONE_YET = -1
"""``ack.seq`` and ``welcome.seq`` before anything is durable; the first record is number 0."""


Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Every whole number on the wire; msgpack alone would let unsigned ones through that no database takes."""


MOST_STEP = 1 << 53
"""Steps go from 0 to this number: browsers and float64 axes hold no larger one exactly."""


class ProtocolError(ValueError):
    """A message that breaks the protocol: the subject, what was expected, what came."""

    def __init__(self, code: str, subject: str, expected: str, got: str) -> None:
        super().__init__(f"{subject}: expected {expected}, got {got}")
        self.code = code
        self.subject = subject
        self.expected = expected
        self.got = got


class WriterId(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """One process of an attempt: (attempt key, rank, boot id, pid, process start)."""

    attempt: str
    rank: Int64
    boot: str
    pid: Int64
    started_ns: Int64


class Hello(msgspec.Struct, tag="hello", tag_field="type", omit_defaults=True):
    """First message of a trainer on a connection.

    ``time_ns`` is the trainer's wall clock when it was sent; every record's ``t`` is
    that wall clock at attach plus the monotonic clock since, in nanoseconds.
    ``run`` may be empty where the server must join ranks by ``rendezvous``.
    """

    version: Int64
    token: str
    project: str
    name: str
    run: str
    writer: WriterId
    world_size: Int64
    host: str
    time_ns: Int64
    oldest_version: Int64 = OLDEST_VERSION
    launch: str = ""
    restarts: Int64 = 0
    rendezvous: str = ""
    versions: dict[str, str] = {}
    optimizers: list[dict[str, Any]] = []
    scalers: list[dict[str, Any]] = []
    schedulers: list[dict[str, Any]] = []
    planned_steps: Int64 | None = None
    config: Any = None
    tags: list[str] = []
    notes: str = ""
    wants: list[str] = []
    """What the trainer opted in to: ``"alerts"``, ``"checkpoint"``, ``"stop"``."""


class Sparse(msgspec.Struct, frozen=True):
    """Values of a column that not every record has: ``at`` u32le[k] rows, ``v`` f64le[k]."""

    at: bytes
    v: bytes


Column = Union[bytes, Sparse]


class Records(msgspec.Struct, tag="records", tag_field="type"):
    """``n`` records of one writer, numbered ``seq`` .. ``seq + n - 1``.

    ``step`` i64le[n]; ``t`` i64le[n], ns; ``cols`` name -> f64le[n] or :class:`Sparse`.
    """

    seq: Int64
    n: Int64
    step: bytes
    t: bytes
    cols: dict[str, Column]


class Event(msgspec.Struct, tag="event", tag_field="type", omit_defaults=True):
    """What is not a number per step. ``no`` numbers events and the finish of one writer, from 0."""

    no: Int64
    kind: str
    t: Int64
    step: Int64 | None = None
    data: dict[str, Any] = {}


class Alive(msgspec.Struct, tag="alive", tag_field="type", omit_defaults=True):
    """Sent every 5 s: the process lives, even if no step advances."""

    t: Int64
    step: Int64 | None = None
    queued: Int64 = 0
    dropped: Int64 = 0
    spooled_bytes: Int64 = 0
    phase: str = ""


class Finish(msgspec.Struct, tag="finish", tag_field="type", omit_defaults=True):
    """The end of this writer: ``finished`` or ``failed`` with the error. Numbered like an event."""

    no: Int64
    t: Int64
    state: str = "finished"
    records: Int64 = 0
    error: dict[str, Any] = {}
    """``{"type", "message", "lines"}`` where the state is ``failed``."""


ClientMessage = Union[Hello, Records, Event, Alive, Finish]


class Welcome(msgspec.Struct, tag="welcome", tag_field="type", omit_defaults=True):
    """Answer to hello: the agreed version, the run's id, and what is durable of this writer."""

    version: Int64
    run: str
    attempt: Int64
    seq: Int64
    events: Int64
    flush_ms: Int64 = 200
    limits: dict[str, Int64] = {}
    """``frame_bytes``, ``series``, ``name_bytes``, ``records_per_s``, ``event_bytes``."""


class Ack(msgspec.Struct, tag="ack", tag_field="type"):
    """Everything up to record ``seq`` and event ``events`` is durable (or refused and counted)."""

    seq: Int64
    events: Int64
    flush_ms: Int64


class Refused(msgspec.Struct, tag="refused", tag_field="type", omit_defaults=True):
    """Data or a connection that was not taken: what was expected and what came.

    ``scope``: connection, records, series, event; or notice, where everything was taken all the
    same and the sentence only says what looked wrong. With ``retry`` false the trainer does
    not send it again; with ``retry`` true it reconnects later.
    """

    scope: str
    code: str
    expected: str
    got: str
    seq: Int64 | None = None
    retry: bool = False


class Alert(msgspec.Struct, tag="alert", tag_field="type", omit_defaults=True):
    """An alert of this run, sent only to trainers that want alerts."""

    id: str
    rule: str
    severity: str
    state: str
    summary: str
    onset_step: Int64 | None = None
    fired_step: Int64 | None = None
    remedy: str = ""


class Request(msgspec.Struct, tag="request", tag_field="type", omit_defaults=True):
    """Asks the trainer for an action it opted in to: ``checkpoint`` or ``stop``.

    Of several ranks: where are you (no ``at_step``), will you at ``at_step``, and do it (``confirmed``).
    """

    id: str
    action: str
    reason: str = ""
    """The rule whose alert asks for it."""
    alert: str = ""
    at_step: Int64 | None = None
    confirmed: bool = False


ServerMessage = Union[Welcome, Ack, Refused, Alert, Request]

_encoder = msgspec.msgpack.Encoder()
_client_decoder: msgspec.msgpack.Decoder[ClientMessage] = msgspec.msgpack.Decoder(ClientMessage)
_server_decoder: msgspec.msgpack.Decoder[ServerMessage] = msgspec.msgpack.Decoder(ServerMessage)


def encode(message: ClientMessage | ServerMessage) -> bytes:
    """One message as bytes."""
    return _encoder.encode(message)


def decode_client(frame: bytes) -> ClientMessage:
    """A message from a trainer. Raises :class:`ProtocolError` for anything else."""
    try:
        return _client_decoder.decode(frame)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(
            "malformed-frame", "frame", "a msgpack message of protocol version 1", str(error)
        ) from error


def decode_server(frame: bytes) -> ServerMessage:
    """A message from the server. Raises :class:`ProtocolError` for anything else."""
    try:
        return _server_decoder.decode(frame)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(
            "malformed-frame", "frame", "a msgpack message of protocol version 1", str(error)
        ) from error


def agree(version: int, oldest: int) -> int:
    """The version both sides speak. Raises :class:`ProtocolError` where there is none."""
    chosen = min(version, VERSION)
    if chosen < max(oldest, OLDEST_VERSION):
        raise ProtocolError(
            "protocol-version",
            "protocol version",
            f"{OLDEST_VERSION} to {VERSION}",
            f"{oldest} to {version}",
        )
    return chosen


def little_endian(typecode: str, values: Any) -> bytes:
    """``values`` packed as little-endian ``array`` items: d f64, q i64, I u32."""
    packed = array(typecode, values)
    if sys.byteorder == "big":  # pragma: no cover - no such machine at hand
        packed.byteswap()
    return packed.tobytes()
