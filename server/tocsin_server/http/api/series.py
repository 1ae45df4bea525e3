"""``GET /runs/{id}/series``: the data of a chart, exact in a small window, else aggregated into buckets."""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Any, Literal, NotRequired

from fastapi import Query
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import WHOLE, Names, Real, names_of
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.shapes import Packed, row_of
from tocsin_server.http.services import services_of
from tocsin_server.store.results import SeriesAnswer, SeriesLayer
from tocsin_server.store.run_rows import is_there

router = resource("series")

VITAL_SIGNS = ["loss", "grad_norm", "scale", "lr"]
FEWEST, MOST = 50, 8192
WITHOUT = "A column of buckets to leave out; charts of lines do not need the first value."


class Layer(TypedDict):
    """One series of one attempt and rank.

    ``min``, ``max``, ``mean``, ``last`` exist only if not exact; ``first`` holds the exact values.
    """

    attempt: int
    rank: int
    x: Packed
    x1: Packed
    t: Packed
    first: NotRequired[Packed]
    n: Packed
    nan: Packed
    pinf: Packed
    ninf: Packed
    exact: bool
    min: NotRequired[Packed]
    max: NotRequired[Packed]
    mean: NotRequired[Packed]
    last: NotRequired[Packed]


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
    without: Annotated[Literal["first"] | None, Query(description=WITHOUT)] = None,
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
    if without:
        for layer in chain.from_iterable(reply["series"].values()):
            if not layer["exact"]:
                del layer[without]
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
