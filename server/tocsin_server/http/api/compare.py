"""``POST /compare``: details, alerts and series of many runs, streamed in one response."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any, NotRequired

import anyio.to_thread
from pydantic import Field, StringConstraints
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from typing_extensions import TypedDict

from tocsin_server.core import exact_json
from tocsin_server.core.errors import DamagedError
from tocsin_server.core.models import RunState
from tocsin_server.core.responses import Problem, shortened
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import LARGEST
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.series import FEWEST, MOST
from tocsin_server.http.api.shapes import Packed
from tocsin_server.http.services import Services, services_of
from tocsin_server.store.compared_runs import AlertLine, ComparedRun, read_compared, read_compared_alerts
from tocsin_server.store.results import SeriesAnswer, SeriesLayer
from tocsin_server.store.series_window import ManySeries, Window

router = resource("series")

MOST_RUNS = 1000
MOST_NAMES = 64
MOST_VALUES = 1 << 23
"""Runs x series x buckets of one request; bounds its time."""
AT_ONCE = 25
"""Runs that are read in one transaction and held in memory."""
AT_ONCE_VALUES = 1 << 19
"""Runs x series x buckets that are held in memory, at most 40 MB."""
FIRST = 10
"""Runs in the first part, so that a page draws early."""

Id = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Real = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]


class RunWindow(Body):
    """A run and the steps to return; null for all. ``log_from``: as in `GET /runs/{id}/series`."""

    id: Id
    start: Annotated[Real | None, Field(alias="from")] = None
    stop: Annotated[Real | None, Field(alias="to")] = None
    log_from: Real | None = None


class CompareQuery(Body):
    """``names``: series to return. ``details``: whether to return name, config, alerts and series names."""

    runs: Annotated[list[RunWindow], Field(min_length=1, max_length=MOST_RUNS)]
    names: Annotated[list[str], Field(default_factory=list, max_length=MOST_NAMES)]
    buckets: Annotated[int, Field(ge=FEWEST, le=MOST)] = 400
    details: bool = True


class Failure(TypedDict):
    """Why a run is not returned: 404 if it does not exist, 500 if its records are damaged."""

    status: int
    detail: str


class Grid(TypedDict):
    """What layers of one process share: attempt, rank and positions.

    If ``exact``, each item is one record. Else each is a bucket, ``x1`` is its last step and ``n`` its number
    of values.
    """

    attempt: int
    rank: int
    exact: bool
    x: Packed
    t: Packed
    x1: NotRequired[Packed]
    n: NotRequired[Packed]


class GridLayer(TypedDict):
    """One series on a grid: ``first`` has the exact values, or the others aggregate buckets.

    ``nan``, ``pinf`` and ``ninf`` count values; one that is missing is zero everywhere.
    """

    grid: int
    first: NotRequired[Packed]
    min: NotRequired[Packed]
    max: NotRequired[Packed]
    mean: NotRequired[Packed]
    last: NotRequired[Packed]
    nan: NotRequired[Packed]
    pinf: NotRequired[Packed]
    ninf: NotRequired[Packed]


class CompareLine(TypedDict):
    """One run, or why it is missing. ``alerts``: all open ones, and the newest that are over.

    ``series``: the layers of each requested series, newest attempt first.
    """

    id: str
    error: NotRequired[Failure]
    project: NotRequired[str]
    name: NotRequired[str]
    state: NotRequired[RunState]
    tags: NotRequired[list[str]]
    config: NotRequired[Any]
    names: NotRequired[list[str]]
    alerts: NotRequired[list[AlertLine]]
    cursor: NotRequired[int]
    first_step: NotRequired[int | None]
    last_step: NotRequired[int | None]
    grids: NotRequired[list[Grid]]
    series: NotRequired[dict[str, list[GridLayer]]]


class JSONLines(JSONResponse):
    """One JSON value per line. Only for the description: a StreamingResponse has no schema there."""

    media_type = "application/x-ndjson"


@router.post("/compare", response_model=CompareLine, response_class=JSONLines)
async def compare(request: Request, wanted: CompareQuery, _identity: Reader) -> StreamingResponse:
    """Stream one line per run, in the requested order: its details, its alerts and its series.

    Each line is a snapshot. The series are those of `GET /runs/{id}/series`; layers with the same positions
    share them. A run that does not exist has a line with an error.
    """
    values = len(wanted.runs) * len(wanted.names) * wanted.buckets
    if values > MOST_VALUES:
        got = f"{len(wanted.runs)} runs x {len(wanted.names)} series x {wanted.buckets} buckets"
        detail = f"This comparison is too large: {got}. Request fewer: at most {MOST_VALUES} values."
        raise Problem(
            422, subject="compare", expected=f"at most {MOST_VALUES} values", got=got, detail=detail
        )
    services, parts = services_of(request), _parts(wanted)
    first = await _part(services, wanted, next(parts))  # here, so that an error gets its own status

    async def lines() -> AsyncIterator[bytes]:
        yield first
        for part in parts:
            if await request.is_disconnected():
                return
            yield await _part(services, wanted, part)

    return StreamingResponse(lines(), media_type=JSONLines.media_type, headers={"cache-control": "no-store"})


def _parts(wanted: CompareQuery) -> Iterator[Sequence[RunWindow]]:
    """Yield the runs that are read together."""
    most = AT_ONCE_VALUES // max(1, len(wanted.names) * wanted.buckets)
    at_once, begin, size = max(1, min(AT_ONCE, most)), 0, FIRST
    while begin < len(wanted.runs):
        end = begin + min(size, at_once)
        yield wanted.runs[begin:end]
        begin, size = end, at_once


async def _part(services: Services, wanted: CompareQuery, part: Sequence[RunWindow]) -> bytes:
    """Return the lines of some runs; their states come from memory, as in `GET /runs/{id}`."""
    found = [services.pipeline.registry.summary(one.id) for one in part]
    states = {summary.metadata.id: summary.metadata.state for summary in found if summary is not None}
    return await anyio.to_thread.run_sync(_read, services, wanted, part, states)


def _read(
    services: Services, wanted: CompareQuery, part: Sequence[RunWindow], states: dict[str, RunState]
) -> bytes:
    ids = [one.id for one in part]
    with services.reader.consistent() as connection:
        runs = read_compared(connection, ids)
        there = [run_id for run_id in dict.fromkeys(ids) if run_id in runs]
        alerts = read_compared_alerts(connection, there) if wanted.details else {}
        series = ManySeries(connection, there)
        lines = []
        for one in part:
            line: dict[str, Any] = {"id": one.id}
            if one.id not in runs:
                lines.append(line | _failed(404, f"Run not found: {shortened(one.id)}"))
                continue
            if wanted.details:
                state = states.get(one.id, runs[one.id].state)
                line |= _details(runs[one.id], state, series.names(one.id), alerts[one.id])
            try:
                window = Window(one.start, one.stop, "step", one.log_from)
                line |= _series(series.of(one.id, wanted.names, window, wanted.buckets))
            except DamagedError as error:
                line |= _failed(500, f"The records of this run are damaged: {error}")
            lines.append(line)
    return "".join(f"{exact_json.dumps(line)}\n" for line in lines).encode("utf-8", "replace")


def _failed(status: int, detail: str) -> dict[str, Any]:
    return {"error": {"status": status, "detail": detail}}


def _details(
    run: ComparedRun, state: RunState, names: list[str], alerts: Sequence[AlertLine]
) -> dict[str, Any]:
    listed = [asdict(alert) for alert in alerts]
    return run._asdict() | {"state": state, "names": names, "alerts": listed}


def _series(answer: SeriesAnswer) -> dict[str, Any]:
    grids: dict[Any, int] = {}
    written: list[dict[str, Any]] = []
    series: dict[str, list[dict[str, Any]]] = {}
    for name, layers in answer.series.items():
        series[name] = []
        for layer in layers:
            place = (layer.x, layer.t, layer.x1, layer.n)
            key = (layer.writer_no, layer.exact, *(array.tobytes() for array in place))
            if key not in grids:
                grids[key] = len(written)
                written.append(_grid(layer))
            series[name].append({"grid": grids[key]} | _on_grid(layer))
    ends = {"cursor": answer.cursor, "first_step": answer.first_step, "last_step": answer.last_step}
    return ends | {"grids": written, "series": series}


def _grid(layer: SeriesLayer) -> dict[str, Any]:
    own = {"attempt": layer.attempt, "rank": layer.rank, "exact": layer.exact, "x": layer.x, "t": layer.t}
    return own if layer.exact else own | {"x1": layer.x1, "n": layer.n}


def _on_grid(layer: SeriesLayer) -> dict[str, Any]:
    if layer.exact:
        return {"first": layer.first}
    counts = {"nan": layer.nan, "pinf": layer.pinf, "ninf": layer.ninf}
    values = {"min": layer.min, "max": layer.max, "mean": layer.mean, "last": layer.last}
    return values | {name: count for name, count in counts.items() if count.any()}
