"""``DELETE /runs/{id}`` and ``DELETE /projects/{name}``: all of it, gone at once for everyone.

The rows go piece by piece behind the answer (``housekeeping``), so that no trainer waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from fastapi import APIRouter
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import Response

from tocsin_server.access import Identity
from tocsin_server.api.permission import PROBLEMS, Editor
from tocsin_server.removal import mark_on, mark_project, mark_runs
from tocsin_server.responses import Problem
from tocsin_server.services import Services, services_of

router = APIRouter(tags=["deletion"], responses=PROBLEMS)

Marked = TypeVar("Marked", list[str], list[str] | None)


@router.delete("/runs/{run_id:path}", status_code=204, response_class=Response)
async def delete_run(request: Request, run_id: str, identity: Editor) -> Response:
    """Deletes a run: records, events, alerts, everything. A trainer still in it begins a new run."""
    mark = partial(mark_runs, run_ids=[run_id], now_ns=time.time_ns(), actor=actor_of(identity))
    if not await _marked(services_of(request), mark):
        raise Problem(404, subject="run", expected="the id of a run", got=run_id)
    return _gone()


@router.delete("/projects/{name:path}", status_code=204, response_class=Response)
async def delete_project(request: Request, name: str, identity: Editor) -> Response:
    """Deletes a project with all of its runs. Tokens for it stay."""
    mark = partial(mark_project, name=name, now_ns=time.time_ns(), actor=actor_of(identity))
    if await _marked(services_of(request), mark) is None:
        raise Problem(404, subject="project", expected="the name of a project", got=name)
    return _gone()


def actor_of(identity: Identity) -> str:
    """Who acts, as the audit log names them."""
    return f"{identity.token_id} {identity.name}".strip()


async def _marked(services: Services, mark: Callable[[Connection], Marked]) -> Marked:
    """Raises a 503 Problem while the database fails."""
    try:
        found = await asyncio.wrap_future(mark_on(services.writer, mark))
    except SQLAlchemyError as error:
        raise Problem(503, subject="database", expected="one that works", got=type(error).__name__) from error
    for run_id in found or ():
        services.pipeline.forget(run_id)
    return found


def _gone() -> Response:
    return Response(status_code=204, headers={"cache-control": "no-store"})
