"""``GET /runs/{id}/checkpoints``: the checkpoints of a run, and the last one that is good to resume from."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.checkpoints import Checkpoint, last_good_checkpoint, problem_of
from tocsin_server.core.responses import ExactJSON
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import Step, known_run
from tocsin_server.http.api.resource import resource
from tocsin_server.http.services import services_of
from tocsin_server.store.checkpoints import checkpoints_of, troubles_of_run

router = resource("checkpoints")


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
    troubles = troubles_of_run(reader, run_id)
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
