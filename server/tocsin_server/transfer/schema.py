"""Schemas of the lines and rows of an exported run, checked before anything is stored. Pure code.

Numbers have the same bounds as in handshakes and records: a step above 2^53, or a time that a clock offset
cannot shift, would make periodic jobs fail for the run.
"""

from __future__ import annotations

from typing import Annotated, Any, Union

import msgspec

from tocsin.protocol import MOST_STEP
from tocsin_server.core.models import AlertState, RunState, Severity
from tocsin_server.runs.validation.limits import HIGHEST
from tocsin_server.transfer.run_folder import BundleError, Item

Step = Annotated[int, msgspec.Meta(ge=0, le=MOST_STEP)]
Number = Annotated[int, msgspec.Meta(ge=-HIGHEST, le=HIGHEST)]
"""A time in ns, or a count."""


class _Row(msgspec.Struct, forbid_unknown_fields=True):
    """A row of a table. Unknown fields are rejected, because they would be lost."""


class RunRow(_Row):
    """The run, in ``run.json``."""

    id: str
    project: str
    name: str
    state: RunState
    created_ns: Number
    last_seen_ns: Number
    ended_ns: Union[Number, None]
    last_step: Union[Step, None]
    planned_steps: Union[Step, None]
    world_size: Number
    host: str
    notes: str
    tags: list[Any]
    config: Union[dict[str, Any], None]
    environment: dict[str, Any]
    error: Union[dict[str, Any], None]
    summary: Union[dict[str, Any], None]
    archived: bool


class AttemptRow(_Row):
    """One attempt of the run."""

    attempt_no: Number
    key: str
    launch: str
    restarts: Number
    rendezvous: str
    world_size: Number
    started_ns: Number


class WriterRow(_Row):
    """One process of an attempt."""

    writer_no: Number
    attempt_no: Number
    rank: Number
    key: str
    host: str
    boot: str
    pid: Number
    process_ns: Number
    handshake_ns: Number
    clock_offset_ns: Number
    handled_seq: Number


class RuleStateRow(_Row):
    """The saved state of the rules."""

    arrival: Number
    body: str


class EventLine(_Row):
    """One event, a line of ``events.jsonl``."""

    writer: Number
    no: Number
    arrival: Number
    kind: str
    step: Union[Step, None]
    time_ns: Number
    data: dict[str, Any]


class HistoryLine(_Row):
    """One transition of an alert."""

    state: AlertState
    severity: Severity
    previous: Union[AlertState, None]
    at_ns: Number
    step: Union[Step, None]
    summary: str


class AlertLine(_Row):
    """One alert, a line of ``alerts.jsonl``."""

    fingerprint: str
    episode: Number
    rule: str
    subject: str
    severity: Severity
    state: AlertState
    onset_step: Union[Step, None]
    onset_ns: Number
    pending_ns: Union[Number, None]
    fired_step: Union[Step, None]
    fired_ns: Union[Number, None]
    resolved_step: Union[Step, None]
    resolved_ns: Union[Number, None]
    updated_ns: Number
    late: bool
    summary: str
    diagnosis: dict[str, Any]
    labels: dict[str, Any]
    history: list[HistoryLine]
    incident: str = ""
    """Missing in folders of version 0.1.0."""


class AckLine(_Row):
    """One acknowledgement."""

    fingerprint: str
    episode: Number
    at_ns: Number
    actor: str
    note: str
    undone: bool
    sha256: str


def checked(item: Item, shape: type[_Row], place: str) -> Item:
    """Return ``item`` if it matches ``shape``.

    Raises:
        BundleError: It does not; the error contains ``place``.
    """
    try:
        msgspec.convert(item, shape)
    except msgspec.ValidationError as error:
        raise BundleError(place, *_expected_and_got(str(error).replace("`", ""))) from error
    return item


def _expected_and_got(text: str) -> tuple[str, str]:
    """Return (expected, got) from a message of msgspec, which omits a number that is out of bounds."""
    expected, _, got = text.partition(", got ")
    if expected.startswith("Expected "):
        return expected.removeprefix("Expected "), got or "another"
    return "fields that this version knows", text
