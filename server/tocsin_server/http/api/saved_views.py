"""``/views``: filters, columns, order and grouping of the fleet, saved by name for all users."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from tocsin_server.core.responses import ExactJSON, Problem, shortened
from tocsin_server.http.api.deletion import actor_of
from tocsin_server.http.api.permission import Editor, Reader
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import Services, services_of
from tocsin_server.store import audit
from tocsin_server.store.connection import Connection, IntegrityError
from tocsin_server.store.saved_views import (
    SavedView,
    count_views,
    delete_view,
    put_view,
    read_view,
    saved_views,
)

router = resource("views")

MOST = 500
Grouping = Literal["attention", "project", "state", "tag", "host", "none"]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]
Project = Annotated[str, Field(max_length=250)]
Filter = Annotated[str, Field(max_length=2000)]
Columns = Annotated[str, Field(max_length=12_000)]
Sort = Annotated[str, Field(max_length=300)]


class NewView(Body):
    """A view to save. ``project`` empty: for all projects. The others are parts of the fleet's address.

    ``filter`` is its ``q``, ``columns`` and ``sort`` are those of the address; empty is what the page shows
    without them. ``is_default`` shows the view on a fleet page that is opened without any of them.
    """

    name: Name
    project: Project = ""
    filter: Filter = ""
    columns: Columns = ""
    sort: Sort = ""
    grouping: Grouping = "attention"
    is_default: bool = False


class ChangedView(Body):
    """The fields to change."""

    name: Name | None = None
    project: Project | None = None
    filter: Filter | None = None
    columns: Columns | None = None
    sort: Sort | None = None
    grouping: Grouping | None = None
    is_default: bool | None = None


class ViewItem(TypedDict):
    """A saved view; ``author`` saved it first."""

    id: str
    name: str
    project: str
    filter: str
    columns: str
    sort: str
    grouping: str
    is_default: bool
    author: str
    created_ms: float
    updated_ms: float


class ViewList(TypedDict):
    """Saved views by project and name; those for all projects first."""

    items: list[ViewItem]


def view_item(row: SavedView) -> dict[str, Any]:
    """Return a view as the API shows it."""
    return row_of(ViewItem, row)


@router.get("/views", response_model=ViewList)
def list_views(request: Request, _identity: Reader) -> ExactJSON:
    """List all saved views."""
    with services_of(request).database.reader.connect() as connection:
        return ExactJSON({"items": [view_item(row) for row in saved_views(connection)]})


@router.post("/views", response_model=ViewItem, status_code=201)
async def create_view(request: Request, wanted: NewView, identity: Editor) -> ExactJSON:
    """Save a view. A default replaces the one before of the same project."""
    now_ns, actor = time.time_ns(), actor_of(identity)
    row = SavedView(
        id=f"v_{secrets.token_hex(6)}",
        author=actor,
        created_ns=now_ns,
        updated_ns=now_ns,
        **wanted.model_dump(),
    )

    def work(connection: Connection) -> None:
        if count_views(connection) >= MOST:
            detail = f"There are {MOST} saved views already. Delete one first."
            raise Problem(422, subject="views", expected=f"at most {MOST} saved views", detail=detail)
        put_view(connection, row)
        audit.note(connection, now_ns, actor, "view.create", row.id, _details(row))

    await _write(services_of(request), work, row.name)
    return ExactJSON(view_item(row), status_code=201)


@router.patch("/views/{view_id}", response_model=ViewItem)
async def change_view(request: Request, view_id: str, wanted: ChangedView, identity: Editor) -> ExactJSON:
    """Change a view: rename it, make it the default, or save other columns under its name."""
    now_ns, changes = time.time_ns(), wanted.model_dump(exclude_none=True)

    def work(connection: Connection) -> SavedView | None:
        before = read_view(connection, view_id)
        if before is None:
            return None
        row = replace(before, **changes, updated_ns=now_ns)
        put_view(connection, row)
        details = _details(row) | {
            "changed": [each for each in changes if changes[each] != getattr(before, each)]
        }
        audit.note(connection, now_ns, actor_of(identity), "view.change", view_id, details)
        return row

    row = await _write(services_of(request), work, wanted.name or "")
    if row is None:
        raise _unknown(view_id)
    return ExactJSON(view_item(row))


@router.delete("/views/{view_id}", status_code=204, response_class=Response)
async def remove_view(request: Request, view_id: str, identity: Editor) -> Response:
    """Delete a view. Pages that show its columns stay as they are."""

    def work(connection: Connection) -> SavedView | None:
        before = read_view(connection, view_id)
        if before is not None:
            delete_view(connection, view_id)
            audit.note(
                connection, time.time_ns(), actor_of(identity), "view.delete", view_id, _details(before)
            )
        return before

    if await _write(services_of(request), work, "") is None:
        raise _unknown(view_id)
    return Response(status_code=204, headers={"cache-control": "no-store"})


async def _write(services: Services, work: Any, name: str) -> Any:
    """Run a change on the writer, and tell the pages."""
    try:
        found = await asyncio.wrap_future(services.writer.call(work))
    except IntegrityError as error:
        detail = f"Another view of the project is already called {shortened(name)}. Choose another name."
        raise Problem(422, subject="name", expected="an unused name", got=name, detail=detail) from error
    services.live.changed("views")
    return found


def _details(row: SavedView) -> dict[str, Any]:
    return {"name": row.name, "project": row.project}


def _unknown(view_id: str) -> Problem:
    return Problem(404, subject="view", expected="the id of a saved view", got=view_id)
