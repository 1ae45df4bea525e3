"""Validate the messages of training processes: messages and limits in, valid data and rejections out. Pure.

Every rejection says what was expected and what was sent. One invalid column, step or event
never affects the others.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tocsin.protocol import (
    MOST_STEP,
    Alive,
    ClientMessage,
    Event,
    Finish,
    Hello,
    Int64,
    ProtocolError,
    Records,
    Refused,
    Sparse,
    decode_client,
)
from tocsin_server.core import exact_json
from tocsin_server.core.memory_size import size_of
from tocsin_server.core.models import I64, Column
from tocsin_server.runs.rate_limit import weight_of_event

HIGHEST = 1 << 62
"""Exclusive limit of numbers and times, so that adding a clock offset fits the databases' 64 bits."""
MOST_RECORDS = 1 << 20
"""Maximum records per message; a frame of the default size cannot contain more than a quarter of it."""
MOST_SENTENCES = 8
"""Rejections reported per message; the last one counts the others."""
MOST_TAGS = 64
MOST_COLUMNS = 4
"""Maximum number of columns of a message, as a multiple of the series that a run may have."""
SMALL_FRAME = 64 << 10
"""A message up to this size is decoded directly, because its size bounds the memory that it needs."""
WIRE_FACTOR = 3
"""Maximum ratio of the length of plain data in msgpack to that in JSON (9 bytes for the number ``1.0``)."""
MOST_CONTAINERS = 400_000
"""Maximum number of lists and maps in one part of a handshake: one byte each on the wire, 70 in memory."""
MEMORY_FACTOR = 32
"""Memory that the parts of a handshake may take, as a multiple of ``config_bytes``."""
SHORT = 64
"""Up to this many numbers, a plain loop is faster than NumPy."""
RUN_ID = re.compile(r"[A-Za-z0-9._:-]+")
"""Run ids appear in URLs and file names."""
PLAIN_NAME = "a name of 1 to {} bytes without control characters"


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of sizes and counts for one training process."""

    frame_bytes: int = 4 << 20
    series: int = 512
    name_bytes: int = 256
    records_per_s: int = 20_000
    event_bytes: int = 64 << 10
    events_per_s: int = 100
    config_bytes: int = 1 << 20

    def as_message(self) -> dict[str, int]:
        """Return the limits for the ``welcome`` message."""
        return {
            "frame_bytes": self.frame_bytes,
            "series": self.series,
            "name_bytes": self.name_bytes,
            "records_per_s": self.records_per_s,
            "event_bytes": self.event_bytes,
            "events_per_s": self.events_per_s,
        }


@dataclass(frozen=True, slots=True)
class ValidatedRecords:
    """The valid part of a ``records`` message: ``n`` records from number ``seq`` on (``n`` may be 0).

    ``last_seq`` is the highest number in the message, rejected records included; None if the message does not
    have valid numbers.
    """

    seq: int
    last_seq: int | None
    n: int = 0
    step: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    time_ns: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    columns: Mapping[str, Column] = field(default_factory=dict)
    rejected: tuple[Refused, ...] = ()


class Outline(msgspec.Struct):
    """The header of a message whose contents are not decoded."""

    type: str = ""
    seq: Int64 = -1
    n: Int64 = 0
    no: Int64 = -1
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


@dataclass(frozen=True, slots=True)
class Position:
    """The state that validation depends on besides the message: its writer and the series of its run."""

    seq: int
    """Highest record number accepted from the writer."""
    event: int
    """Highest event number accepted from the writer."""
    offset_ns: int
    """Added to the client's times to get the server's."""
    series: Collection[str]


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


class SealedFinish(Finish, tag="finish", tag_field="type", omit_defaults=True):
    """A finish message whose error is not decoded yet."""

    error: msgspec.Raw = msgspec.Raw(b"")  # type: ignore[assignment]


class SealedHandshake(Hello, tag="hello", tag_field="type", omit_defaults=True):
    """A handshake whose free-form parts are not decoded yet."""

    versions: msgspec.Raw = msgspec.Raw(b"")  # type: ignore[assignment]
    optimizers: msgspec.Raw = msgspec.Raw(b"")  # type: ignore[assignment]
    scalers: msgspec.Raw = msgspec.Raw(b"")  # type: ignore[assignment]
    schedulers: msgspec.Raw = msgspec.Raw(b"")  # type: ignore[assignment]
    config: msgspec.Raw = msgspec.Raw(b"")
    notes: msgspec.Raw = msgspec.Raw(b"")  # type: ignore[assignment]


class Part:
    """How to decode a free-form part of a handshake, and its default."""

    def __init__(self, field: msgspec.structs.FieldInfo) -> None:
        self.decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(field.type)
        self._field = field

    @property
    def default(self) -> Any:
        field = self._field
        return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


PARTS = ("config", "versions", "optimizers", "scalers", "schedulers", "notes")
"""The free-form parts of a handshake."""
_parts = {field.name: Part(field) for field in msgspec.structs.fields(Hello) if field.name in PARTS}
_HandshakeParts = msgspec.defstruct(
    "_HandshakeParts", [(name, msgspec.Raw, msgspec.field(default=msgspec.Raw(b""))) for name in PARTS]
)
_outlines = msgspec.msgpack.Decoder(Outline)
_parts_of = msgspec.msgpack.Decoder(_HandshakeParts)
_sealed = msgspec.msgpack.Decoder(SealedHandshake)
_finishes = msgspec.msgpack.Decoder(SealedFinish)
_UNREADABLE = (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError)


T = TypeVar("T")


def _read(decoder: msgspec.msgpack.Decoder[T], frame: bytes) -> T:
    """Decode ``frame``. Raises ProtocolError if that fails."""
    try:
        return decoder.decode(frame)
    except _UNREADABLE as error:
        raise _malformed(error) from error


def read_outline(frame: bytes) -> Outline:
    """Return the header of the message in ``frame``. Raises ProtocolError if it contains none."""
    return _read(_outlines, frame)


def read_sealed(frame: bytes) -> SealedHandshake:
    """Return the handshake in ``frame``. Raises ProtocolError if it contains none."""
    parts = _read(_parts_of, frame)
    rest = len(frame) - sum(len(bytes(getattr(parts, name))) for name in PARTS)
    if rest > SMALL_FRAME:
        raise ProtocolError(
            "bad-hello", "hello", f"at most {SMALL_FRAME} bytes without {', '.join(PARTS)}", f"{rest} bytes"
        )
    return _read(_sealed, frame)


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
        expected = f"at most {limits.event_bytes} bytes"
        refusal = _refused("event", "event-size", expected, f"{size} bytes", outline.no)
    elif outline.type == "finish" and size > event_bytes:
        return _finish_without_error(_read(_finishes, frame))
    elif outline.type == "alive" and size > SMALL_FRAME:
        refusal = _refused("connection", "frame-size", f"at most {SMALL_FRAME} bytes", f"{size} bytes")
    elif outline.type not in ("event", "finish", "alive"):
        got = "a second hello" if outline.type == "hello" else f"type {shown(outline.type)}"
        raise ProtocolError("malformed-frame", "frame", "records, event, alive or finish", got)
    return decode_client(frame) if refusal is None else TooLarge(outline, refusal)


def validate(frame: bytes, position: Position, limits: Limits) -> Validated:
    """Decode and fully check one message of a training process.

    An event or finish that was already accepted is returned unchecked, because only its number matters.

    Raises:
        ProtocolError: The frame contains no message that is allowed after the handshake.
    """
    message = read_message(frame, limits)
    if isinstance(message, Records):
        valid = read_records(
            message, after=position.seq, offset_ns=position.offset_ns, known=position.series, limits=limits
        )
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


def _columns_refusal(size: int, outline: Outline, limits: Limits) -> Refused | None:
    """Reject a ``records`` message with far too many series, or with too much other data."""
    most = MOST_COLUMNS * limits.series
    rest = size - sum(len(bytes(part)) for part in (outline.cols, outline.step, outline.t))
    if outline.columns <= most and rest <= SMALL_FRAME:
        return None
    got = f"{outline.columns} columns and {rest} bytes of other data"
    return _refused("records", "bad-batch", f"at most {most} columns", got, outline.seq)


def _finish_without_error(sealed: SealedFinish) -> Finish:
    """Return the finish without an error that is too large: the end of the run must still be recorded."""
    size = len(bytes(sealed.error))
    error = {"type": "", "message": f"The error was left out because it has {size} bytes.", "lines": []}
    return Finish(sealed.no, sealed.t, sealed.state, sealed.records, error if size else {})


def _malformed(error: Exception) -> ProtocolError:
    return ProtocolError("malformed-frame", "frame", "a msgpack message of protocol version 1", str(error))


def _read_part(name: str, raw: bytes, limit_bytes: int) -> tuple[Any, tuple[str, str] | None]:
    """Return one part of a handshake, and (expected, got) if it is too large."""
    if len(raw) > WIRE_FACTOR * limit_bytes:
        return None, (f"at most {limit_bytes} bytes", f"{len(raw)} bytes of msgpack")
    if _containers(raw) > MOST_CONTAINERS:
        return None, (f"at most {MOST_CONTAINERS} lists and maps", "more")
    try:
        value = _parts[name].decoder.decode(raw)
    except _UNREADABLE as error:
        raise _malformed(error) from error
    return value, _too_large(value, limit_bytes)


def _containers(raw: bytes) -> int:
    """Return an upper bound of the lists and maps in ``raw``: bytes of texts may look like one."""
    codes = np.frombuffer(raw, np.uint8)
    return int(np.count_nonzero((codes >= 0x80) & (codes <= 0x9F)) + np.count_nonzero(codes >= 0xDC))


def without_parts(hello: Hello) -> Hello:
    """Return ``hello`` without its free-form parts, as a connection keeps it."""
    return msgspec.structs.replace(hello, **{name: part.default for name, part in _parts.items()})


def shown(value: str, most: int = 60) -> str:
    """Return external text for use in a sentence: quoted, escaped and shortened."""
    if len(value) <= most:
        return repr(value)
    return f"{value[:most]!r}… ({len(value.encode('utf-8', 'replace'))} bytes)"


def is_name(text: str, limit_bytes: int) -> bool:
    """Whether ``text`` can be the name of a series, run or project."""
    if not 0 < len(text.encode("utf-8", "replace")) <= limit_bytes:
        return False
    return text.isprintable() or not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text)


def read_records(
    message: Records, *, after: int, offset_ns: int, known: Collection[str], limits: Limits
) -> ValidatedRecords:
    """Return the records of ``message`` with numbers above ``after``.

    Args:
        message: The message.
        after: Highest number accepted so far.
        offset_ns: Added to the client's times.
        known: Series that the run already has; new ones count towards ``limits.series``.
        limits: The limits of this server.
    """
    wrong = _misshapen(message)
    if wrong is not None:
        countable = message.seq >= 0 and 0 < message.n <= MOST_RECORDS and message.seq < HIGHEST
        last = message.seq + message.n - 1 if countable else None
        return ValidatedRecords(seq=max(after + 1, 0), last_seq=last, rejected=(wrong,))
    last = message.seq + message.n - 1
    if last <= after:
        return ValidatedRecords(seq=after + 1, last_seq=last)
    columns, rejected = _read_columns(message, known, limits)
    step = np.frombuffer(message.step, "<i8")
    keep, out_of_range = _valid_rows(step, message.seq, after)
    rejected += out_of_range
    return _kept(message, step, columns, keep, offset_ns, rejected)


def _misshapen(message: Records) -> Refused | None:
    """Reject a message whose numbers, steps and times are inconsistent."""
    n, seq = message.n, message.seq
    if not (0 <= seq < HIGHEST and 0 < n <= MOST_RECORDS):
        expected = f"seq from 0 and n from 1 to {MOST_RECORDS}"
        return _refused("records", "bad-batch", expected, f"seq {seq} and n {n}")
    for name, body in (("step", message.step), ("t", message.t)):
        if len(body) != 8 * n:
            return _refused("records", "bad-batch", f"{name} of {8 * n} bytes", f"{len(body)} bytes", seq)
    earliest, newest = _ends(np.frombuffer(message.t, "<i8"))
    if earliest < 0 or newest >= HIGHEST:
        return _refused("records", "bad-batch", "times in Unix ns", f"{earliest} to {newest}", seq)
    return None


def _ends(numbers: I64) -> tuple[int, int]:
    """Return the lowest and highest of ``numbers`` [n], n > 0."""
    if numbers.size <= SHORT:
        few = numbers.tolist()
        return min(few), max(few)
    return int(numbers.min()), int(numbers.max())


def _refused(scope: str, code: str, expected: str, got: str, seq: int | None = None) -> Refused:
    return Refused(scope=scope, code=code, expected=expected, got=got, seq=seq)


def _read_columns(
    message: Records, known: Collection[str], limits: Limits
) -> tuple[dict[str, Column], list[Refused]]:
    columns: dict[str, Column] = {}
    rejections: list[Refused] = []
    invalid, room, left_out = 0, limits.series - len(known), 0
    for name, body in message.cols.items():
        new = name not in known
        read = _read_column(name, body, message.n, limits.name_bytes if new else None)
        if isinstance(read, str):
            invalid += 1
            if invalid <= MOST_SENTENCES:
                rejections.append(_bad_column(name, body, message, read))
        elif new and room <= 0:
            left_out += 1
        else:
            room -= new
            columns[name] = read
    rejected = _few(rejections, invalid, message.seq)
    if left_out:
        got = f"{left_out} more, which were left out"
        rejected.append(
            _refused("series", "too-many-series", f"at most {limits.series} series per run", got, message.seq)
        )
    return columns, rejected


def _few(rejections: list[Refused], count: int, seq: int) -> list[Refused]:
    """Return the first few of ``count`` rejections, and one that counts the others."""
    rest = count - len(rejections)
    if not rest:
        return rejections
    more = _refused(
        "series", "bad-column", "columns as in docs/internals/protocol.md", f"{rest} more invalid ones", seq
    )
    return [*rejections, more]


def _bad_column(name: str, body: bytes | Sparse, message: Records, expected: str) -> Refused:
    if isinstance(body, Sparse):
        got = f"{shown(name)} with {len(body.at)} bytes of at, {len(body.v)} of v, n {message.n}"
    else:
        got = f"{shown(name)} of {len(body)} bytes, n {message.n}"
    return _refused("series", "bad-column", expected, got, message.seq)


def _read_column(name: str, body: bytes | Sparse, n: int, name_bytes: int | None) -> Column | str:
    """Return the column, or what was expected. ``name_bytes`` is None for a known name."""
    if name_bytes is not None and not is_name(name, name_bytes):
        return PLAIN_NAME.format(name_bytes)
    if isinstance(body, bytes):
        return Column(np.frombuffer(body, "<f8")) if len(body) == 8 * n else f"f64le[n], {8 * n} bytes"
    if len(body.at) % 4 or len(body.v) != 2 * len(body.at):
        return "at u32le[k] and v f64le[k]"
    at = np.frombuffer(body.at, "<u4")
    if at.size and (int(at[-1]) >= n or bool((at[1:] <= at[:-1]).any())):
        return f"at ascending and below n, {n}"
    return Column(np.frombuffer(body.v, "<f8"), at)


def _valid_rows(step: I64, seq: int, after: int) -> tuple[NDArray[np.bool_] | None, list[Refused]]:
    """Return which rows [n] are new and have steps from 0 to 2^53 (None: all), and the rejections."""
    lowest, highest = _ends(step)
    if seq > after and lowest >= 0 and highest <= MOST_STEP:
        return None, []
    keep = np.arange(seq, seq + step.size) > after
    negative, large = keep & (step < 0), keep & (step > MOST_STEP)
    rejected = []
    if negative.any():
        got = f"{int(negative.sum())} records with negative steps, the lowest {int(step[negative].min())}"
        rejected.append(_refused("records", "negative-step", "steps from 0", got, seq))
    if large.any():
        got = f"{int(large.sum())} records with larger steps, the highest {int(step[large].max())}"
        rejected.append(_refused("records", "step-too-large", f"steps up to 2^53 ({MOST_STEP})", got, seq))
    return keep & ~negative & ~large, rejected


def _kept(
    message: Records,
    step: I64,
    columns: dict[str, Column],
    keep: NDArray[np.bool_] | None,
    offset_ns: int,
    rejected: list[Refused],
) -> ValidatedRecords:
    last, time_ns = message.seq + message.n - 1, np.frombuffer(message.t, "<i8") + offset_ns
    if keep is None or keep.all():
        return ValidatedRecords(message.seq, last, message.n, step, time_ns, columns, tuple(rejected))
    rows = np.flatnonzero(keep)
    if not rows.size:
        return ValidatedRecords(seq=last + 1, last_seq=last, rejected=tuple(rejected))
    place = np.cumsum(keep) - 1
    taken = {name: _rows_of(column, keep, place) for name, column in columns.items()}
    # Records after a rejected one move up; their numbers stay within the range of this message.
    first = message.seq + int(rows[0])
    return ValidatedRecords(first, last, int(rows.size), step[rows], time_ns[rows], taken, tuple(rejected))


def _rows_of(column: Column, keep: NDArray[np.bool_], place: NDArray[np.intp]) -> Column:
    if column.at is None:
        return Column(column.v[keep])
    chosen = keep[column.at]
    return Column(column.v[chosen], place[column.at[chosen]].astype(np.uint32))


VITALS = frozenset({"loss", "grad_norm", "scale", "lr"})
"""Series with one value per step and writer: a repeated step means that another attempt reuses old numbers.
"""


class StepOrder:
    """Detect steps of one writer that repeat or decrease. They are kept as sent and reported.

    Several records at one step are normal: two optimizers may alternate, and values that a script logs in
    each micro-step belong to the same step. A repeated step therefore counts only in a vital sign, which has
    one value per step; a decreasing step counts in every series.
    """

    def __init__(self) -> None:
        self._highest = -1
        self._of_series: dict[str, int] = {}

    def notice(self, valid: ValidatedRecords) -> Refused | None:
        """Return a notice about the first series of ``valid`` whose steps do not increase, or None."""
        if not valid.n:
            return None
        all_steps = valid.step.tolist()
        if all_steps[0] > self._highest and all(one < other for one, other in pairwise(all_steps)):
            self._note(valid, all_steps)
            return None
        found: Refused | None = None
        for name, column in valid.columns.items():
            steps = valid.step if column.at is None else valid.step[column.at]
            if not steps.size:
                continue
            before = self._of_series.get(name, -1)
            if found is None:
                found = _out_of_order(name, steps, before, valid.seq)
            self._of_series[name] = max(before, int(steps[-1]))
        self._highest = max(self._highest, *all_steps)
        return found

    def _note(self, valid: ValidatedRecords, steps: list[int]) -> None:
        """Record steps that increase, the usual case."""
        self._highest = steps[-1]
        for name, column in valid.columns.items():
            if column.at is None:
                self._of_series[name] = steps[-1]
            elif column.at.size:
                self._of_series[name] = steps[int(column.at[-1])]


def _out_of_order(name: str, steps: I64, before: int, seq: int) -> Refused | None:
    line = np.concatenate(([before], steps))
    later, earlier = line[1:], line[:-1]  # compared, because a difference of steps can overflow int64
    back = np.flatnonzero(later <= earlier if name in VITALS else later < earlier)
    if not back.size:
        return None
    was, came = int(line[back[0]]), int(line[back[0] + 1])
    got = f"step {came} of {shown(name)} after step {was}; kept as sent"
    return _refused("notice", "step-order", "ascending steps of a series", got, seq)


def markup_notice(hello: Hello) -> Refused | None:
    """Return a notice about markup in a name. The name is kept as sent and escaped on output."""
    for label, text in (("project", hello.project), ("name", hello.name)):
        if re.search(r"<[A-Za-z/!]", text):
            got = f"{shown(text)}; kept as sent, escaped where it is shown"
            return _refused("notice", "markup-in-name", f"a {label} without markup", got)
    return None


def read_handshake(sealed: SealedHandshake, limits: Limits) -> tuple[Hello, list[Refused]]:
    """Return the handshake without parts that are too large, and the rejections.

    A rejection of scope ``connection`` rejects the whole handshake. A part is decoded only if its length and
    its number of lists and maps are within the limits.

    Raises:
        ProtocolError: A free-form part does not have the type in the protocol.
    """
    fault = _name_problem(sealed, limits) or _number_problem(sealed)
    if fault is not None:
        return sealed, [_refused("connection", "bad-hello", *fault)]
    notice = markup_notice(sealed)
    reported = [notice] if notice else []
    given: dict[str, Any] = {}
    room = MEMORY_FACTOR * limits.config_bytes
    for part in PARTS:
        raw = bytes(getattr(sealed, part))
        value, wrong = _read_part(part, raw, limits.config_bytes) if raw else (_parts[part].default, None)
        size = size_of(value)
        if wrong is None and size > room:
            wrong = (f"at most {room} bytes of memory", f"{size} bytes")
        if wrong is not None:
            reported.append(_refused("event", "config-size", f"{part} of {wrong[0]}", wrong[1]))
            value, size = _parts[part].default, 0
        given[part] = value
        room -= size
    plain = {name: getattr(sealed, name) for name in Hello.__struct_fields__ if name not in PARTS}
    return Hello(**plain, **given), reported


def _name_problem(hello: Hello, limits: Limits) -> tuple[str, str] | None:
    needed = {"project": hello.project, "name": hello.name, "attempt": hello.writer.attempt}
    optional = {"host": hello.host, "boot": hello.writer.boot, "launch": hello.launch}
    optional["rendezvous"] = hello.rendezvous
    fault = names_problem(needed, optional, limits) or tags_problem(hello.tags, limits)
    if fault is not None or (not hello.run and hello.rendezvous):
        return fault
    return run_id_problem(hello.run, limits)


def names_problem(
    needed: Mapping[str, str], optional: Mapping[str, str], limits: Limits
) -> tuple[str, str] | None:
    """Return (expected, got) for the first text that is not a name, or None. Optional ones may be empty."""
    for label, text in (*needed.items(), *((label, text) for label, text in optional.items() if text)):
        if not is_name(text, limits.name_bytes):
            return f"{label}: {PLAIN_NAME.format(limits.name_bytes)}", shown(text)
    return None


def tags_problem(tags: Sequence[str], limits: Limits) -> tuple[str, str] | None:
    """Return (expected, got) if these are not valid tags of a run, or None."""
    if len(tags) > MOST_TAGS:
        return f"at most {MOST_TAGS} tags", str(len(tags))
    return names_problem({}, {f"tag {no}": tag for no, tag in enumerate(tags)}, limits)


def run_id_problem(run_id: str, limits: Limits) -> tuple[str, str] | None:
    """Return (expected, got) if this is not a valid run id, or None.

    An id that consists only of dots would refer to another location in URLs and paths.
    """
    if len(run_id) > limits.name_bytes or not RUN_ID.fullmatch(run_id) or not run_id.strip("."):
        return f"a run id of 1 to {limits.name_bytes} letters, digits and . _ : -", shown(run_id)
    return None


def _number_problem(hello: Hello) -> tuple[str, str] | None:
    return range_problem(
        {
            "rank": hello.writer.rank,
            "world_size": hello.world_size,
            "pid": hello.writer.pid,
            "started_ns": hello.writer.started_ns,
            "time_ns": hello.time_ns,
            "restarts": hello.restarts,
            "planned_steps": hello.planned_steps or 0,
        }
    )


_SMALL = {
    "rank": (0, 1 << 31),
    "world_size": (1, 1 << 31),
    "restarts": (0, 1 << 31),
    "planned_steps": (0, MOST_STEP + 1),
}


def range_problem(numbers: Mapping[str, int]) -> tuple[str, str] | None:
    """Return (expected, got) for the first number of a handshake that is out of range, or None."""
    for label, value in numbers.items():
        lowest, beyond = _SMALL.get(label, (0, HIGHEST))
        if not lowest <= value < beyond:
            return f"{label} from {lowest} to {beyond - 1}", str(value)
    return None


def _too_large(value: Any, limit_bytes: int) -> tuple[str, str] | None:
    """Return (expected, got) if ``value`` is not plain data or is too large, or None."""
    wrong = exact_json.problem(value)
    if wrong is not None:
        return wrong[1], f"other data at {wrong[0][1:] or 'the top'}"
    try:
        size = _json_bytes(value)
    except (TypeError, ValueError, RecursionError) as error:
        return "plain data (numbers, texts, lists, maps)", str(error)
    return (f"at most {limit_bytes} bytes", f"{size} bytes") if size > limit_bytes else None


def _json_bytes(value: Any) -> int:
    """Return the length of ``value`` as JSON. Non-finite numbers and non-string keys take longer."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError):
        text = exact_json.dumps(value)
    return len(text.encode("utf-8", "replace"))


