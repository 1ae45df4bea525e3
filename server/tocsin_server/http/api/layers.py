"""``GET /runs/{id}/layers``: gradient norms by layer and step, for a heat map."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Query
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.models import RunEvent
from tocsin_server.core.responses import ExactJSON
from tocsin_server.detect.interface.layers import NAMES, norms_of
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import WHOLE, First, Last, known_run
from tocsin_server.http.api.resource import resource
from tocsin_server.http.services import services_of

router = resource("layers")

MOST = 512
NO_GRADIENT = -1.0


class Matrix(TypedDict):
    """A float32 matrix in Plotly's format: rows are layers, columns are steps."""

    dtype: Literal["f4"]
    bdata: str
    shape: str


class LayersAnswer(TypedDict):
    """One column for each of ``steps``, one row for each of ``layers``; -1 means no gradient."""

    run: str
    series: str
    layers: list[str]
    parameters: list[int]
    steps: list[int]
    attempts: list[int]
    ranks: list[int]
    why: list[str]
    source: list[str]
    norms: Matrix
    all_series: list[str]
    truncated: bool


Named = dict[tuple[int, str, int], RunEvent]


@router.get("/runs/{run_id:path}/layers", response_model=LayersAnswer)
def layers(
    request: Request,
    run_id: str,
    _identity: Reader,
    start: First = None,
    stop: Last = None,
    series: Annotated[str, Query(description="Optimizer; empty: the primary.")] = "",
    limit: Annotated[int, Query(ge=1, le=MOST, description="Newest vectors at most."), WHOLE] = MOST,
) -> ExactJSON:
    """Return the gradient norms of layers between two steps, in order of step."""
    reader = services_of(request).reader
    events = reader.layers(run_id, start=start, stop=stop, limit=MOST + 1)
    if not events:
        known_run(reader, run_id)
    return ExactJSON({"run": run_id, **matrix(events, series, limit)})


def matrix(events: Iterable[RunEvent], series: str, limit: int) -> dict[str, Any]:
    """Build the response from the events of a run; vectors that do not match their names are left out."""
    named: Named = {}
    vectors: list[tuple[RunEvent, tuple[float, ...], RunEvent]] = []
    reported: set[str] = set()
    for event in events:
        key = (event.writer.writer_no, str(event.data.get("series", "")), _table(event))
        if event.kind == NAMES:
            named[key] = event
            continue
        reported.add(key[1])
        norms, names = norms_of(event.data.get("norms")), named.get(key)
        if key[1] == series and norms and names is not None and len(norms) == len(_names(names)):
            vectors.append((event, norms, names))
    shown = sorted(vectors[-limit:], key=lambda one: (one[0].step or 0, one[0].arrival))
    return {
        **_drawn(shown),
        "series": series,
        "all_series": sorted(reported),
        "truncated": len(vectors) > limit,
    }


def _drawn(shown: list[tuple[RunEvent, tuple[float, ...], RunEvent]]) -> dict[str, Any]:
    rows: dict[str, int] = {}
    for _, _, names in shown:
        for name, parameters in zip(_names(names), _parameters(names), strict=True):
            rows.setdefault(name, parameters)
    place = {name: row for row, name in enumerate(rows)}
    values = np.full((len(rows), len(shown)), NO_GRADIENT, "<f4")
    for column, (_, norms, names) in enumerate(shown):
        values[[place[name] for name in _names(names)], column] = np.array(norms, "<f4")
    events = [event for event, _, _ in shown]
    return {
        "layers": list(rows),
        "parameters": list(rows.values()),
        "steps": [event.step or 0 for event in events],
        "attempts": [event.writer.attempt_no for event in events],
        "ranks": [event.writer.rank for event in events],
        "why": [str(event.data.get("why", "")) for event in events],
        "source": [str(event.data.get("source", "")) for event in events],
        "norms": {
            "dtype": "f4",
            "bdata": base64.b64encode(values.tobytes()).decode("ascii"),
            "shape": f"{len(rows)},{len(shown)}",
        },
    }


def _table(event: RunEvent) -> int:
    table = event.data.get("table")
    return table if isinstance(table, int) else 0


def _names(event: RunEvent) -> list[str]:
    names = event.data.get("names")
    return [str(name) for name in names] if isinstance(names, list) else []


def _parameters(event: RunEvent) -> list[int]:
    """Return the number of parameters of each layer; 1 if unknown."""
    counts, names = event.data.get("parameters"), _names(event)
    fits = isinstance(counts, list) and len(counts) == len(names) and all(isinstance(n, int) for n in counts)
    return list(counts) if fits else [1] * len(names)  # type: ignore[arg-type]
