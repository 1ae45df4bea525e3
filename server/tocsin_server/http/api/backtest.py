"""``POST /backtest``: evaluate a rule with other settings, or a draft rule, on stored runs."""

from __future__ import annotations

import threading
from typing import Annotated, Any, NotRequired

from pydantic import Field
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.models import Severity
from tocsin_server.core.responses import ExactJSON, Problem, shortened
from tocsin_server.detect.custom import glob, threshold
from tocsin_server.detect.custom.settings_changes import SettingError
from tocsin_server.http.api.description import failing
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import known_run
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.rules import checked
from tocsin_server.http.services import services_of
from tocsin_server.offline.backtest import Backtest, Bounds
from tocsin_server.offline.backtest_score import Tested, settings_of, summary_of
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import StoredRun

router = resource("rules")

MOST_RUNS = 50
BOUNDS = Bounds(records=1_000_000, seconds=30.0)
"""Limits per request; ``tocsin-server backtest`` allows more."""
DRAFT_BOUNDS = Bounds(records=1_000_000, seconds=10.0)
"""Limits for a draft, because a user waits for the result."""
MOST_SERIES = 8
"""Maximum series of a run in the answer, for charts."""
_turn = threading.Lock()
"""One backtest at a time, because it takes a CPU core and incoming records have priority."""


class BacktestRequest(Body):
    """A built-in rule with settings, or a ``draft`` of a custom rule, and the runs to test: given ones, or
    the newest of a project. A draft without either is tested on the runs that it applies to.
    """

    rule: str | None = None
    settings: dict[str, float | int | str] = Field({}, max_length=100)
    draft: dict[str, Any] | None = None
    runs: list[str] = Field([], max_length=MOST_RUNS)
    project: str | None = None
    most: Annotated[int, Field(ge=1, le=MOST_RUNS, description="Of a project's runs, or of all.")] = MOST_RUNS


class FiringRow(TypedDict):
    """An alert that the rule would have fired; ``healthy``: no other rule ever had an alert there."""

    severity: Severity
    subject: str
    onset_step: int | None
    step: int | None
    resolved_step: int | None
    summary: str
    cause: str
    healthy: bool


class TestedRow(TypedDict):
    """One tested run; for a draft also its name and up to eight of the watched series."""

    run: str
    name: NotRequired[str]
    project: NotRequired[str]
    series: NotRequired[list[str]]
    steps: int
    healthy_steps: int
    alerts_left_out: int
    cut: str
    firings: list[FiringRow]


class BacktestAnswer(TypedDict):
    """The result of a backtest."""

    rule: str
    settings: dict[str, Any]
    steps: int
    healthy_steps: int
    firings: int
    alarms_per_1000_healthy_steps: dict[str, float | None]
    runs: list[TestedRow]


@router.post("/rules/backtest", response_model=BacktestAnswer, include_in_schema=False)
@router.post("/backtest", response_model=BacktestAnswer, responses=failing(404, 429))
def backtest(request: Request, order: BacktestRequest, _identity: Reader) -> ExactJSON:
    """Evaluate a rule on stored runs. Nothing is stored, and no notification is sent."""
    reader = services_of(request).reader
    if (order.rule is None) == (order.draft is None):
        detail = "Pass either rule or draft, not both."
        raise Problem(
            422, subject="body", expected="either rule or draft", got="both or neither", detail=detail
        )
    if order.draft is not None:
        return ExactJSON(_tried(reader, order, order.draft))
    try:
        test = Backtest(str(order.rule), settings_of(str(order.rule), order.settings), BOUNDS)
        tested = _tested(test, reader, _runs(reader, order))
    except SettingError as error:
        raise Problem(422, subject=error.subject, expected=error.expected, got=error.got) from error
    return ExactJSON(summary_of(test.rule, test.settings, tested))


def _tried(reader: StoreReader, order: BacktestRequest, draft: dict[str, Any]) -> dict[str, Any]:
    """Evaluate a draft on stored runs; return a summary with the data to draw each run."""
    rule = checked({"id": "draft", **draft})
    test, runs = Backtest(rule.id, bounds=DRAFT_BOUNDS, draft=rule), _runs_for(reader, order, rule)
    known = [reader.run(stored.id) or stored for stored in runs]
    tested = _tested(test, reader, known)
    summary = summary_of(rule.id, test.settings, tested) | {"settings": threshold.plain(rule)}
    for row, stored in zip(summary["runs"], known, strict=True):
        row |= {"name": stored.name, "project": stored.project, "series": _series_of(rule, stored)}
    return summary


def _series_of(rule: threshold.CustomRule, stored: StoredRun) -> list[str]:
    """Return the first few series of a run that the rule watches."""
    return sorted(series.name for series in stored.series if glob.matches(rule.series, series.name))[
        :MOST_SERIES
    ]


def _runs_for(reader: StoreReader, order: BacktestRequest, rule: threshold.CustomRule) -> list[StoredRun]:
    if order.runs or order.project is not None:
        return _runs(reader, order)
    meant = (run for run in reader.runs() if rule.concerns(run.project, (run.name, run.id), tuple(run.tags)))
    return [run for run in meant if not run.archived][: order.most]


def _runs(reader: StoreReader, order: BacktestRequest) -> list[StoredRun]:
    if bool(order.runs) == (order.project is not None):
        detail = "Pass either runs or a project, not both."
        raise Problem(
            422, subject="body", expected="either runs or a project", got="both or neither", detail=detail
        )
    if order.project is None:
        return [known_run(reader, run_id) for run_id in order.runs]
    found = [run for run in reader.runs() if run.project == order.project][: order.most]
    if not found:
        detail = f"There are no runs in project {shortened(order.project)}."
        raise Problem(404, subject="project", expected="one with runs", got=order.project, detail=detail)
    return found


def _tested(test: Backtest, reader: StoreReader, runs: list[StoredRun]) -> list[Tested]:
    if not _turn.acquire(blocking=False):
        detail = "Another backtest is running. Try again when it has finished."
        raise Problem(429, subject="backtest", expected="one at a time", got="another one", detail=detail)
    try:
        return [test.of_run(reader, stored) for stored in runs]
    finally:
        _turn.release()
