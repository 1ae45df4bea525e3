"""``GET /runs/{id}/checkpoints``: the checkpoints of a run, and the last one that is good to resume from."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.checkpoints import (
    Checkpoint,
    LastGood,
    Trouble,
    after_event,
    last_good_checkpoint,
    problem_of,
    troubles_of,
)
from tocsin_server.core.models import AlertState, Severity
from tocsin_server.core.responses import ExactJSON
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import Step, known_run
from tocsin_server.http.api.resource import resource
from tocsin_server.http.services import services_of
from tocsin_server.store.reader import StoreReader

router = resource("checkpoints")

MOST, EVENTS, MOST_ALERTS = 1000, 10_000, 10_000
"""Maximum number of checkpoints, and of the newest events about them and critical alerts that are read."""


class CheckpointRow(TypedDict):
    """A checkpoint that was not deleted or replaced, as far as the training process knew.

    ``step`` is the newest step whose update it contains. ``problem`` says why it is not good to resume from,
    "" if it is good. Control characters of ``path`` are escaped if ``escaped``; if ``cut``, its middle is
    missing.
    """

    path: str
    step: int
    time_ms: float
    size: int | None
    complete: bool | None
    holds: list[str]
    by: str
    attempt: int
    rank: int
    host: str
    escaped: bool
    cut: bool
    problem: str


class CheckpointAnswer(TypedDict):
    """Checkpoints, newest first, and the last good one; ``text`` describes it in one sentence."""

    items: list[CheckpointRow]
    last_good: CheckpointRow | None
    text: str


@router.get("/runs/{run_id:path}/checkpoints", response_model=CheckpointAnswer)
def list_checkpoints(
    request: Request,
    run_id: str,
    _identity: Reader,
    before: Annotated[Step | None, Query(description="Only checkpoints before this step are good.")] = None,
) -> ExactJSON:
    """List the checkpoints of a run that still exist, and name the last one that is good to resume from."""
    reader = services_of(request).reader
    stored = known_run(reader, run_id)
    checkpoints = checkpoints_of(reader, run_id)
    troubles = _troubles(reader, run_id)
    hosts = {(each.writer.attempt_no, each.writer.rank): each.host for each in stored.writers}
    found = last_good_checkpoint(checkpoints, before, troubles)

    def row(each: Checkpoint) -> dict[str, Any]:
        return {
            **each.plain(),
            "time_ms": each.time_ns / 1e6,
            "holds": list(each.holds),
            "host": hosts.get((each.attempt, each.rank), ""),
            "problem": problem_of(each, before, troubles),
        }

    return ExactJSON(
        {
            "items": [row(each) for each in reversed(checkpoints)],
            "last_good": None if found.checkpoint is None else row(found.checkpoint),
            "text": found.text,
        }
    )


def checkpoints_of(reader: StoreReader, run_id: str) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of a run that still exist, oldest first."""
    known: tuple[Checkpoint, ...] = ()
    for event in reader.checkpoints(run_id, EVENTS):
        known = after_event(
            known,
            event.kind,
            event.step,
            event.data,
            most=MOST,
            time_ns=event.time_ns,
            attempt=event.writer.attempt_no,
            rank=event.writer.rank,
        )
    return known


def last_good_of(reader: StoreReader, run_id: str, onset_step: int | None) -> LastGood:
    """Return the last good checkpoint of a run before a step, or of its last healthy time."""
    return last_good_checkpoint(checkpoints_of(reader, run_id), onset_step, _troubles(reader, run_id))


def _troubles(reader: StoreReader, run_id: str) -> list[Trouble]:
    alerts = reader.alerts(run_id, list(AlertState), [Severity.CRITICAL], MOST_ALERTS)
    return troubles_of(stored.alert for stored in alerts)
