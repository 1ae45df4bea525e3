"""``GET /runs/{id}/series``: the data of a chart, exact in a small window, else aggregated into buckets."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
from fastapi import Query
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.exact_json import packed
from tocsin_server.core.models import F64
from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import WHOLE, Names, Real, names_of
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import services_of
from tocsin_server.store.results import SeriesAnswer, SeriesLayer
from tocsin_server.store.run_rows import is_there

router = resource("series")

VITAL_SIGNS = ["loss", "grad_norm", "scale", "lr"]
FEWEST, MOST = 50, 8192
CHART = "For a chart of lines: buckets lack `first`, and have 32 bits (`f4`) where a chart looks the same."
VISIBLE = 2.0**-12
"""Part of a bucket's range that a chart shows: less than a pixel."""


class Column(TypedDict):
    """An array in Plotly's format: ``bdata`` is base64 of little-endian values, ``f4`` only for a chart."""

    dtype: Literal["f4", "f8"]
    bdata: str


class Layer(TypedDict):
    """One series of one attempt and rank.

    ``min``, ``max``, ``mean``, ``last`` exist only if not exact; ``first`` holds the exact values.
    """

    attempt: int
    rank: int
    x: Column
    x1: Column
    t: Column
    first: NotRequired[Column]
    n: Column
    nan: Column
    pinf: Column
    ninf: Column
    exact: bool
    min: NotRequired[Column]
    max: NotRequired[Column]
    mean: NotRequired[Column]
    last: NotRequired[Column]


class SeriesReply(TypedDict):
    """Layers of each series, newest attempt first. Pass ``cursor`` to the live socket to continue."""

    run: str
    x: str
    level: int
    cursor: int
    first_step: int | None
    last_step: int | None
    series: dict[str, list[Layer]]


@router.get("/runs/{run_id:path}/series", response_model=SeriesReply)
def series(
    request: Request,
    run_id: str,
    _identity: Reader,
    names: Names = None,
    start: Annotated[Real | None, Query(alias="from")] = None,
    stop: Annotated[Real | None, Query(alias="to")] = None,
    buckets: Annotated[int, Query(ge=FEWEST, le=MOST), WHOLE] = 2000,
    x: Literal["step", "time"] = "step",
    log_from: Real | None = None,
    chart: Annotated[bool, Query(description=CHART)] = False,
) -> ExactJSON:
    """Return series of a run between two steps (times in Unix ms if x is time), at most ``buckets`` items.

    With ``log_from``, a step, the buckets are for a logarithmic axis of the distance from it.
    """
    if log_from is not None and x != "step":
        raise Problem(422, subject="log_from", expected="x=step", got=f"x={x}")
    services = services_of(request)
    with services.database.reader.begin() as connection:
        if not is_there(connection, run_id):  # rows of a deleted run may still be in the database
            raise Problem(404, subject="run", expected="the id of a run", got=run_id)
    wanted = names_of(names) or VITAL_SIGNS
    answer = services.reader.series(
        run_id, wanted, start=start, stop=stop, buckets=buckets, x=x, log_from=log_from
    )
    reply = series_reply(answer)
    if chart:
        for layer in chain.from_iterable(reply["series"].values()):
            _shorten(layer)
    return ExactJSON(reply)


def series_reply(answer: SeriesAnswer) -> dict[str, Any]:
    """Return a reader's answer as the API shows it."""
    series = {name: [_layer(layer) for layer in layers] for name, layers in answer.series.items()}
    return row_of(SeriesReply, answer, run=answer.run_id, series=series)


def _layer(layer: SeriesLayer) -> dict[str, Any]:
    fields = ("attempt", "rank", "x", "x1", "t", "first", "n", "nan", "pinf", "ninf", "exact")
    reply = {name: getattr(layer, name) for name in fields}
    if not layer.exact:
        reply |= {"min": layer.min, "max": layer.max, "mean": layer.mean, "last": layer.last}
    return reply


def _shorten(layer: dict[str, Any]) -> None:
    """Leave out of buckets what a chart does not draw."""
    if layer["exact"]:
        return
    del layer["first"]
    visible = (layer["max"] - layer["min"]) * VISIBLE
    for name in ("x", "x1", "n", "nan", "pinf", "ninf"):
        layer[name] = _short(layer[name], np.float64(0))
    for name in ("min", "max", "mean", "last"):
        layer[name] = _short(layer[name], visible)


def _short(values: F64, visible: F64 | np.float64) -> F64 | dict[str, str]:
    """Return ``values`` as float32 if each changes by less than ``visible``, else unchanged."""
    with np.errstate(all="ignore"):
        short = np.asarray(values, dtype=np.float32)
        same = (short == values) | (np.isnan(short) & np.isnan(values)) | (np.abs(short - values) < visible)
        same &= (short == 0) == (values == 0)  # a logarithmic chart marks zeros
    return packed(short, "f4") if same.all() else values
