"""``POST /backtest``: evaluate a rule with other settings, or a draft rule, on stored runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Annotated, Any, NotRequired

from pydantic import Field
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.models import Severity
from tocsin_server.core.responses import ExactJSON, Problem, shortened
from tocsin_server.detect.custom import glob, threshold
from tocsin_server.detect.rules.catalog import needs_of
from tocsin_server.http.api.description import failing
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import known_run
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import services_of
from tocsin_server.offline.backtest import Backtest, Bounds
from tocsin_server.offline.backtest_incidents import incident_of, known_incident
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
MOST_INCIDENTS = 50
"""Maximum incidents of a run in the answer, of each state when they are read."""
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
    """An alert that the rule would have fired.

    ``healthy``: no other rule had an alert there. ``incident``: id of the stored incident during which it
    fired, or null.
    """

    severity: Severity
    subject: str
    onset_step: int | None
    step: int | None
    resolved_step: int | None
    summary: str
    cause: str
    healthy: bool
    incident: str | None


class IncidentSpan(TypedDict):
    """A stored incident of the run, with the steps of its alerts; ``end_step`` is null if it never resolved.

    ``own``: only the tested rule has alerts in it.
    """

    id: str
    rule: str
    summary: str
    severity: Severity
    onset_step: int
    end_step: int | None
    own: bool


class TestedRow(TypedDict):
    """One tested run. ``series``: up to eight of the series that the rule checks; empty if the run has none,
    absent if the rule checks no series. ``incidents``: up to 50 of the run, with an alert above info.
    """

    run: str
    name: str
    project: str
    series: NotRequired[list[str]]
    incidents: list[IncidentSpan]
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
    alerts_per_1000_healthy_steps: dict[str, float | None]
    runs: list[TestedRow]


@router.post("/backtest", response_model=BacktestAnswer, responses=failing(404, 429))
def backtest(request: Request, order: BacktestRequest, _identity: Reader) -> ExactJSON:
    """Evaluate a rule on stored runs. Nothing is stored, and no notification is sent."""
    reader = services_of(request).reader
    if (order.rule is None) == (order.draft is None):
        detail = (
            "Pass the id of a built-in rule as rule, or a custom rule as draft."
            if order.rule is None
            else "Pass either rule or draft, not both."
        )
        raise Problem(
            422, subject="body", expected="either rule or draft", got="both or neither", detail=detail
        )
    if order.draft is not None:
        return ExactJSON(_draft_answer(reader, order, order.draft))
    test = Backtest(str(order.rule), settings_of(str(order.rule), order.settings), BOUNDS)
    return ExactJSON(_answer(reader, test, _runs(reader, order), _built_in_series(test.rule)))


def _draft_answer(reader: StoreReader, order: BacktestRequest, draft: dict[str, Any]) -> dict[str, Any]:
    """Evaluate the draft of a custom rule on stored runs."""
    rule = threshold.read_rule({"id": "draft", **draft})
    test = Backtest(rule.id, bounds=DRAFT_BOUNDS, draft=rule)
    runs = _runs_for(reader, order, rule)
    answer = _answer(reader, test, runs, lambda name: glob.matches(rule.series, name))
    return answer | {"settings": threshold.plain(rule)}


def _answer(
    reader: StoreReader, test: Backtest, runs: list[StoredRun], checks: Callable[[str], bool] | None
) -> dict[str, Any]:
    """Evaluate a rule; return the summary with what is needed to draw and judge each run.

    Args:
        reader: The database.
        test: The rule.
        runs: The runs to test.
        checks: Whether the rule checks the series of a name; None if it checks no series.
    """
    known = [reader.run(stored.id) or stored for stored in runs]
    tested = _tested(test, reader, known)
    summary = summary_of(test.rule, test.settings, tested)
    for row, stored, found in zip(summary["runs"], known, tested, strict=True):
        row |= {"name": stored.name, "project": stored.project}
        if checks is not None:
            row["series"] = sorted((each.name for each in stored.series if checks(each.name)), key=_by_depth)[
                :MOST_SERIES
            ]
        _add_incidents(reader, row, found, test.rule)
    return summary


def _by_depth(name: str) -> tuple[int, str]:
    """Order series with fewer parts first: ``loss`` before ``loss/D``."""
    return name.count("/"), name


def _built_in_series(rule: str) -> Callable[[str], bool] | None:
    """Return a test of the names of the series that a built-in rule checks; None if it checks none."""
    needs = tuple(need.rstrip("/") for need in needs_of(rule))
    if not needs or "" in needs:
        return None
    return lambda name: any(name == need or name.startswith(f"{need}/") for need in needs)


def _add_incidents(reader: StoreReader, row: dict[str, Any], tested: Tested, rule: str) -> None:
    """Add the incidents of a run, and to each firing the incident during which it fired."""
    stored = reader.incidents(tested.run, limit=MOST_INCIDENTS)
    spans = (known_incident(each.incident, tested.run) for each in stored)
    known = sorted((each for each in spans if each is not None), key=lambda each: each.onset_step)
    row["incidents"] = [
        row_of(IncidentSpan, each, own=each.rules == {rule}) for each in known[:MOST_INCIDENTS]
    ]
    for firing_row, firing in zip(row["firings"], tested.firings, strict=True):
        found = incident_of(firing, known[:MOST_INCIDENTS])
        firing_row["incident"] = None if found is None else found.id


def _runs_for(reader: StoreReader, order: BacktestRequest, rule: threshold.CustomRule) -> list[StoredRun]:
    if order.runs or order.project is not None:
        return _runs(reader, order)
    meant = (run for run in reader.runs() if rule.concerns(run.project, (run.name, run.id), tuple(run.tags)))
    return [run for run in meant if not run.archived][: order.most]


def _runs(reader: StoreReader, order: BacktestRequest) -> list[StoredRun]:
    if bool(order.runs) == (order.project is not None):
        detail = "Pass either runs or a project, not both." if order.runs else "Pass runs, or a project."
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
