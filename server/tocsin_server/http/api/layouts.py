"""``/projects/{project}/layout``: the layout of the project's run pages or comparisons, for all users."""

from __future__ import annotations

import time
from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.deletion import actor_of
from tocsin_server.http.api.permission import Editor, Reader
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.services import services_of
from tocsin_server.store import audit
from tocsin_server.store.connection import Connection
from tocsin_server.store.layouts import Layout, Page, put_layout, read_layout

router = resource("projects")

LONGEST = 30_000


OfPage = Annotated[Page, Query(description="Of run pages, or of comparisons.")]


class NewLayout(Body):
    """The layout as in the address of the page; empty: the standard one."""

    layout: Annotated[str, Field(max_length=LONGEST)]


class LayoutReply(TypedDict):
    """The layout; ``author`` saved it. Empty and null if none was saved."""

    layout: str
    author: str
    updated_ms: float | None


@router.get("/projects/{project:path}/layout", response_model=LayoutReply)
def get_layout(request: Request, project: str, _identity: Reader, page: OfPage = "run") -> ExactJSON:
    """Return the layout with which pages of the project open."""
    with services_of(request).database.reader.connect() as connection:
        found = read_layout(connection, project, page)
    if found is None:
        raise _unknown(project)
    return ExactJSON(_shown(found))


@router.put("/projects/{project:path}/layout", response_model=LayoutReply)
def put_project_layout(
    request: Request, project: str, wanted: NewLayout, identity: Editor, page: OfPage = "run"
) -> ExactJSON:
    """Save the layout of the project. A page whose address contains a layout keeps that one."""
    now_ns = time.time_ns()
    layout = Layout(wanted.layout, actor_of(identity), now_ns)

    def work(connection: Connection) -> bool:
        found = put_layout(connection, project, layout, page)
        if found:
            audit.note(connection, now_ns, layout.author, "project.layout", project)
        return found

    if not services_of(request).writer.call(work).result():
        raise _unknown(project)
    return ExactJSON(_shown(layout))


def _shown(found: Layout) -> dict[str, Any]:
    updated = found.updated_ns / 1e6 if found.updated_ns else None
    return {"layout": found.layout, "author": found.author, "updated_ms": updated}


def _unknown(project: str) -> Problem:
    return Problem(404, subject="project", expected="the name of a project", got=project)
