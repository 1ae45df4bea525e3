"""The tool ``compare_runs``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from operator import itemgetter
from typing import Annotated

from msgspec import Meta, field

from .api import Api
from .run_line import VITAL, Row, find_run, line_of
from .text import counted, flattened, listed, number, plain, quoted, steps
from .tool import Arguments, Tool
from .values import Bucket, buckets_of, series_of

MOST_COMPARED, MOST_SERIES = 8, 12
MOST_SETTINGS, MOST_ALERTS = 40, 6


class CompareRuns(Arguments):
    """Compare 2 to 8 runs: state, settings that differ, last and extreme values of series with their steps,
    and first alerts.
    """

    runs: Annotated[list[str], Meta(min_length=2, max_length=MOST_COMPARED, description="Ids or names.")]
    series: Annotated[
        list[str], Meta(max_length=MOST_SERIES, description="Default: loss, grad_norm, scale, lr.")
    ] = field(default_factory=list)


async def compare_runs(api: Api, wanted: CompareRuns) -> list[str]:
    """Return how runs differ."""
    runs = await asyncio.gather(*(find_run(api, each) for each in wanted.runs))
    names = wanted.series or list(VITAL)
    extremes = await asyncio.gather(*(_extremes(api, run["id"], names) for run in runs))
    alerts = await asyncio.gather(*(_first_alerts(api, run["id"]) for run in runs))
    lines = [line_of(run) for run in runs]
    lines += ["Settings that differ, in the order of the runs:", *_settings(runs)]
    for name in names:
        lines.append(f"Series {quoted(name)}:")
        lines += [
            f"  {quoted(run['id'])}: {found.get(name, 'no values')}"
            for run, found in zip(runs, extremes, strict=True)
        ]
    for run, found in zip(runs, alerts, strict=True):
        lines += [f"First alerts of {quoted(run['id'])}:", *(found or ["  none"])]
    return lines


def _settings(runs: Sequence[Row]) -> list[str]:
    flat = [dict(flattened(run["config"])) for run in runs]
    names = sorted({name for each in flat for name in each})
    rows = [(name, [plain(each[name]) if name in each else "not set" for each in flat]) for name in names]
    lines = [f"  {quoted(name, 100)}: {' | '.join(values)}" for name, values in rows if len(set(values)) > 1]
    return listed(lines, MOST_SETTINGS, "settings") or ["  none"]


async def _extremes(api: Api, run: str, names: Sequence[str]) -> dict[str, str]:
    """Return lowest, highest and last value of series of the newest attempt."""
    found = await series_of(api, run, names, buckets=200)
    said = {}
    for name, layers in found["series"].items():
        rows = buckets_of(layers[0]) if layers else []
        if rows:
            said[name] = _extent(rows)
    return said


def _extent(rows: Sequence[Bucket]) -> str:
    low = min(((row.low, row) for row in rows if row.low is not None), key=itemgetter(0), default=None)
    high = max(((row.high, row) for row in rows if row.high is not None), key=itemgetter(0), default=None)
    parts = [f"last {number(rows[-1].end)} at step {rows[-1].last}"]
    for what, found in (("min", low), ("max", high)):
        if found is not None:
            parts.append(f"{what} {number(found[0])} in {steps(found[1].first, found[1].last)}")
    bad = sum(row.nan + row.pinf + row.ninf for row in rows)
    return ", ".join([*parts, *([counted(bad, "non-finite value")] if bad else [])])


async def _first_alerts(api: Api, run: str) -> list[str]:
    items = (await api.get("/alerts", {"run": run, "limit": 200}))["items"]
    fired = sorted((one for one in items if one["fired_step"] is not None), key=lambda one: one["onset_ms"])
    lines = [
        f"  step {one['onset_step']}: {one['severity']} {quoted(one['rule'])}: {quoted(one['summary'], 160)}"
        for one in fired
    ]
    return listed(lines, MOST_ALERTS, "alerts")


TOOL = Tool("compare_runs", CompareRuns, compare_runs)
