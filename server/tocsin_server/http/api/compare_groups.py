"""``POST /compare/groups``: thousands of runs as one line per group, the mean over its runs with a band."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar

import anyio.to_thread
from pydantic import Field
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.errors import DamagedError
from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.compare import AT_ONCE, MOST_NAMES, Id, Real
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.series import FEWEST
from tocsin_server.http.api.shapes import Number, Packed
from tocsin_server.http.services import Services, services_of
from tocsin_server.store.group_axis import Axis, Placing, placed, placing
from tocsin_server.store.group_buckets import GroupBuckets, Items, Span
from tocsin_server.store.results import SeriesAnswer, SeriesLayer
from tocsin_server.store.series_window import ManySeries

router = resource("series")

MOST_RUNS = 10_000
MOST_GROUPS = 500
MOST_BUCKETS = 1000
MOST_SUMS = 1 << 18
"""Groups x series x buckets of one request, at most 30 MB."""


class GroupsQuery(Body):
    """``groups``: the runs of each group. ``x``: the axis. ``from`` and ``to``: its ends, null for all runs.

    The axis is ``step``; ``relative``, ms since the first record of a run; ``wall``, Unix ms; or ``metric:``
    and the name of a series, at whose last known value each record is placed.
    """

    groups: Annotated[
        list[Annotated[list[Id], Field(max_length=MOST_RUNS)]], Field(min_length=1, max_length=MOST_GROUPS)
    ]
    names: Annotated[list[str], Field(min_length=1, max_length=MOST_NAMES)]
    buckets: Annotated[int, Field(ge=FEWEST, le=MOST_BUCKETS)] = 200
    x: Annotated[str, Field(pattern="^(step|relative|wall|metric:.{1,200})$")] = "step"
    start: Annotated[Real | None, Field(alias="from")] = None
    stop: Annotated[Real | None, Field(alias="to")] = None


class Newest(TypedDict):
    """The newest values: of ``n`` runs that are finite, and how many are not. Null without one."""

    n: int
    mean: Number | None
    std: Number | None
    nonfinite: int


class GroupSeries(TypedDict):
    """A series of a group of ``runs`` that have it, in buckets of the x axis.

    ``n`` runs are behind a value: each counts once, with the mean of its finite values in the bucket, or
    interpolated between two buckets. ``std`` is the sample standard deviation over runs, ``min`` and ``max``
    are those of all finite values. ``nan``, ``pinf`` and ``ninf`` count values.
    """

    runs: int
    newest: Newest
    x: Packed
    n: Packed
    mean: Packed
    std: Packed
    min: Packed
    max: Packed
    nan: Packed
    pinf: Packed
    ninf: Packed


class Group(TypedDict):
    """A group: how many of its runs exist, how many don't, and how many have damaged records."""

    runs: int
    missing: int
    damaged: int
    series: dict[str, GroupSeries]


class GroupsAnswer(TypedDict):
    """The groups in the requested order, and the ends of the x axis over which they are aggregated."""

    first: float | None
    last: float | None
    groups: list[Group]


@dataclass(slots=True)
class _Group:
    runs: int = 0
    missing: int = 0
    damaged: int = 0
    series: dict[str, GroupBuckets] = field(default_factory=dict)


@router.post("/compare/groups", response_model=GroupsAnswer)
async def compare_groups(request: Request, wanted: GroupsQuery, _identity: Reader) -> ExactJSON:
    """Aggregate series of up to 10,000 runs by group."""
    _check(wanted)
    services, axis = services_of(request), _axis(wanted.x)
    first, last = wanted.start, wanted.stop
    places: dict[str, Placing] = {}
    if first is None or last is None or axis.kind != "step":
        async for part in _while_connected(request, wanted):
            places |= await anyio.to_thread.run_sync(_places, services, wanted.names, axis, part)
        first = min((each.low for each in places.values()), default=None) if first is None else first
        last = max((each.high for each in places.values()), default=None) if last is None else last
    groups = [_Group() for _ in wanted.groups]
    shown = _Shown(wanted.names, axis, Span(first or 0.0, last or 0.0, wanted.buckets), places)
    async for part in _while_connected(request, wanted):
        await anyio.to_thread.run_sync(_add, services, shown, part, groups)
    return ExactJSON({"first": first, "last": last, "groups": [_group(one) for one in groups]})


