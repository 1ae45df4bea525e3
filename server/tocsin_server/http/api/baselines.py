"""``/projects/{project}/baselines``: the runs of a project that others are compared with, for all users."""

from __future__ import annotations

import time

from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.compare import Id
from tocsin_server.http.api.deletion import actor_of
from tocsin_server.http.api.permission import Editor, Reader
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.services import services_of
from tocsin_server.store import audit
from tocsin_server.store.baselines import put_baseline, read_baselines
from tocsin_server.store.connection import Connection

router = resource("projects")


class Pin(Body):
    """A run of the project; ``pinned``: whether it is a baseline."""

    run: Id
    pinned: bool


class BaselinesReply(TypedDict):
    """Ids of runs, at most 20, oldest pin first."""

    runs: list[str]


@router.get("/projects/{project:path}/baselines", response_model=BaselinesReply)
def get_baselines(request: Request, project: str, _identity: Reader) -> ExactJSON:
    """Return the baselines of a project."""
    with services_of(request).database.reader.connect() as connection:
        found = read_baselines(connection, project)
    if found is None:
        raise Problem(404, subject="project", expected="the name of a project", got=project)
    return ExactJSON({"runs": found})


@router.put("/projects/{project:path}/baselines", response_model=BaselinesReply)
def pin_baseline(request: Request, project: str, wanted: Pin, identity: Editor) -> ExactJSON:
    """Pin or unpin a run of the project as a baseline. Of more than 20, the oldest pin is removed."""
    now_ns = time.time_ns()

    def work(connection: Connection) -> list[str] | None:
        found = put_baseline(connection, project, wanted.run, pinned=wanted.pinned)
        if found is not None:
            audit.note(connection, now_ns, actor_of(identity), "project.baseline", wanted.run)
        return found

    found = services_of(request).writer.call(work).result()
    if found is None:
        raise Problem(404, subject="run", expected=f"a run of project {project}", got=wanted.run)
    return ExactJSON({"runs": found})
