"""Validate the handshake. Its free-form parts are decoded only within the limits, one after another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from tocsin.protocol import MOST_STEP, Hello, ProtocolError, Refused
from tocsin_server.core.memory_size import size_of
from tocsin_server.runs.validation.frames import UNREADABLE, malformed, read_with
from tocsin_server.runs.validation.limits import HIGHEST, SMALL_FRAME, WIRE_FACTOR, Limits
from tocsin_server.runs.validation.names import (
    markup_notice,
    names_problem,
    run_id_problem,
    tags_problem,
)
from tocsin_server.runs.validation.plain_data import size_problem

PARTS = ("config", "versions", "optimizers", "scalers", "schedulers", "notes")
"""The free-form parts of a handshake."""
MOST_CONTAINERS = 400_000
"""Maximum number of lists and maps in one part of a handshake: one byte each on the wire, 70 in memory."""
MEMORY_FACTOR = 32
"""Memory that the parts of a handshake may take, as a multiple of ``config_bytes``."""
_SMALL = {
    "rank": (0, 1 << 31),
    "world_size": (1, 1 << 31),
    "restarts": (0, 1 << 31),
    "planned_steps": (0, MOST_STEP + 1),
}


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


_parts = {field.name: Part(field) for field in msgspec.structs.fields(Hello) if field.name in PARTS}
_HandshakeParts = msgspec.defstruct(
    "_HandshakeParts", [(name, msgspec.Raw, msgspec.field(default=msgspec.Raw(b""))) for name in PARTS]
)
_parts_of = msgspec.msgpack.Decoder(_HandshakeParts)
_sealed = msgspec.msgpack.Decoder(SealedHandshake)


def read_sealed(frame: bytes) -> SealedHandshake:
    """Return the handshake in ``frame``. Raises ProtocolError if it contains none."""
    parts = read_with(_parts_of, frame)
    rest = len(frame) - sum(len(bytes(getattr(parts, name))) for name in PARTS)
    if rest > SMALL_FRAME:
        raise ProtocolError(
            "bad-hello", "hello", f"at most {SMALL_FRAME} bytes without {', '.join(PARTS)}", f"{rest} bytes"
        )
    return read_with(_sealed, frame)


def read_handshake(sealed: SealedHandshake, limits: Limits) -> tuple[Hello, list[Refused]]:
    """Return the handshake without parts that are too large, and the rejections.

    A rejection of scope ``connection`` rejects the whole handshake. A part is decoded only if its length and
    its number of lists and maps are within the limits.

    Raises:
        ProtocolError: A free-form part does not have the type in the protocol.
    """
    fault = _name_problem(sealed, limits) or _number_problem(sealed)
    if fault is not None:
        return sealed, [Refused("connection", "bad-hello", *fault)]
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
            reported.append(Refused("event", "config-size", f"{part} of {wrong[0]}", wrong[1]))
            value, size = _parts[part].default, 0
        given[part] = value
        room -= size
    plain = {name: getattr(sealed, name) for name in Hello.__struct_fields__ if name not in PARTS}
    return Hello(**plain, **given), reported


def without_parts(hello: Hello) -> Hello:
    """Return ``hello`` without its free-form parts, as a connection keeps it."""
    return msgspec.structs.replace(hello, **{name: part.default for name, part in _parts.items()})


def _read_part(name: str, raw: bytes, limit_bytes: int) -> tuple[Any, tuple[str, str] | None]:
    """Return one part of a handshake, and (expected, got) if it is too large."""
    if len(raw) > WIRE_FACTOR * limit_bytes:
        return None, (f"at most {limit_bytes} bytes", f"{len(raw)} bytes of msgpack")
    if _containers(raw) > MOST_CONTAINERS:
        return None, (f"at most {MOST_CONTAINERS} lists and maps", "more")
    try:
        value = _parts[name].decoder.decode(raw)
    except UNREADABLE as error:
        raise malformed(error) from error
    return value, size_problem(value, limit_bytes)


def _containers(raw: bytes) -> int:
    """Return an upper bound of the lists and maps in ``raw``: bytes of texts may look like one."""
    codes = np.frombuffer(raw, np.uint8)
    return int(np.count_nonzero((codes >= 0x80) & (codes <= 0x9F)) + np.count_nonzero(codes >= 0xDC))


def _name_problem(hello: Hello, limits: Limits) -> tuple[str, str] | None:
    needed = {"project": hello.project, "name": hello.name, "attempt": hello.writer.attempt}
    optional = {"host": hello.host, "boot": hello.writer.boot, "launch": hello.launch}
    optional["rendezvous"] = hello.rendezvous
    fault = names_problem(needed, optional, limits) or tags_problem(hello.tags, limits)
    if fault is not None or (not hello.run and hello.rendezvous):
        return fault
    return run_id_problem(hello.run, limits)


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


def range_problem(numbers: Mapping[str, int]) -> tuple[str, str] | None:
    """Return (expected, got) for the first number of a handshake that is out of range, or None."""
    for label, value in numbers.items():
        lowest, beyond = _SMALL.get(label, (0, HIGHEST))
        if not lowest <= value < beyond:
            return f"{label} from {lowest} to {beyond - 1}", str(value)
    return None
