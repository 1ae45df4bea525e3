"""``PATCH /runs/{id}``: archive or unarchive a run; edit its name, notes and tags. Nothing is deleted."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator
from starlette.requests import Request

from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.deletion import actor_of
from tocsin_server.http.api.description import failing
from tocsin_server.http.api.permission import Editor
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.shapes import RunRow
from tocsin_server.http.services import Services, services_of
from tocsin_server.runs.validation.names import is_name
from tocsin_server.store import edits
from tocsin_server.store.connection import Row
from tocsin_server.store.edits import ConflictError, Edit

router = resource("runs")

NAME_BYTES = 256
LONGEST_NOTES = 100_000
MOST_TAGS = 64


def _name(text: str) -> str:
    text = text.strip()
    if not is_name(text, NAME_BYTES):
        raise ValueError(f"expected 1 to {NAME_BYTES} bytes without control characters")
    return text


def _notes(text: str) -> str:
    """Return Markdown as typed, with characters replaced that Postgres or a page cannot hold."""
    return text.replace("\r\n", "\n").replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _once(tags: list[str]) -> list[str]:
    return list(dict.fromkeys(tags))


Name = Annotated[str, Field(min_length=1), AfterValidator(_name)]
Tags = Annotated[list[Name], Field(max_length=MOST_TAGS), AfterValidator(_once)]
Notes = Annotated[str, Field(max_length=LONGEST_NOTES), AfterValidator(_notes)]


class Seen(Body):
    """The values that the user saw when editing. If one has changed since, nothing is written."""

    name: str | None = None
    notes: str | None = None
    tags: list[str] | None = None


class RunChange(Body):
    """The editable fields of a run; omitted fields stay unchanged."""

    archived: bool | None = None
    name: Name | None = None
    notes: Notes | None = None
    tags: Tags | None = None
    seen: Seen = Seen()

    @model_validator(mode="after")
    def _changes_something(self) -> RunChange:
        if not self.values():
            raise ValueError("expected one of archived, name, notes, tags")
        return self

    def values(self) -> dict[str, object]:
        """Return the fields that were given."""
        return self.model_dump(exclude_none=True, exclude={"seen"})


@router.patch("/runs/{run_id:path}", response_model=RunRow, responses=failing(409))
async def change_run(request: Request, run_id: str, change: RunChange, identity: Editor) -> ExactJSON:
    """Archive or edit a run. Its training process, records, rules and alerts are not affected. Responds with
    409 if another user changed a field since it was ``seen``, so that no change is overwritten unread.
    """
    services = services_of(request)
    wanted = Edit(change.values(), change.seen.model_dump(exclude_none=True))
    now_ns = time.time_ns()
    work = partial(edits.edit, run_id=run_id, change=wanted, now_ns=now_ns, actor=actor_of(identity))
    try:
        row = await asyncio.wrap_future(services.writer.call(work))
    except ConflictError as error:
        detail = f"Another user changed {error.field} while you were editing. Reload, then edit again."
        expected = "the value before your edit"
        raise Problem(409, subject=error.field, expected=expected, got=error.stands, detail=detail) from error
    if row is None:
        raise Problem(404, subject="run", expected="the id of a run", got=run_id)
    return ExactJSON(await _shown(services, run_id, row))


async def _shown(services: Services, run_id: str, row: Row[Any]) -> dict[str, Any]:
    """Return the fleet's row after the change, after updating every page that shows it."""
    summary = await services.pipeline.registry.find(run_id)
    if summary is None:
        raise Problem(404, subject="run", expected="the id of a run", got=run_id)
    metadata = summary.metadata
    metadata.archived, metadata.name, metadata.tags = row.archived, row.name, tuple(row.tags)
    metadata.edited = edits.edits_of(row.environment)
    services.hub.changed(run_id)
    return summary.row(time.time_ns())
