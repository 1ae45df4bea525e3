"""The tool ``list_runs``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from .api import Api
from .run_line import SEARCHED, Row, acknowledged, line_of
from .text import counted, listed, quoted
from .tool import Arguments, Tool

MOST_LISTED = 50


class ListRuns(Arguments):
    """List training runs, newest first, with state, step, newest values and most severe alert, and the open
    incidents. At most 50 runs.
    """

    project: Annotated[str | None, Meta(description="Only runs of this project.")] = None
    state: Literal["running", "stalled", "lost", "finished", "failed"] | None = None
    search: Annotated[str | None, Meta(description="Only runs with this text in name, id or tags.")] = None
    problems: Annotated[
        bool, Meta(description="Only runs with an open alert, or that crashed or were lost.")
    ] = False
    limit: Annotated[int, Meta(ge=1, description="At most 50.")] = 20


async def list_runs(api: Api, wanted: ListRuns) -> list[str]:
    """Return one line for each run, then the open incidents."""
    chosen = {"project": wanted.project, "state": wanted.state}
    query: dict[str, str | int] = {"sparks": "false", "limit": SEARCHED}
    query |= {name: value for name, value in chosen.items() if value is not None}
    found = await api.get("/runs", query)
    rows = [row for row in found["items"] if _matches(row, wanted)]
    lines = listed([line_of(row) for row in rows], min(wanted.limit, MOST_LISTED), "runs")
    if found["next"] is not None:
        lines.append(f"(only the newest {SEARCHED} runs were searched)")
    if not rows:
        lines.insert(0, "No run matches.")
    ids = {row["id"] for row in rows}
    every = (await api.get("/incidents", {"state": "open", "limit": 100}))["items"]
    incidents = [one for one in every if ids & {run["id"] for run in one["runs"]}]
    return [*lines, *open_incidents(incidents)]


def open_incidents(incidents: Sequence[Row]) -> list[str]:
    """Return the number of open incidents, and a line for each."""
    lines = [_line(one) for one in incidents]
    return [f"{counted(len(incidents), 'open incident')}.", *listed(lines, 10, "incidents")]


def _line(one: Row) -> str:
    since = "" if one["onset_step"] is None else f" since step {one['onset_step']},"
    return (
        f"incident {quoted(one['id'])}: {one['severity']}, run {quoted(one['run_id'])},{since} "
        f"{acknowledged(one)}: {quoted(one['summary'])}"
    )


def _matches(row: Row, wanted: ListRuns) -> bool:
    outcome = row["outcome"]
    bad = outcome is not None and outcome["kind"] in ("crashed", "lost")
    if wanted.problems and not row["alerts"] and not bad and row["health"] not in ("critical", "warning"):
        return False
    text = "\n".join([row["name"], row["id"], *row["tags"]]).casefold()
    return wanted.search is None or wanted.search.casefold() in text


TOOL = Tool("list_runs", ListRuns, list_runs)
