"""``POST /backtest``: what a rule with other settings would have said of stored runs."""

from __future__ import annotations

import threading
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.api.permission import PROBLEMS, Reader
from tocsin_server.api.query import known_run
from tocsin_server.backtest import Backtest, Bounds
from tocsin_server.detect.backtest import Tested, settings_of, summary_of
from tocsin_server.detect.changes import SettingError
from tocsin_server.responses import ExactJSON, Problem
from tocsin_server.services import services_of
from tocsin_server.store.answers import RunFacts
from tocsin_server.store.reader import StoreReader

router = APIRouter(tags=["rules"], responses=PROBLEMS)

MOST_RUNS = 50
BOUNDS = Bounds(records=1_000_000, seconds=30.0)
"""Of one request; ``tocsin-server backtest`` goes further."""
_turn = threading.Lock()
"""One backtest at a time: judging takes a core, and trainers' records come first."""


class BacktestOrder(BaseModel):
    """A rule, settings other than its defaults, and over which runs: some, or a project's newest ones."""

    model_config = ConfigDict(extra="forbid")

    rule: str
    settings: Annotated[dict[str, float | int | str], Field(max_length=100)] = {}
    runs: Annotated[list[str], Field(max_length=MOST_RUNS)] = []
    project: str | None = None


class FiringRow(TypedDict):
    """Where the rule would have fired; ``healthy``: no other rule had or came to have an alert there."""

    severity: str
    subject: str
    onset_step: int | None
    step: int | None
    resolved_step: int | None
    summary: str
    cause: str
    healthy: bool


class TestedRow(TypedDict):
    """One run under test."""

    run: str
    steps: int
    healthy_steps: int
    alerts_left_out: int
    cut: str
    firings: list[FiringRow]


class BacktestAnswer(TypedDict):
    """What the rule would have said."""

    rule: str
    settings: dict[str, float]
    steps: int
    healthy_steps: int
    firings: int
    alarms_per_1000_healthy_steps: dict[str, float | None]
    runs: list[TestedRow]


@router.post("/backtest", response_model=BacktestAnswer)
def backtest(request: Request, order: BacktestOrder, _identity: Reader) -> ExactJSON:
    """Judges stored runs once more, off the record path; nothing is stored, nobody is notified."""
    reader = services_of(request).reader
    try:
        test = Backtest(order.rule, settings_of(order.rule, order.settings), BOUNDS)
        tested = _tested(test, reader, _runs(reader, order))
    except SettingError as error:
        raise Problem(422, subject=error.subject, expected=error.expected, got=error.got) from error
    return ExactJSON(summary_of(test.rule, test.settings, tested))


def _runs(reader: StoreReader, order: BacktestOrder) -> list[RunFacts]:
    if bool(order.runs) == (order.project is not None):
        raise Problem(422, subject="body", expected="either runs or a project", got="both or neither")
    if order.project is None:
        return [known_run(reader, run_id) for run_id in order.runs]
    found = [run for run in reader.runs() if run.project == order.project][:MOST_RUNS]
    if not found:
        raise Problem(404, subject="project", expected="one with runs", got=order.project)
    return found


def _tested(test: Backtest, reader: StoreReader, runs: list[RunFacts]) -> list[Tested]:
    if not _turn.acquire(blocking=False):
        raise Problem(429, subject="backtest", expected="one at a time", got="another one under way")
    try:
        return [test.of_run(reader, facts) for facts in runs]
    finally:
        _turn.release()
