"""What the lines and rows of an exported run look like, checked before anything is stored. Pure."""

from __future__ import annotations

from typing import Any, Union

import msgspec

from tocsin_server.domain import AlertState, RunState, Severity
from tocsin_server.exchange.bundle import BundleError, Item


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    """A row of a table: unknown fields are refused, for they would be lost."""


class RunRow(_Row):
    id: str
    project: str
    name: str
    state: RunState
    created_ns: int
    last_seen_ns: int
    ended_ns: Union[int, None]
    last_step: Union[int, None]
    planned_steps: Union[int, None]
    world_size: int
    host: str
    notes: str
    tags: list[Any]
    config: Any
    facts: dict[str, Any]
    error: Any
    board: Any
    archived: bool


class AttemptRow(_Row):
    attempt_no: int
    key: str
    launch: str
    restarts: int
    rendezvous: str
    world_size: int
    started_ns: int


class WriterRow(_Row):
    writer_no: int
    attempt_no: int
    rank: int
    key: str
    host: str
    boot: str
    pid: int
    process_ns: int
    hello_ns: int
    clock_offset_ns: int
    dealt_seq: int


class RuleStateRow(_Row):
    arrival: int
    body: str


class EventLine(_Row):
    writer: int
    no: int
    arrival: int
    kind: str
    step: Union[int, None]
    time_ns: int
    data: dict[str, Any]


class HistoryLine(_Row):
    state: AlertState
    severity: Severity
    previous: Union[AlertState, None]
    at_ns: int
    step: Union[int, None]
    summary: str


class AlertLine(_Row):
    fingerprint: str
    episode: int
    rule: str
    subject: str
    severity: Severity
    state: AlertState
    onset_step: Union[int, None]
    onset_ns: int
    pending_ns: Union[int, None]
    fired_step: Union[int, None]
    fired_ns: Union[int, None]
    resolved_step: Union[int, None]
    resolved_ns: Union[int, None]
    updated_ns: int
    late: bool
    summary: str
    diagnosis: dict[str, Any]
    labels: dict[str, Any]
    history: list[HistoryLine]


class FlightLine(_Row):
    fingerprint: str
    episode: int
    made_ns: int
    whole: bool
    sha256: str
    body: str


class AckLine(_Row):
    fingerprint: str
    episode: int
    at_ns: int
    actor: str
    note: str
    undone: bool
    sha256: str


def checked(item: Item, shape: type[_Row], place: str) -> Item:
    """``item`` as it is, where it has the shape. Raises :class:`BundleError`, which names ``place``."""
    try:
        msgspec.convert(item, shape)
    except msgspec.ValidationError as error:
        text = str(error).replace("`", "")
        expected, _, got = text.partition(", got ")
        raise BundleError(place, expected.removeprefix("Expected "), got or text) from error
    return item
