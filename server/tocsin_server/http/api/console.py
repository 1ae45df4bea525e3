"""``GET /runs/{id}/console``: the lines that the script wrote to its terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from fastapi import Query
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.models import RunEvent, RunState
from tocsin_server.core.responses import ExactJSON
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import LARGEST, WHOLE, First, Last, known_run
from tocsin_server.http.api.resource import resource
from tocsin_server.http.services import services_of
from tocsin_server.store.reader import StoreReader

router = resource("console")

EVENTS_AT_ONCE = 100
"""Events that are read together; a process sends one per second, with at most 16 KiB."""
LONGEST = 2_000
"""Maximum number of characters of a line; the hook cuts lines at 1,000."""
START = -1
"""The place before the first event."""
Place = Annotated[int | None, Query(ge=START, le=LARGEST), WHOLE]


class ConsoleLine(TypedDict):
    """One line; ``open`` if it has not ended, such as a progress bar: a later line replaces it."""

    id: str
    time_ms: float
    step: int | None
    stream: Literal["out", "err"]
    text: str
    open: bool
    attempt: int
    rank: int
    dropped: int


class ConsoleAnswer(TypedDict):
    """Lines, oldest first. ``older`` is the value of ``before`` for the page before, null at the start;
    ``newer`` that of ``after`` for later lines; -1 as ``after`` begins at the oldest line. ``state`` is that
    of the run before the page was read: if it has ended, no line follows.
    """

    items: list[ConsoleLine]
    older: int | None
    newer: int
    state: RunState


@router.get("/runs/{run_id:path}/console", response_model=ConsoleAnswer)
def console(
    request: Request,
    run_id: str,
    _identity: Reader,
    before: Place = None,
    after: Place = None,
    contains: Annotated[
        str, Query(max_length=200, description="Only lines with this text; case does not matter.")
    ] = "",
    start: First = None,
    stop: Last = None,
    limit: Annotated[int, Query(ge=1, le=5_000, description="About how many lines."), WHOLE] = 1_000,
) -> ExactJSON:
    """List the newest lines that a run wrote to its terminal, or those before or after a place.

    With `from` or `to`, lines without a step, written before the first one, are left out.
    """
    reader = services_of(request).reader
    state = known_run(reader, run_id).state
    events = _pages(reader, run_id, before, after)
    found: list[list[dict[str, Any]]] = []
    count, oldest, newest, is_whole = 0, before, START if after is None else after, True
    for event in events:
        found.append([line for line in _lines(event) if _is_wanted(line, contains.casefold(), start, stop)])
        count += len(found[-1])
        oldest = event.arrival if oldest is None else min(oldest, event.arrival)
        newest = max(newest, event.arrival)
        if count >= limit:
            is_whole = False
            break
    pages = found if after is not None else found[::-1]
    lines = _without_replaced([line for page in pages for line in page], is_past=before is not None)
    has_older = after is None and not is_whole
    return ExactJSON(
        {"items": lines, "older": oldest if has_older else None, "newer": newest, "state": state}
    )


def _is_wanted(line: dict[str, Any], text: str, start: int | None, stop: int | None) -> bool:
    if start is not None or stop is not None:
        step = line["step"]
        if step is None or (start is not None and step < start) or (stop is not None and step > stop):
            return False
    return text in line["text"].casefold()


def _pages(reader: StoreReader, run_id: str, before: int | None, after: int | None) -> Iterator[RunEvent]:
    """Yield events, the newest first; after a place, the oldest first."""
    while True:
        events = reader.console(run_id, before=before, after=after, limit=EVENTS_AT_ONCE)
        yield from events if after is not None else reversed(events)
        if len(events) < EVENTS_AT_ONCE:
            return
        if after is None:
            before = events[0].arrival
        else:
            after = events[-1].arrival


def _lines(event: RunEvent) -> Iterator[dict[str, Any]]:
    """Yield the valid lines of an event."""
    lines, dropped = event.data.get("lines"), event.data.get("dropped", 0)
    if not isinstance(lines, list):
        return
    for number, line in enumerate(lines):
        if isinstance(line, list) and len(line) == 5 and _is_valid(*line):
            time_ms, step, stream, text, is_open = line
            yield {
                "id": f"{event.writer.writer_no}.{event.no}.{number}",
                "time_ms": time_ms,
                "step": step,
                "stream": stream,
                "text": text[:LONGEST],
                "open": is_open,
                "attempt": event.writer.attempt_no,
                "rank": event.writer.rank,
                "dropped": dropped if number == 0 and type(dropped) is int else 0,
            }


def _is_valid(time_ms: Any, step: Any, stream: Any, text: Any, is_open: Any) -> bool:
    numbers = type(time_ms) is int and (step is None or type(step) is int)
    return numbers and stream in ("out", "err") and isinstance(text, str) and isinstance(is_open, bool)


def _without_replaced(lines: list[dict[str, Any]], *, is_past: bool) -> list[dict[str, Any]]:
    """Return the lines without those that a later line of the same stream replaces.

    Args:
        lines: Oldest first.
        is_past: Whether later lines exist, so that none of these is the newest.
    """
    kept, streams = [], set()
    for line in reversed(lines):
        stream = (line["attempt"], line["rank"], line["stream"])
        if not line["open"] or not (is_past or stream in streams):
            kept.append(line)
        streams.add(stream)
    return kept[::-1]
