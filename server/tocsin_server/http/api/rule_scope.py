"""``GET /rules/scope``: the runs to which a rule would apply, and the series that they have."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.models import RunState
from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.detect.custom import glob
from tocsin_server.detect.custom.threshold import MOST_GLOBS, CustomRule
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import services_of
from tocsin_server.store.incident_rows import incidents_by_run
from tocsin_server.store.metric_summaries import runs_by_series

router = resource("rules")

MOST_RUNS = 200
"""Newest runs of the answer; their series are read."""
MOST_SERIES = 1000
Globs = Annotated[list[str] | None, Query(max_length=MOST_GLOBS)]


class ScopedRun(TypedDict):
    """A run in the scope of a rule; ``incidents`` counts those with a warning or a critical alert."""

    id: str
    name: str
    project: str
    state: RunState
    incidents: int


class ScopedSeries(TypedDict):
    """A series, and in how many of the runs it is."""

    name: str
    runs: int


class RuleScope(TypedDict):
    """The ``total`` of runs in scope, the newest of them, and their series, the most frequent first."""

    total: int
    runs: list[ScopedRun]
    series: list[ScopedSeries]


@router.get("/rules/scope", response_model=RuleScope)
def rule_scope(
    request: Request, _identity: Reader, projects: Globs = None, runs: Globs = None, tags: Globs = None
) -> ExactJSON:
    """List the runs and series in the scope of a rule: globs of projects, runs and tags; none are all."""
    rule = CustomRule("scope", "*", projects=_globs("projects", projects), runs=_globs("runs", runs),
                      tags=_globs("tags", tags))  # fmt: skip
    reader = services_of(request).reader
    meant = [
        run
        for run in reader.runs()
        if not run.archived and rule.concerns(run.project, (run.name, run.id), tuple(run.tags))
    ]
    newest = meant[:MOST_RUNS]
    with reader.consistent() as connection:
        names = runs_by_series(connection, [run.id for run in newest])
        incidents = incidents_by_run(connection, [run.id for run in newest])
    most = sorted(names.items(), key=lambda item: (-item[1], item[0]))[:MOST_SERIES]
    return ExactJSON(
        {
            "total": len(meant),
            "runs": [
                row_of(ScopedRun, run, incidents=incidents.get(run.id, 0))
                for run in newest
            ],
            "series": [{"name": name, "runs": count} for name, count in most],
        }
    )  # fmt: skip


def _globs(field: str, given: list[str] | None) -> tuple[str, ...]:
    for at, pattern in enumerate(given or ()):
        if (expected := glob.problem(pattern)) is not None:
            raise Problem(422, subject=f"{field}[{at}]", expected=expected, got=pattern)
    return tuple(pattern.strip() for pattern in given or ())
