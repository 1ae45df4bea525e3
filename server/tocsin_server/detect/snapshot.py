"""The engine's state as bytes: its layout, and the way back from an older server's."""

from __future__ import annotations

from typing import Any

import msgspec

from tocsin_server.detect.ranks import RollCall
from tocsin_server.detect.rule import Episode
from tocsin_server.detect.stream import SavedRule, SavedStream
from tocsin_server.detect.subject import Subject
from tocsin_server.detect.watch import SavedAbsences, SavedWatch

VERSION = 2
"""Of the snapshot's layout."""


class SnapshotError(ValueError):
    """A snapshot that this version cannot read: begin anew and judge what is stored."""


class SavedWriter(msgspec.Struct):
    """A writer in a snapshot."""

    attempt: int
    rank: int
    rivals: dict[str, int]
    compared: list[str]
    heirlooms: dict[str, dict[str, Episode]]
    streams: dict[str, SavedStream]
    estates: dict[str, dict[str, bytes]] = {}
    watch: SavedWatch | None = None


class Snapshot(msgspec.Struct):
    """All that an engine remembers."""

    version: int
    learned: dict[str, Any]
    writers: dict[int, SavedWriter]
    subjects: list[Subject]
    run_rules: dict[str, SavedRule]
    newest: tuple[int, int]
    roll: RollCall
    plan: dict[str, Any] = {}
    absences: SavedAbsences | None = None


def read(body: bytes) -> Snapshot:
    """The snapshot in ``body``. Raises :class:`SnapshotError` for another version's, or anything else."""
    try:
        saved = msgspec.msgpack.decode(body, type=Snapshot)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise SnapshotError(f"rule state: expected a snapshot of version {VERSION}, got {error}") from error
    if saved.version != VERSION:
        raise SnapshotError(f"rule state: expected version {VERSION}, got {saved.version}")
    return saved
