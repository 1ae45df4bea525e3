"""``GET /runs/{id}/events``: everything of a run that is not a number per step."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.models import RunEvent
from tocsin_server.core.responses import ExactJSON
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import WHOLE, cursor, known_run, page_of
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import services_of

router = resource("events")


class EventRow(TypedDict):
    """One event; ``data`` is as the client sent it."""

    id: str
    kind: str
    step: int | None
    time_ms: float
    attempt: int
    rank: int
    data: dict[str, Any]


class EventAnswer(TypedDict):
    """Events in order of arrival; ``next`` is the cursor for ``after``, null at the end."""

    items: list[EventRow]
    next: str | None


@router.get("/runs/{run_id:path}/events", response_model=EventAnswer)
def events(
    request: Request,
    run_id: str,
    _identity: Reader,
    after: Annotated[str | None, cursor(r"^([0-9]{1,19})?$")] = None,
    limit: Annotated[int, Query(ge=1, le=10_000), WHOLE] = 1000,
    without: Annotated[list[str] | None, Query(description="Kinds to leave out.", max_length=20)] = None,
) -> ExactJSON:
    """List the events of a run in order of arrival."""
    reader = services_of(request).reader
    page = page_of(lambda: reader.events(run_id, after=after, limit=limit, without=without or ()), after)
    if not page.items:
        known_run(reader, run_id)
    return ExactJSON({"items": [event_row(event) for event in page.items], "next": page.next})


def event_row(event: RunEvent) -> dict[str, Any]:
    """Return an event as the API shows it."""
    writer = event.writer
    place = f"{writer.writer_no}.{event.no}"
    return row_of(EventRow, event, id=place, attempt=writer.attempt_no, rank=writer.rank)
