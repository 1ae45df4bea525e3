"""``GET /runs`` and ``GET /runs/{id}``: the fleet, and one run with all its facts."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Query
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.api.permission import PROBLEMS, Reader
from tocsin_server.api.query import known_run
from tocsin_server.api.shapes import RunRow, SeriesRow
from tocsin_server.domain import RunState
from tocsin_server.responses import ExactJSON, Problem
from tocsin_server.services import Services, services_of
from tocsin_server.store.answers import AttemptFacts, RunFacts, SeriesFacts, WriterFacts

router = APIRouter(tags=["runs"], responses=PROBLEMS)

MOST = 5000


class RunList(TypedDict):
    """Runs, newest first; ``next`` is the cursor for ``after``, null at the end."""

    items: list[RunRow]
    next: str | None
    now_ms: float


class AttemptRow(TypedDict):
    """One launch of a run."""

    attempt: int
    started_ms: float
    first_step: int | None
    last_step: int | None


class WriterRow(TypedDict):
    """One process of an attempt and how much of it is durable."""

    writer: int
    attempt: int
    rank: int
    host: str
    pid: int
    records: int
    events: int
    connected: bool


class RunDetail(RunRow):
    """A run with its configuration, facts, series, attempts and processes."""

    config: Any
    notes: str
    facts: dict[str, Any]
    series: list[SeriesRow]
    attempts_list: list[AttemptRow]
    writers: list[WriterRow]


@router.get("/runs", response_model=RunList)
async def list_runs(
    request: Request,
    _identity: Reader,
    project: str | None = None,
    state: RunState | None = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 1000,
    after: Annotated[str | None, Query(description="The id of the last run already seen.")] = None,
) -> ExactJSON:
    """The fleet's rows, newest run first."""
    services = services_of(request)
    facts = await anyio.to_thread.run_sync(services.reader.runs)
    live = {row["id"]: row for row in services.pipeline.rows()}
    chosen = [run for run in facts if _fits(run, live, project, state)]
    chosen.sort(key=lambda run: (run.created_ns, run.id), reverse=True)
    chosen = _after(chosen, after)
    rows = [live.get(run.id) or await services.pipeline.row(run.id) for run in chosen[:limit]]
    more = chosen[limit - 1].id if len(chosen) > limit else None
    return ExactJSON({"items": [row for row in rows if row], "next": more, "now_ms": time.time() * 1000})


def _fits(
    run: RunFacts, live: dict[str, dict[str, Any]], project: str | None, state: RunState | None
) -> bool:
    now = live[run.id]["state"] if run.id in live else run.state.value
    return project in (None, run.project) and (state is None or now == state.value)


def _after(runs: list[RunFacts], after: str | None) -> list[RunFacts]:
    """The runs behind the one that was seen last. Raises a 404 Problem where there is no such run."""
    if after is None:
        return runs
    for place, run in enumerate(runs):
        if run.id == after:
            return runs[place + 1 :]
    raise Problem(404, subject="after", expected="the id of a run in this list", got=after)


@router.get("/runs/{run_id:path}", response_model=RunDetail)
async def one_run(request: Request, run_id: str, _identity: Reader) -> ExactJSON:
    """One run: its row, configuration, facts, series, attempts and processes."""
    services = services_of(request)
    facts = await anyio.to_thread.run_sync(known_run, services.reader, run_id)
    row = await services.pipeline.row(run_id)
    if row is None:
        raise Problem(404, subject="run", expected="the id of a run", got=run_id)
    return ExactJSON(row | details(services, facts))


def details(services: Services, facts: RunFacts) -> dict[str, Any]:
    """What a run's page shows besides its row."""
    connected = _connected(services, facts.id)
    return {
        "config": facts.config,
        "notes": facts.notes,
        "facts": facts.facts,
        "series": [_series(series) for series in facts.series],
        "attempts_list": [_attempt(attempt) for attempt in facts.attempts_list],
        "writers": [_writer(writer, connected) for writer in facts.writers],
    }


def _connected(services: Services, run_id: str) -> set[int]:
    """Numbers of the run's writers that are connected now."""
    run = services.pipeline.roster.active.get(run_id)
    return {no for no, state in run.writers.items() if state.connections > 0} if run else set()


def _series(series: SeriesFacts) -> dict[str, Any]:
    return {
        "name": series.name,
        "n": series.n,
        "first_step": series.first_step,
        "last_step": series.last_step,
        "last": series.last,
    }


def _attempt(attempt: AttemptFacts) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt,
        "started_ms": attempt.started_ns / 1e6,
        "first_step": attempt.first_step,
        "last_step": attempt.last_step,
    }


def _writer(facts: WriterFacts, connected: Iterable[int]) -> dict[str, Any]:
    return {
        "writer": facts.writer.writer_no,
        "attempt": facts.writer.attempt_no,
        "rank": facts.writer.rank,
        "host": facts.host,
        "pid": facts.pid,
        "records": facts.records,
        "events": facts.events,
        "connected": facts.writer.writer_no in connected,
    }
