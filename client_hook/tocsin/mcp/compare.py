"""The tool ``compare_runs``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Annotated, Any

import msgspec
from msgspec import Meta, field

from ..read.packed_numbers import ComparedRun
from .api import Api, ApiError
from .run_line import VITAL, Row, ids_of
from .text import counted, flattened, listed, number, plain, quoted, steps
from .tool import Arguments, Tool

MOST_COMPARED, MOST_SERIES = 8, 12
MOST_SETTINGS, MOST_ALERTS = 20, 3
BUCKETS = 200


class CompareRuns(Arguments):
    """Compare 2 to 8 runs: state, first alerts, settings that differ, and the last and extreme values of
    series with their steps, of the newest attempt.
    """

    runs: Annotated[list[str], Meta(min_length=2, max_length=MOST_COMPARED, description="Ids or names.")]
    series: Annotated[
        list[str], Meta(max_length=MOST_SERIES, description="Default: loss, grad_norm, scale, lr.")
    ] = field(default_factory=list)
    first_step: Annotated[int | None, Meta(description="Values from this step on; default: all.")] = None
    last_step: Annotated[int | None, Meta(description="Values up to this step; default: all.")] = None


async def compare_runs(api: Api, wanted: CompareRuns) -> list[str]:
    """Return how runs differ."""
    names = list(dict.fromkeys(wanted.series)) or list(VITAL)
    runs = await _compared(api, wanted, names)
    lines = [line for run in runs for line in _described(run)]
    lines += ["Settings that differ, in the order of the runs:", *_settings(runs)]
    extents = [_extents(run) for run in runs]
    for name in names:
        lines.append(f"Series {quoted(name)}:")
        lines += [
            f"  {quoted(run['id'])}: {found.get(name, 'no values')}"
            for run, found in zip(runs, extents, strict=True)
        ]
    return lines


async def _compared(api: Api, wanted: CompareRuns, names: Sequence[str]) -> list[Row]:
    """Return the runs in the wanted order: one request, and two more if some are given by name."""
    window = {"from": wanted.first_step, "to": wanted.last_step}

    async def read(ids: Sequence[str]) -> list[Row]:
        asked = {"runs": [{"id": each, **window} for each in ids], "names": names, "buckets": BUCKETS}
        return list(await api.post("/compare", asked))

    runs = await read(wanted.runs)
    places = [place for place, run in enumerate(runs) if run.get("error", {}).get("status") == 404]
    if places:
        found = await read(await ids_of(api, [wanted.runs[place] for place in places]))
        for place, run in zip(places, found, strict=True):
            runs[place] = run
    for run in runs:
        if "error" in run:
            raise ApiError(run["error"]["status"], f"Run {run['id']}: {run['error']['detail']}")
    return runs


def _described(run: Row) -> list[str]:
    """Return a run in one line, and its first alerts."""
    fired = sorted((one for one in run["alerts"] if one["fired_ms"] is not None), key=itemgetter("onset_ms"))
    head = (
        f"run {quoted(run['id'])}, name {quoted(run['name'], 100)}, project {quoted(run['project'], 100)}: "
        f"{run['state']}, {steps(run['first_step'], run['last_step'])}, {counted(len(fired), 'alert')}"
    )
    return [head, *listed([_alert(one) for one in fired], MOST_ALERTS, "alerts")]


def _alert(one: Row) -> str:
    at = "no step" if one["onset_step"] is None else f"step {one['onset_step']}"
    return f"  {at}: {one['severity']} {quoted(one['rule'])}: {quoted(one['summary'], 160)}"


def _settings(runs: Sequence[Row]) -> list[str]:
    flat = [dict(flattened(run["config"])) for run in runs]
    names = sorted({name for each in flat for name in each})
    rows = [(name, [plain(each[name]) if name in each else "not set" for each in flat]) for name in names]
    lines = [f"  {quoted(name, 100)}: {' | '.join(values)}" for name, values in rows if len(set(values)) > 1]
    return listed(lines, MOST_SETTINGS, "settings") or ["  none"]


def _extents(run: Row) -> dict[str, str]:
    """Return last, lowest and highest value of each series, of its newest attempt."""
    compared = msgspec.convert(run, ComparedRun)
    return {
        name: _extent([dict(row) for row in one.rows()])
        for name in run["series"]
        if (one := compared.newest(name)).n
    }


def _extent(rows: Sequence[Mapping[str, Any]]) -> str:
    finite = [row for row in rows if row["n"] > row["nan"] + row["pinf"] + row["ninf"]]
    parts = [f"last {number(rows[-1]['last'])} at step {rows[-1]['step_end']}"]
    if finite:
        low, high = min(finite, key=itemgetter("min")), max(finite, key=itemgetter("max"))
        parts += [f"min {number(low['min'])} {_place(low)}", f"max {number(high['max'])} {_place(high)}"]
    bad = sum(row["nan"] + row["pinf"] + row["ninf"] for row in rows)
    return ", ".join([*parts, *([f"{bad} NaN or Inf"] if bad else [])])


def _place(row: Mapping[str, Any]) -> str:
    first, last = row["step"], row["step_end"]
    return f"at step {first}" if first == last else f"at steps {first}-{last}"


TOOL = Tool("compare_runs", CompareRuns, compare_runs)