def event_problem(event: Event, limits: Limits) -> Refused | None:
    """Return the rejection of an event that cannot be stored, or None."""
    if not is_name(event.kind, limits.name_bytes):
        return _refused(
            "event", "bad-event", PLAIN_NAME.format(limits.name_bytes), shown(event.kind), event.no
        )
    if not 0 <= event.t < HIGHEST or not 0 <= (event.step or 0) <= MOST_STEP:
        expected = f"a time in Unix ns and a step from 0 to {MOST_STEP}"
        got = f"t {event.t} and step {event.step}"
        return _refused("event", "bad-event", expected, got, event.no)
    wrong = _too_large(event.data, limits.event_bytes)
    return _refused("event", "event-size", *wrong, event.no) if wrong else None


def finish_problem(finish: Finish) -> Refused | None:
    """Return the rejection of an invalid finish message, or None."""
    if finish.state not in ("finished", "failed"):
        return _refused("event", "bad-event", "state finished or failed", shown(finish.state), finish.no)
    if not 0 <= finish.t < HIGHEST or not 0 <= finish.records < HIGHEST:
        got = f"t {finish.t} and records {finish.records}"
        return _refused("event", "bad-event", "a time in Unix ns and a count of records", got, finish.no)
    return None


def error_of(finish: Finish, limits: Limits) -> dict[str, Any]:
    """Return why a run failed. An error that is too large is shortened; the end must still be recorded."""
    if _too_large(finish.error, limits.event_bytes) is None:
        return dict(finish.error)
    short = {key: str(finish.error.get(key, ""))[:2000] for key in ("type", "message")}
    return {**short, "lines": []}


def frame_refusal(size: int, limits: Limits, seq: int | None = None) -> Refused:
    """Return the rejection of a frame above the limit; ``seq``: its first record, if that could be read."""
    return _refused("records", "frame-size", f"at most {limits.frame_bytes} bytes", f"{size} bytes", seq)
