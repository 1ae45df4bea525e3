"""``PATCH /runs/{id}``: puts a run away, out of the fleet's sight, and takes it back. Nothing is deleted."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict
from sqlalchemy import Connection, update
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request

from tocsin_server.api.deletion import actor_of
from tocsin_server.api.permission import PROBLEMS, Editor
from tocsin_server.api.shapes import RunRow
from tocsin_server.responses import ExactJSON, Problem
from tocsin_server.services import services_of
from tocsin_server.store import audit
from tocsin_server.store.tables import run

router = APIRouter(tags=["runs"], responses=PROBLEMS)


class RunChange(BaseModel):
    """What may be changed of a run."""

    model_config = ConfigDict(extra="forbid")

    archived: bool


def set_archived(connection: Connection, run_id: str, archived: bool, now_ns: int, actor: str) -> bool:
    """Whether there is such a run; notes who changed it."""
    found = connection.execute(update(run).where(run.c.id == run_id).values(archived=archived)).rowcount
    if found:
        audit.note(connection, now_ns, actor, "run.archive" if archived else "run.unarchive", run_id)
    return bool(found)


@router.patch("/runs/{run_id:path}", response_model=RunRow)
async def change_run(request: Request, run_id: str, change: RunChange, identity: Editor) -> ExactJSON:
    """Archives a run, or brings it back. Its trainer, records, rules and alerts go on as before."""
    services = services_of(request)
    work = partial(
        set_archived,
        run_id=run_id,
        archived=change.archived,
        now_ns=time.time_ns(),
        actor=actor_of(identity),
    )
    try:
        found = await asyncio.wrap_future(services.writer.call(work))
    except SQLAlchemyError as error:
        raise Problem(503, subject="database", expected="one that works", got=type(error).__name__) from error
    board = await services.pipeline.roster.find(run_id) if found else None
    if board is None:
        raise Problem(404, subject="run", expected="the id of a run", got=run_id)
    board.card.archived = change.archived
    services.hub.changed(run_id)
    return ExactJSON(board.row(time.time_ns()))
