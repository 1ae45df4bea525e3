"""Look up a run, and say in one line how it is."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from .api import Api, ApiError, named
from .text import counted, number, quoted

Row = Mapping[str, Any]
SEARCHED = 1000
"""Newest runs among which a name is looked for."""
VITAL = ("loss", "grad_norm", "scale", "lr")
Run = Annotated[str, Meta(description="Id of the run, its name, or project/name (the newest of that name).")]


async def find_run(api: Api, given: str) -> dict[str, Any]:
    """Return a run by its id, or the newest of that name. Raises ApiError, with similar names."""
    try:
        return dict(await api.get(f"/runs/{named(given)}", {}))
    except ApiError as error:
        if error.status != 404:
            raise
    (known,) = await ids_of(api, [given])
    return dict(await api.get(f"/runs/{named(known)}", {}))


async def ids_of(api: Api, names: Sequence[str]) -> list[str]:
    """Return the id of the newest run of each name. Raises ApiError, with similar names."""
    rows = (await api.get("/runs", {"sparks": "false", "limit": SEARCHED}))["items"]
    found = {name: row["id"] for row in reversed(rows) for name in (_full(row), row["name"])}
    for name in names:
        if name not in found:
            raise ApiError(404, f"There is no run '{name[:200]}'.{_hint(name, rows)}")
    return [found[name] for name in names]


def _full(row: Row) -> str:
    return f"{row['project']}/{row['name']}"


def _hint(given: str, rows: Sequence[Row]) -> str:
    known = [name for row in rows for name in ((_full(row),) if "/" in given else (row["id"], row["name"]))]
    near = difflib.get_close_matches(given, list(dict.fromkeys(known)), 3)
    return f" Did you mean {' or '.join(near)}?" if near else " Call list_runs to see all runs."


def line_of(row: Row) -> str:
    """Return a run in one line."""
    planned = "" if row["planned_steps"] is None else f" of {row['planned_steps']}"
    step = "no step" if row["last_step"] is None else f"step {row['last_step']}{planned}"
    rate = "" if row["steps_per_s"] is None else f" at {number(row['steps_per_s'])} steps/s"
    last = ", ".join(f"{quoted(name)} {number(row['last'][name])}" for name in VITAL if name in row["last"])
    parts = [
        f"run {quoted(row['id'])}, name {quoted(row['name'], 100)}, project {quoted(row['project'], 100)}: "
        f"{row['state']}, health {row['health']}, {step}{rate}",
        last,
        f"{counted(row['skipped'], 'skipped step')}, {counted(row['nonfinite'], 'non-finite value')}"
        if row["skipped"] or row["nonfinite"]
        else "",
        f"{counted(row['lost_records'], 'record')} lost before delivery" if row.get("lost_records") else "",
        "" if row["outcome"] is None else f"outcome {quoted(row['outcome']['text'], 160)}",
        _reason(row["reason"], row["alerts"]),
    ]
    return "; ".join(part for part in parts if part)


def _reason(reason: Row | None, alerts: int) -> str:
    if reason is None:
        return ""
    since = "" if reason["onset_step"] is None else f" since step {reason['onset_step']}"
    worst = f"{reason['severity']} {quoted(reason['rule'])}{since}: {quoted(reason['summary'], 160)}"
    return f"{counted(alerts, 'open alert')}, most severe {worst}"


def acknowledged(incident: Row) -> str:
    """Return who acknowledged an incident."""
    return (
        "not acknowledged" if incident["ack"] is None else f"acknowledged by {quoted(incident['ack']['by'])}"
    )
