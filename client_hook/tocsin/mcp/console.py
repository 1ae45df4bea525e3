"""The tool ``read_log``: what the script of a run wrote to its terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from .api import Api, named
from .run_line import Run, find_run
from .text import MOST_CHARACTERS, block, counted, quoted
from .tool import Arguments, Tool

MOST_LINES = 200
MOST_LINE_CHARACTERS = 300


class ReadLog(Arguments):
    """Read the newest lines that the script of a run wrote to its terminal, each with its step: warnings, a
    traceback, what it printed around an incident. At most 200 lines: narrow them by steps or by text.
    """

    run: Run
    contains: Annotated[
        str, Meta(max_length=200, description="Only lines with this text; case does not matter.")
    ] = ""
    first_step: Annotated[int | None, Meta(description="Only lines from this step on.")] = None
    last_step: Annotated[int | None, Meta(description="Only lines up to this step.")] = None
    lines: Annotated[int, Meta(ge=1, description="How many lines, at most 200.")] = 50


async def read_log(api: Api, wanted: ReadLog) -> list[str]:
    """Return the lines, oldest first, each after its step and stream."""
    run = await find_run(api, wanted.run)
    most = min(wanted.lines, MOST_LINES)
    query = {
        "contains": wanted.contains or None,
        "from": wanted.first_step,
        "to": wanted.last_step,
        "limit": most,
    }
    given = {name: value for name, value in query.items() if value is not None}
    found = await api.get(f"/runs/{named(run['id'])}/console", given)
    lines = _fitting([_line(each) for each in found["items"][-most:]])
    head = f"run {quoted(run['id'])}: "
    if not lines:
        off = "watch(console=False) or TOCSIN_CONSOLE=0"
        return [f"{head}no line of its log matches. The log is empty if recording is off: {off}."]
    older = found["older"] is not None or len(lines) < len(found["items"])
    more = "; older ones were left out: narrow the window of steps, or the text" if older else ""
    return [f"{head}{counted(len(lines), 'line')}, oldest first, as step, stream, text{more}.", *lines]


def _fitting(lines: list[str]) -> list[str]:
    """Return the newest lines that fit into an answer, which would cut the newest."""
    left = MOST_CHARACTERS - 1000
    for place in range(len(lines) - 1, -1, -1):
        left -= len(lines[place]) + 1
        if left < 0:
            return lines[place + 1 :]
    return lines


def _line(line: Mapping[str, Any]) -> str:
    step = "-" if line["step"] is None else line["step"]
    rank = f" rank {line['rank']}" if line["rank"] else ""
    text = line["text"].replace("\n", " ")[:MOST_LINE_CHARACTERS]
    return block(f"{step} {line['stream']}{rank}: {text}")[0]


TOOL = Tool("read_log", ReadLog, read_log)