@dataclass(frozen=True, slots=True)
class _Shown:
    """The requested series and the x axis; ``places`` has the runs that are on the axis."""

    names: Sequence[str]
    axis: Axis
    span: Span
    places: dict[str, Placing]

    def place(self, run_id: str) -> Placing | None:
        """Return where a run is; a window of steps needs no look at the run."""
        if self.axis.kind == "step":
            return Placing(self.span.first, self.span.last)
        return self.places.get(run_id)


def _axis(text: str) -> Axis:
    kind, _, metric = text.partition(":")
    return Axis("metric", metric) if kind == "metric" else Axis(kind)  # type: ignore[arg-type]


def _check(wanted: GroupsQuery) -> None:
    runs = sum(map(len, wanted.groups))
    if runs > MOST_RUNS:
        raise Problem(422, subject="groups", expected=f"at most {MOST_RUNS} runs", got=f"{runs} runs")
    sums = len(wanted.groups) * len(wanted.names) * wanted.buckets
    if sums > MOST_SUMS:
        expected = f"at most {MOST_SUMS} groups x series x buckets"
        raise Problem(422, subject="groups", expected=expected, got=str(sums))


Part = Sequence[tuple[int, str]]
"""Runs that are read together, each with the place of its group."""
Missing = Literal["deleted", "damaged"]
R = TypeVar("R")


async def _while_connected(request: Request, wanted: GroupsQuery) -> AsyncIterator[Part]:
    """Yield the runs in parts, until the client leaves."""
    for part in _parts(wanted):
        if await request.is_disconnected():
            return
        yield part


def _parts(wanted: GroupsQuery) -> Iterator[Part]:
    runs = [(no, run_id) for no, group in enumerate(wanted.groups) for run_id in dict.fromkeys(group)]
    for begin in range(0, len(runs), AT_ONCE):
        yield runs[begin : begin + AT_ONCE]


def _opened(
    services: Services, part: Part, read: Callable[[ManySeries, str], R]
) -> Iterator[tuple[int, str, R | Missing]]:
    """Yield the group of each run, its id, and what was read of it, or why that is missing."""
    with services.reader.consistent() as connection:
        series = ManySeries(connection, [run_id for _, run_id in part])
        for no, run_id in part:
            if run_id not in series:
                yield no, run_id, "deleted"
                continue
            try:
                yield no, run_id, read(series, run_id)
            except DamagedError:
                yield no, run_id, "damaged"


def _places(services: Services, names: Sequence[str], axis: Axis, part: Part) -> dict[str, Placing]:
    """Return the runs that are on the axis, and where."""
    found = _opened(services, part, lambda series, run_id: placing(series, run_id, names, axis))
    return {run_id: place for _, run_id, place in found if isinstance(place, Placing)}


def _add(services: Services, shown: _Shown, part: Part, groups: Sequence[_Group]) -> None:
    axis, span = shown.axis, shown.span
    names = [*shown.names, *axis.also]

    def read(series: ManySeries, run_id: str) -> SeriesAnswer | None:
        place = shown.place(run_id)
        if place is None:
            return None
        return series.of(run_id, names, place.window(axis, span), span.buckets)

    found: dict[tuple[int, str], list[tuple[Sequence[SeriesLayer], Sequence[Items]]]] = {}
    for no, run_id, answer in _opened(services, part, read):
        group = groups[no]
        group.runs += answer != "deleted"
        group.missing += answer == "deleted"
        group.damaged += answer == "damaged"
        place = shown.place(run_id)
        for name in shown.names:
            drawn = found.setdefault((no, name), [])
            if isinstance(answer, SeriesAnswer) and place:
                drawn.append((answer.series[name], placed(answer, name, axis, place, span)))
    for (no, name), runs in found.items():
        series = groups[no].series
        if name not in series:
            series[name] = GroupBuckets(span)
        if runs:
            layers, drawn_runs = zip(*runs, strict=True)
            series[name].add(layers, drawn_runs)


def _group(group: _Group) -> dict[str, Any]:
    own = {"runs": group.runs, "missing": group.missing, "damaged": group.damaged}
    return own | {"series": {name: _series(each) for name, each in group.series.items()}}


def _series(series: GroupBuckets) -> dict[str, Any]:
    n = int(series.newest.n[0])
    mean, std = (float(one[0]) if n else None for one in series.newest.result())
    newest = {"n": n, "mean": mean, "std": std, "nonfinite": series.nonfinite}
    return {"runs": series.runs, "newest": newest} | series.columns()
