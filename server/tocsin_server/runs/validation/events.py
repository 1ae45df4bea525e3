"""Validate events and the finish of a writer."""

from __future__ import annotations

from typing import Any

from tocsin.protocol import MOST_STEP, Event, Finish, Refused
from tocsin_server.runs.validation.limits import HIGHEST, Limits
from tocsin_server.runs.validation.names import PLAIN_NAME, is_name, shown
from tocsin_server.runs.validation.plain_data import size_problem


def event_problem(event: Event, limits: Limits) -> Refused | None:
    """Return the rejection of an event that cannot be stored, or None."""
    if not is_name(event.kind, limits.name_bytes):
        expected = f"kind: {PLAIN_NAME.format(limits.name_bytes)}"
        return Refused("event", "bad-event", expected, shown(event.kind), event.no)
    if not 0 <= event.t < HIGHEST or not 0 <= (event.step or 0) <= MOST_STEP:
        expected = f"a time in Unix ns and a step from 0 to {MOST_STEP}"
        got = f"t {event.t} and step {event.step}"
        return Refused("event", "bad-event", expected, got, event.no)
    wrong = size_problem(event.data, limits.event_bytes)
    return (
        Refused(
            "event", "event-size", f"data of {wrong[0]}", f"{wrong[1]} in event {shown(event.kind)}", event.no
        )
        if wrong
        else None
    )


def finish_problem(finish: Finish) -> Refused | None:
    """Return the rejection of an invalid finish message, or None."""
    if finish.state not in ("finished", "failed"):
        return Refused("event", "bad-event", "state finished or failed", shown(finish.state), finish.no)
    if not 0 <= finish.t < HIGHEST or not 0 <= finish.records < HIGHEST:
        got = f"t {finish.t} and records {finish.records}"
        return Refused("event", "bad-event", "a time in Unix ns and a count of records", got, finish.no)
    return None


def error_of(finish: Finish, limits: Limits) -> dict[str, Any]:
    """Return why a run failed. An error that is too large is shortened; the end must still be recorded."""
    if size_problem(finish.error, limits.event_bytes) is None:
        return dict(finish.error)
    short = {key: str(finish.error.get(key, ""))[:2000] for key in ("type", "message")}
    return {**short, "lines": []}
