"""``DELETE /runs/{id}`` and ``DELETE /projects/{name}``: delete everything of a run or project.

The run disappears immediately. Its rows are deleted in small batches in the background (``jobs/cleanup.py``),
so that incoming records are not delayed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from tocsin_server.core.permissions import Identity
from tocsin_server.core.responses import ExactJSON, Problem, shortened
from tocsin_server.http.api.permission import Editor
from tocsin_server.http.api.query import WHOLE
from tocsin_server.http.api.resource import resource
from tocsin_server.http.api.shapes import RunRow
from tocsin_server.http.services import Services, services_of
from tocsin_server.store import audit, deletion
from tocsin_server.store.connection import Connection
from tocsin_server.store.deletion_jobs import mark_on, mark_project, mark_runs

router = resource("deletion")

LONGEST_S = 30 * 86_400
AfterS = Annotated[
    int, Query(ge=0, le=LONGEST_S, description="Seconds during which the deletion can be canceled."), WHOLE
]
Marked = TypeVar("Marked", list[str], list[str] | None)


@router.post("/runs/{run_id:path}/restore", response_model=RunRow)
async def restore_run(request: Request, run_id: str, identity: Editor) -> ExactJSON:
    """Cancel a scheduled deletion."""
    services = services_of(request)
    actor, now_ns = actor_of(identity), time.time_ns()

    def back(connection: Connection) -> bool:
        found = deletion.bring_back(connection, run_id, now_ns)
        if found:
            audit.note(connection, now_ns, actor, "run.restore", run_id)
        return found

    if not await asyncio.wrap_future(services.writer.call(back)):
        detail = f"Run {shortened(run_id)} is not scheduled for deletion."
        raise Problem(
            404, subject="run", expected="a run that is scheduled for deletion", got=run_id, detail=detail
        )
    return ExactJSON(await _announced(services, run_id, None))


@router.delete("/runs/{run_id:path}", status_code=204, response_class=Response)
async def delete_run(request: Request, run_id: str, identity: Editor, after_s: AfterS = 0) -> Response:
    """Delete a run with its records, events and alerts. If a training process still sends to it, that starts
    a new run. With ``after_s`` the run is deleted after that time; until then ``restore`` cancels the
    deletion.
    """
    if after_s:
        await _postpone(services_of(request), run_id, time.time_ns() + after_s * 10**9, actor_of(identity))
        return _gone()
    mark = partial(mark_runs, run_ids=[run_id], now_ns=time.time_ns(), actor=actor_of(identity))
    if not await _marked(services_of(request), mark):
        raise Problem(404, subject="run", expected="the id of a run", got=run_id)
    return _gone()


async def _postpone(services: Services, run_id: str, due_ns: int, actor: str) -> None:
    """Schedule a deletion. Raises a 404 Problem if there is no such run."""

    def later(connection: Connection) -> bool:
        found = deletion.postpone(connection, run_id, due_ns)
        if found:
            audit.note(connection, time.time_ns(), actor, "run.delete-later", run_id, {"due_ns": due_ns})
        return found

    if not await asyncio.wrap_future(services.writer.call(later)):
        raise Problem(404, subject="run", expected="the id of a run", got=run_id)
    await _announced(services, run_id, due_ns)


async def _announced(services: Services, run_id: str, due_ns: int | None) -> dict[str, Any]:
    """Return the run's row, after updating every page that shows it."""
    summary = await services.pipeline.registry.find(run_id)
    if summary is None:
        raise Problem(404, subject="run", expected="the id of a run", got=run_id)
    summary.metadata.deletion_ns = due_ns
    services.hub.changed(run_id)
    return summary.row(time.time_ns())


@router.delete("/projects/{name:path}", status_code=204, response_class=Response)
async def delete_project(request: Request, name: str, identity: Editor) -> Response:
    """Delete a project with all of its runs. Its tokens are kept."""
    mark = partial(mark_project, name=name, now_ns=time.time_ns(), actor=actor_of(identity))
    if await _marked(services_of(request), mark) is None:
        raise Problem(404, subject="project", expected="the name of a project", got=name)
    return _gone()


def actor_of(identity: Identity) -> str:
    """Return the name of the caller in the audit log."""
    return f"{identity.token_id} {identity.name}".strip()


async def _marked(services: Services, mark: Callable[[Connection], Marked]) -> Marked:
    found = await asyncio.wrap_future(mark_on(services.writer, mark))
    for run_id in found or ():
        services.pipeline.changes.forget(run_id)
    return found


def _gone() -> Response:
    return Response(status_code=204, headers={"cache-control": "no-store"})
