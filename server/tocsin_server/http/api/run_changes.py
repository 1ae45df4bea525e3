"""``/runs/{id}/changes`` and ``/incidents/{id}/changes``: what differs from healthy attempts and runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.core.run_changes import Category, Change
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import known_run
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import services_of
from tocsin_server.runs.run_comparison import Comparison, RunChanges, changes_of
from tocsin_server.runs.run_comparison import changes_of_incident as compare_incident

router = resource("changes")

MOST = 100
"""Maximum number of changes of one comparison that are returned."""


class ChangeRow(TypedDict):
    """A setting that differs. ``before`` or ``after`` is null if the setting does not exist there.

    ``only_failing``: it differs in all failing runs of the project and in no healthy one. ``text`` says in
    how many runs it has its new value, "" if there are too few runs.
    """

    category: Category
    name: str
    before: str | None
    after: str | None
    only_failing: bool
    text: str


class ComparisonRow(TypedDict):
    """A comparison with an earlier attempt of the run or with another run; ``text`` says why that one.

    ``changes``: up to 100 of ``count``, the most likely explanation first. ``not_recorded``: what at least
    one of the two did not report.
    """

    kind: Literal["attempt", "run"]
    run_id: str
    run_name: str
    attempt: int | None
    text: str
    count: int
    changes: list[ChangeRow]
    not_recorded: list[str]


class RunChangesAnswer(TypedDict):
    """What differs from the last healthy attempt, then from the most similar healthy run of the project.

    ``attempt``: the attempt that is compared. ``failing`` and ``healthy``: the number of runs of the project
    over which settings were counted. ``diff``: uncommitted changes, if the training process sends them.
    """

    run_id: str
    attempt: int
    failing: int
    healthy: int
    comparisons: list[ComparisonRow]
    diff: str


@router.get("/runs/{run_id:path}/changes", response_model=RunChangesAnswer)
def changes_of_run(
    request: Request,
    run_id: str,
    _identity: Reader,
    attempt: Annotated[
        int | None, Query(description="Compare with this attempt of the run instead, healthy or not.")
    ] = None,
) -> ExactJSON:
    """Compare the newest attempt of a run with the last healthy attempt and the most similar healthy run."""
    services = services_of(request)
    stored = known_run(services.reader, run_id)
    if attempt not in (None, *(each.attempt for each in stored.attempts_list)):
        raise Problem(404, subject="attempt", expected="an attempt of this run", got=str(attempt))
    with services.reader.consistent() as connection:
        return _answer(run_id, changes_of(connection, stored, earlier=attempt))


@router.get("/incidents/{incident_id:path}/changes", response_model=RunChangesAnswer)
def changes_of_incident(request: Request, incident_id: str, _identity: Reader) -> ExactJSON:
    """Compare the attempt of an incident with the last healthy attempt and the most similar healthy run.

    All critical alerts and all alerts of the incident's rules count as a failure.
    """
    services = services_of(request)
    found = services.reader.incident(incident_id)
    if found is None:
        raise Problem(404, subject="incident", expected="the id of an incident", got=incident_id)
    stored = known_run(services.reader, found.incident.lead.run_id)
    with services.reader.consistent() as connection:
        return _answer(stored.id, compare_incident(connection, stored, found.incident))


def _answer(run_id: str, changes: RunChanges) -> ExactJSON:
    comparisons = [_comparison(each) for each in changes.comparisons]
    return ExactJSON(row_of(RunChangesAnswer, changes, run_id=run_id, comparisons=comparisons))


def _comparison(found: Comparison) -> dict[str, Any]:
    reference = found.reference
    return row_of(
        ComparisonRow,
        reference,
        kind="run" if reference.attempt is None else "attempt",
        count=len(found.changes),
        changes=[_change(each) for each in found.changes[:MOST]],
        not_recorded=found.not_recorded,
    )


def _change(change: Change) -> dict[str, Any]:
    before, after = change.shown
    counts = change.counts
    return row_of(
        ChangeRow,
        change,
        before=before,
        after=after,
        only_failing=counts is not None and counts.only_failing,
        text="" if counts is None else counts.text,
    )
