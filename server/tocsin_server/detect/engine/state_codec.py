"""Encode and decode the engine's state, including layouts of older servers."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from tocsin_server.detect.custom.batch_evaluator import SavedAbsences, SavedBatchEvaluator
from tocsin_server.detect.engine.deduplication import Subject
from tocsin_server.detect.engine.stream import SavedRule, SavedStream
from tocsin_server.detect.interface.ranks import RankBarrier
from tocsin_server.detect.interface.rule import Episode

VERSION = 2
"""Version of the snapshot's layout."""
MARK = b"\xc1"
"""First byte of a body with a checksum; msgpack never starts with it.

Four bytes of CRC-32 follow, then the msgpack.
"""
CHECKED = len(MARK) + 4


class EngineStateError(ValueError):
    """A snapshot that this version cannot read; replay the stored records instead."""


class SavedWriter(msgspec.Struct):
    """A writer in a snapshot."""

    attempt: int
    rank: int
    rivals: dict[str, int]
    compared: list[str]
    inherited_episodes: dict[str, dict[str, Episode]]
    streams: dict[str, SavedStream]
    carried_states: dict[str, dict[str, bytes]] = {}
    evaluator: SavedBatchEvaluator | None = None


class EngineState(msgspec.Struct):
    """The whole state of an engine."""

    version: int
    learned: dict[str, Any]
    writers: dict[int, SavedWriter]
    subjects: list[Subject]
    run_rules: dict[str, SavedRule]
    newest: tuple[int, int]
    barrier: RankBarrier
    plan: dict[str, Any] = {}
    absences: SavedAbsences | None = None
    removed: list[int] = []


_decoder = msgspec.msgpack.Decoder(EngineState)
"""Made on import: msgspec crashes if two threads decode a type for the first time at once."""


def written(snapshot: EngineState) -> bytes:
    """Encode ``snapshot`` with a checksum."""
    body = msgspec.msgpack.encode(snapshot)
    return MARK + zlib.crc32(body).to_bytes(4, "big") + body


def read(body: bytes) -> EngineState:
    """Decode the snapshot in ``body``.

    Raises:
        EngineStateError: The snapshot is damaged or from another version.
    """
    try:
        saved = _decoder.decode(_unwrapped(body))
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise EngineStateError(
            f"rule state: expected a snapshot of version {VERSION}, got {error}"
        ) from error
    if saved.version != VERSION:
        raise EngineStateError(f"rule state: expected version {VERSION}, got {saved.version}")
    return saved


def _unwrapped(body: bytes) -> bytes:
    """Return the msgpack part of a body; older servers wrote no checksum."""
    if not body.startswith(MARK):
        return body
    if zlib.crc32(body[CHECKED:]).to_bytes(4, "big") != body[len(MARK) : CHECKED]:
        raise EngineStateError("rule state: the checksum does not match its contents")
    return body[CHECKED:]
