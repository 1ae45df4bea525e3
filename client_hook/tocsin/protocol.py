"""Protocol version 1 between a training process and the server: messages, encoding, decoding.

Both sides import only this module. It opens no sockets and reads no clock. Messages are binary msgpack maps
with a ``type`` key (docs/internals/protocol.md). Columns are raw little-endian float64, so NaN, +Inf, -Inf
and -0.0 are ordinary values, and a missing value is an absent index, never NaN.

Invalid messages raise :class:`ProtocolError`.
"""

from __future__ import annotations

import sys
from array import array
from typing import Annotated, Any, TypeVar, Union

import msgspec

VERSION = 1
"""The newest protocol version that this module supports."""
OLDEST_VERSION = 1
"""The oldest protocol version that it still supports."""

PATH = "/api/v1/ingest"
"""Path of the server's WebSocket for training processes."""

NONE_YET = -1
"""``ack.seq`` and ``welcome.seq`` before anything is durable; the first record is number 0."""


Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A whole number in a message. msgpack alone would accept unsigned numbers that databases cannot store."""


MOST_STEP = 1 << 53
"""The highest step. Browsers and float64 axes cannot represent all larger whole numbers exactly."""


class ProtocolError(ValueError):
    """A message that violates the protocol. Its text names the subject, what was expected and what was
    received.
    """

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
    """First message of a client on a connection.

    ``time_ns`` is the client's wall clock at the time of sending. The ``t`` of every record is the wall clock
    at the start of capture plus the monotonic time since, in nanoseconds. ``run`` may be empty if the server
    must join ranks by ``rendezvous``.
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
    """What the training process opted in to: ``"alerts"``, ``"checkpoint"``, ``"stop"``."""
    began_ns: Int64 | None = None
    """Wall clock at the first handshake of a dead writer, set by the process that delivers its records."""


class Sparse(msgspec.Struct, frozen=True):
    """Values of a column that some records lack: ``at`` u32le[k] are the row indices, ``v`` f64le[k] the
    values.
    """

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
    """Data other than numbers per step. ``no`` numbers a writer's events and its finish, from 0."""

    no: Int64
    kind: str
    t: Int64
    step: Int64 | None = None
    data: dict[str, Any] = {}


BETWEEN_CELLS = "between cells"
"""The phase of a notebook that has executed a cell and has not trained since. It may last for any time."""


class Alive(msgspec.Struct, tag="alive", tag_field="type", omit_defaults=True):
    """Heartbeat, sent every 5 s: the process is alive, even if no step completes."""

    t: Int64
    step: Int64 | None = None
    queued: Int64 = 0
    dropped: Int64 = 0
    spooled_bytes: Int64 = 0
    phase: str = ""


class Finish(msgspec.Struct, tag="finish", tag_field="type", omit_defaults=True):
    """End of this writer: ``finished``, or ``failed`` with the error. Numbered like an event."""

    no: Int64
    t: Int64
    state: str = "finished"
    records: Int64 = 0
    error: dict[str, Any] = {}
    """``{"type", "message", "lines"}`` where the state is ``failed``."""


ClientMessage = Union[Hello, Records, Event, Alive, Finish]


class Welcome(msgspec.Struct, tag="welcome", tag_field="type", omit_defaults=True):
    """Response to the handshake: the agreed version, the run's id, and what is stored durably of this
    writer.
    """

    version: Int64
    run: str
    attempt: Int64
    seq: Int64
    events: Int64
    flush_ms: Int64 = 200
    limits: dict[str, Int64] = {}
    """``frame_bytes``, ``series``, ``name_bytes``, ``records_per_s``, ``event_bytes``."""


class Ack(msgspec.Struct, tag="ack", tag_field="type"):
    """Everything up to record ``seq`` and event ``events`` is durable, or was rejected and counted."""

    seq: Int64
    events: Int64
    flush_ms: Int64


class Refused(msgspec.Struct, tag="refused", tag_field="type", omit_defaults=True):
    """Rejected data or a rejected connection: what was expected and what was received.

    ``scope`` is connection, records, series or event; or notice, if everything was accepted and the message
    only describes what looked wrong. If ``retry`` is false, the client does not send it again; if true, it
    reconnects later.
    """

    scope: str
    code: str
    expected: str
    got: str
    seq: Int64 | None = None
    retry: bool = False


class Alert(msgspec.Struct, tag="alert", tag_field="type", omit_defaults=True):
    """An alert of this run. Sent only to clients that subscribe to alerts."""

    id: str
    rule: str
    severity: str
    state: str
    summary: str
    onset_step: Int64 | None = None
    fired_step: Int64 | None = None
    remedy: str = ""
    incident: str = ""
    """Identifier of the incident that it belongs to, if any; its page is ``/incidents/<id>``."""


class Request(msgspec.Struct, tag="request", tag_field="type", omit_defaults=True):
    """Ask the training process for an action that it opted in to: ``checkpoint`` or ``stop``.

    With several ranks there are three requests: for the current step (without ``at_step``), for agreement to
    act at ``at_step``, and to carry it out (``confirmed``).
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


Message = TypeVar("Message")


def encode(message: ClientMessage | ServerMessage) -> bytes:
    """Return a message as bytes."""
    return _encoder.encode(message)


def decode_client(frame: bytes) -> ClientMessage:
    """Return the decoded message of a client.

    Raises:
        ProtocolError: The message is not valid.
    """
    return _decoded(_client_decoder, frame)


def decode_server(frame: bytes) -> ServerMessage:
    """Return the decoded message of the server.

    Raises:
        ProtocolError: The message is not valid.
    """
    return _decoded(_server_decoder, frame)


def _decoded(decoder: msgspec.msgpack.Decoder[Message], frame: bytes) -> Message:
    try:
        return decoder.decode(frame)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(
            "malformed-frame", "frame", "a msgpack message of protocol version 1", str(error)
        ) from error


def agree(version: int, oldest: int) -> int:
    """Return the highest version that both sides support.

    Args:
        version: Newest version of the client.
        oldest: Oldest version that the client supports.

    Raises:
        ProtocolError: No version is supported by both.
    """
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
    """Return ``values`` as little-endian ``array`` items. Typecodes: d (f64), q (i64), I (u32)."""
    packed = array(typecode, values)
    if sys.byteorder == "big":  # pragma: no cover - not tested on a big-endian machine
        packed.byteswap()
    return packed.tobytes()
