"""``POST /compare/groups``: thousands of runs as one line per group, the mean over its runs with a band."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

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
from tocsin_server.store.group_buckets import GroupBuckets, Span
from tocsin_server.store.results import SeriesAnswer, SeriesLayer
from tocsin_server.store.run_rows import existing
from tocsin_server.store.series_window import ManySeries, Window

router = resource("series")

MOST_RUNS = 10_000
MOST_GROUPS = 500
MOST_BUCKETS = 1000
MOST_SUMS = 1 << 18
"""Groups x series x buckets of one request, at most 30 MB."""


class GroupsQuery(Body):
    """``groups``: the runs of each group. ``from`` and ``to``: steps, null for those of all runs."""

    groups: Annotated[
        list[Annotated[list[Id], Field(max_length=MOST_RUNS)]], Field(min_length=1, max_length=MOST_GROUPS)
    ]
    names: Annotated[list[str], Field(min_length=1, max_length=MOST_NAMES)]
    buckets: Annotated[int, Field(ge=FEWEST, le=MOST_BUCKETS)] = 200
    start: Annotated[Real | None, Field(alias="from")] = None
    stop: Annotated[Real | None, Field(alias="to")] = None


class Newest(TypedDict):
    """The newest values: of ``n`` runs that are finite, and how many are not. Null without one."""

    n: int
    mean: Number | None
    std: Number | None
    nonfinite: int


class GroupSeries(TypedDict):
    """A series of a group of ``runs`` that have it, in buckets of steps.

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
    """The groups in the requested order, and the steps over which they are aggregated."""

    first_step: float | None
    last_step: float | None
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
    services = services_of(request)
    first, last = wanted.start, wanted.stop
    if first is None or last is None:
        ends: list[float] = []
        async for part in _while_connected(request, wanted):
            ends += await anyio.to_thread.run_sync(_ends, services, part)
        first = min(ends, default=None) if first is None else first
        last = max(ends, default=None) if last is None else last
    groups = [_Group() for _ in wanted.groups]
    span = Span(first or 0.0, last or 0.0, wanted.buckets)
    async for part in _while_connected(request, wanted):
        await anyio.to_thread.run_sync(_add, services, wanted.names, span, part, groups)
    return ExactJSON({"first_step": first, "last_step": last, "groups": [_group(one) for one in groups]})


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


def _read(
    services: Services, part: Part, names: Sequence[str], window: Window, buckets: int
) -> Iterator[tuple[int, SeriesAnswer | Missing]]:
    """Yield the group of each run and its series, or why they are missing."""
    with services.reader.consistent() as connection:
        there = existing(connection, [run_id for _, run_id in part])
        series = ManySeries(connection, sorted(there))
        for no, run_id in part:
            if run_id not in there:
                yield no, "deleted"
                continue
            try:
                yield no, series.of(run_id, names, window, buckets)
            except DamagedError:
                yield no, "damaged"


def _ends(services: Services, part: Part) -> list[int]:
    """Return the first and the last step of each run that has any."""
    found = _read(services, part, [], Window(None, None, "step"), 1)
    answers = [answer for _, answer in found if isinstance(answer, SeriesAnswer)]
    ends = [end for answer in answers for end in (answer.first_step, answer.last_step)]
    return [end for end in ends if end is not None]


def _add(services: Services, names: Sequence[str], span: Span, part: Part, groups: Sequence[_Group]) -> None:
    window = Window(span.first, span.last, "step")
    found: dict[tuple[int, str], list[Sequence[SeriesLayer]]] = {}
    for no, answer in _read(services, part, names, window, span.buckets):
        group = groups[no]
        group.runs += answer != "deleted"
        group.missing += answer == "deleted"
        group.damaged += answer == "damaged"
        if isinstance(answer, SeriesAnswer):
            for name, layers in answer.series.items():
                found.setdefault((no, name), []).append(layers)
    for (no, name), runs in found.items():
        series = groups[no].series
        if name not in series:
            series[name] = GroupBuckets(span)
        series[name].add(runs)


def _group(group: _Group) -> dict[str, Any]:
    own = {"runs": group.runs, "missing": group.missing, "damaged": group.damaged}
    return own | {"series": {name: _series(each) for name, each in group.series.items()}}


def _series(series: GroupBuckets) -> dict[str, Any]:
    n = int(series.newest.n[0])
    mean, std = (float(one[0]) if n else None for one in series.newest.result())
    newest = {"n": n, "mean": mean, "std": std, "nonfinite": series.nonfinite}
    return {"runs": series.runs, "newest": newest} | series.columns()
