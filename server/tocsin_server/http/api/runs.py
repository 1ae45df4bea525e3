"""``GET /runs`` and ``GET /runs/{id}``: the fleet, and one run with all its details."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import anyio.to_thread
from fastapi import Query
from pydantic import StringConstraints
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from tocsin_server.core import exact_json
from tocsin_server.core.models import RunState
from tocsin_server.core.responses import ExactJSON, Problem, shortened
from tocsin_server.http.api.description import failing
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import WHOLE, Flag, known_run
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.shapes import RunRow, SeriesRow, row_of
from tocsin_server.http.services import Services, services_of
from tocsin_server.runs.run_summary import RunSummary
from tocsin_server.store.metric_summaries import LONGEST_MEAN, MetricSummary
from tocsin_server.store.results import StoredRun, StoredWriter
from tocsin_server.store.run_rows import ListedRun, listed

router = resource("runs")

MOST = 5000
MOST_NAMED = 200
MOST_METRICS = 20
"""Series in one request for the rows of runs."""
MOST_SUMMARIZED = 500
"""Runs in a page with metrics, which are read from their records."""
MeanOf = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,3}:.")]
"""How many of the newest values of a series, and its name."""
Sparks = Annotated[Flag, Query(description="False leaves the sparklines out.")]


class RunList(TypedDict):
    """Runs, newest first; ``next`` is the cursor for ``after``, null at the end.

    ``cursor`` is for a subscription to the fleet, which then sends only the rows that changed since.
    """

    items: list[RunRow]
    next: str | None
    now_ms: float
    cursor: str


class AttemptRow(TypedDict):
    """One attempt of a run."""

    attempt: int
    started_ms: float
    first_step: int | None
    last_step: int | None


class WriterRow(TypedDict):
    """One process of an attempt, and its durable progress."""

    writer: int
    attempt: int
    rank: int
    host: str
    pid: int
    records: int
    events: int
    connected: bool


class RunDetail(RunRow):
    """A run with its configuration, environment, series, attempts and processes."""

    config: Any
    notes: str
    environment: dict[str, Any]
    series: list[SeriesRow]
    attempts_list: list[AttemptRow]
    writers: list[WriterRow]


@router.get("/runs", response_model=RunList, responses=failing(404))
async def list_runs(
    request: Request,
    _identity: Reader,
    project: str | None = None,
    state: RunState | None = None,
    limit: Annotated[int, Query(ge=1, le=MOST), WHOLE] = 1000,
    after: Annotated[str | None, Query(description="The id of the last run already seen.")] = None,
    sparks: Sparks = True,
    ids: Annotated[list[str] | None, Query(description="Only these runs.", max_length=MOST_NAMED)] = None,
    metrics: Annotated[
        list[str] | None,
        Query(
            description="Add the newest, lowest and highest value of these series, one name per parameter. "
            f"A page has at most {MOST_SUMMARIZED} runs then.",
            max_length=MOST_METRICS,
        ),
    ] = None,
    means: Annotated[
        list[MeanOf] | None,
        Query(
            description="Add a mean of the newest values of a series to its entry in `metrics`: "
            f"`10:val_loss` is the mean of the newest 10; at most {LONGEST_MEAN:,}.",
            max_length=2 * MOST_METRICS,
        ),
    ] = None,
) -> Response:
    """List the runs, newest first."""
    services = services_of(request)
    cursor = services.live.changes.cursor()  # before the rows are read, so that no change is missed
    averaged = _averaged(means or [])
    names = list(dict.fromkeys([*(metrics or []), *averaged]))
    limit = min(limit, MOST_SUMMARIZED) if names else limit
    some = {"project": project, "ids": ids, "after": after}
    if state is None:
        chosen = await anyio.to_thread.run_sync(_listed, services, some | {"limit": limit + 1})
    else:
        live = {summary.metadata.id: summary for summary in services.pipeline.registry.newest_first()}
        chosen = await anyio.to_thread.run_sync(_listed, services, some)
        chosen = [one for one in chosen if _state(one, live) == state]
    measured = await anyio.to_thread.run_sync(_measured, services, chosen[:limit], names, averaged)
    summaries = await services.pipeline.registry.find_all([one.id for one in chosen[:limit]])
    now_ns, rows = services.pipeline.clock(), []
    for one in chosen[:limit]:
        with services.pipeline.jobs.round("rows").isolated(f"run {one.id}"):
            if one.id in summaries:
                row = summaries[one.id].json(now_ns, sparks=sparks)
                rows.append(f'{row[:-1]},"metrics":{measured[one.id]}}}' if names else row)
    more = chosen[limit - 1].id if len(chosen) > limit else None
    tail = exact_json.dumps({"next": more, "now_ms": time.time() * 1000, "cursor": cursor})
    return Written(f'{{"items":[{",".join(rows)}],{tail[1:]}')


def _listed(services: Services, some: Mapping[str, Any]) -> list[ListedRun]:
    try:
        with services.database.reader.connect() as connection:
            return listed(connection, **some)
    except LookupError:
        after = some["after"]
        detail = f"after: run {shortened(after)} is no longer in this list. Start again without after."
        raise Problem(
            404, subject="after", expected="the id of a run in this list", got=after, detail=detail
        ) from None


def _averaged(means: list[str]) -> dict[str, set[int]]:
    """Return the numbers of newest values whose means are requested, by series."""
    found: dict[str, set[int]] = {}
    for text in means:
        count, _, name = text.partition(":")
        if int(count) > LONGEST_MEAN:
            raise Problem(422, subject="means", expected=f"a mean of at most {LONGEST_MEAN} values", got=text)
        found.setdefault(name, set()).add(int(count))
    return found


def _measured(
    services: Services, chosen: list[ListedRun], names: list[str], averaged: dict[str, set[int]]
) -> dict[str, str]:
    """Return the metrics of each run as JSON text."""
    if not names:
        return {}
    found = services.reader.metric_summaries([one.id for one in chosen], names, averaged)
    return {
        run_id: exact_json.dumps({name: _summary(summary) for name, summary in of_run.items()})
        for run_id, of_run in found.items()
    }


def _summary(summary: MetricSummary) -> dict[str, Any]:
    row = summary._asdict()
    if summary.means is None:
        del row["means"]
    return row


class Written(ExactJSON):
    """A response whose body is JSON text already, so that cached sparklines are not encoded again."""

    def render(self, content: str) -> bytes:
        return content.encode("utf-8", "replace")


def _state(one: ListedRun, live: dict[str, RunSummary]) -> RunState:
    return live[one.id].metadata.state if one.id in live else one.state


@router.get("/runs/{run_id:path}", response_model=RunDetail)
async def one_run(request: Request, run_id: str, _identity: Reader, sparks: Sparks = True) -> ExactJSON:
    """Return one run: its row, configuration, environment, series, attempts and processes."""
    services = services_of(request)
    stored = await anyio.to_thread.run_sync(known_run, services.reader, run_id)
    summary = await services.pipeline.registry.find(run_id)
    if summary is None:
        raise Problem(404, subject="run", expected="the id of a run", got=run_id)
    row = summary.row(services.pipeline.clock(), sparks=sparks)
    return ExactJSON(row | details(services, stored))


def details(services: Services, stored: StoredRun) -> dict[str, Any]:
    """Return what the page of a run shows besides its row."""
    connected = _connected(services, stored.id)
    return {
        "config": stored.config,
        "notes": stored.notes,
        "environment": stored.environment,
        "series": [row_of(SeriesRow, series) for series in stored.series],
        "attempts_list": [row_of(AttemptRow, attempt) for attempt in stored.attempts_list],
        "writers": [_writer(writer, connected) for writer in stored.writers],
    }


def _connected(services: Services, run_id: str) -> set[int]:
    """Return the numbers of the run's connected writers."""
    run = services.pipeline.registry.active.get(run_id)
    return {no for no, state in run.writers.items() if state.connections > 0} if run else set()


def _writer(stored: StoredWriter, connected: Iterable[int]) -> dict[str, Any]:
    return row_of(
        WriterRow,
        stored,
        writer=stored.writer.writer_no,
        attempt=stored.writer.attempt_no,
        rank=stored.writer.rank,
        connected=stored.writer.writer_no in connected,
    )
