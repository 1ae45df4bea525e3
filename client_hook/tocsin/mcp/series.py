"""The tool ``read_series``: values of a run, exact in a small window, else in buckets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, field

from .api import Api
from .run_line import Run, find_run
from .text import number, quoted, steps
from .tool import Arguments, Tool
from .values import Bucket, buckets_of, series_of, values_of

MOST_ROWS, FEWEST_ROWS = 200, 50
"""Maximum rows of an answer, and the fewest that the server is asked for (its own limit)."""
MOST_NAMES = 4


class ReadSeries(Arguments):
    """Read values of up to 4 series of a run. A window with few records returns every value; a longer one is
    aggregated into buckets with mean, min, max and last, which lose no spike and no NaN. An answer has at
    most 200 rows: narrow the window by steps to see more detail.
    """

    run: Run
    series: Annotated[
        list[str], Meta(min_length=1, max_length=MOST_NAMES, description="Names; default: loss.")
    ] = field(default_factory=lambda: ["loss"])
    first_step: Annotated[int | None, Meta(description="Default: the first step of the run.")] = None
    last_step: Annotated[int | None, Meta(description="Default: the newest step.")] = None
    points: Annotated[int, Meta(ge=1, description="Rows of each series that you want.")] = FEWEST_ROWS


async def read_series(api: Api, wanted: ReadSeries) -> list[str]:
    """Return tables of values as CSV."""
    run = await find_run(api, wanted.run)
    share = MOST_ROWS // len(wanted.series)
    buckets = min(max(wanted.points, FEWEST_ROWS), share)
    window = {"first_step": wanted.first_step, "last_step": wanted.last_step}
    found = await series_of(api, run["id"], wanted.series, buckets=buckets, **window)
    lines = [f"run {quoted(run['id'])}, which has {steps(found['first_step'], found['last_step'])}."]
    if wanted.points > share:
        lines.append(
            f"You asked for {wanted.points} points of each series. An answer has at most {MOST_ROWS} rows, "
            f"so each series has at most {share}."
        )
    for name in dict.fromkeys(wanted.series):
        layers = found["series"].get(name, [])
        if not layers:
            names = ", ".join(quoted(each["name"], 60) for each in run["series"][:40])
            lines.append(f"Series {quoted(name)} has no values here. Series of the run: {names or 'none'}.")
        lines += _tables(name, layers, share)
    return lines


def _tables(name: str, layers: Sequence[Mapping[str, Any]], most: int) -> Iterable[str]:
    """Yield one table for each attempt and rank, newest attempt first, of at most ``most`` rows together."""
    left = most
    for place, layer in enumerate(layers):
        rows = buckets_of(layer)
        if len(rows) > left:
            yield f"({len(layers) - place} more attempts or ranks left out: narrow the window of steps)"
            return
        left -= len(rows)
        n = int(sum(values_of(layer["n"])))
        kind = "exact" if layer["exact"] else f"{n} values in {len(rows)} buckets"
        yield f"Series {quoted(name)}, attempt {layer['attempt']}, rank {layer['rank']}, {kind}:"
        if layer["exact"]:
            yield "step,value"
            yield from (f"{row.first},{number(row.end)}" for row in rows)
        else:
            yield "steps,mean,min,max,last,NaN,Inf,-Inf"
            yield from map(_bucket, rows)


def _bucket(row: Bucket) -> str:
    finite = ",".join(number(value) for value in (row.mean, row.low, row.high))
    return f"{row.first}-{row.last},{finite},{number(row.end)},{row.nan},{row.pinf},{row.ninf}"


TOOL = Tool("read_series", ReadSeries, read_series)
