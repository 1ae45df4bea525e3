"""``/health``, ``/ready``: whether this server is well, for people, proxies and process supervisors."""

from __future__ import annotations

from typing import Any, NotRequired

from fastapi import APIRouter
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server import __version__
from tocsin_server.api.permission import PROBLEMS
from tocsin_server.responses import ExactJSON
from tocsin_server.services import Services, services_of

router = APIRouter(tags=["health"], responses=PROBLEMS)


class Health(TypedDict):
    """``status`` is ``ok``, or ``failing`` while records cannot be made durable."""

    status: str
    version: str
    writer: NotRequired[dict[str, Any]]
    database: NotRequired[str]
    connections: NotRequired[dict[str, int]]
    notifications: NotRequired[dict[str, Any]]


class Readiness(TypedDict):
    """Whether a load balancer should send anything here, and if not, why."""

    ready: bool
    reason: str


@router.get("/health", response_model=Health)
def health(request: Request) -> ExactJSON:
    """Open to all: status and version. With a login: backlog, database and connections."""
    services = services_of(request)
    answer: dict[str, Any] = {"status": _status(services), "version": __version__}
    if request.state.identity is not None:
        answer |= details(services) | {"notifications": services.delivery.health()}
    return ExactJSON(answer)


@router.get("/ready", response_model=Readiness, responses={503: {"model": Readiness}})
def ready(request: Request) -> ExactJSON:
    """200 while the database answers and the writer commits, else 503 with the reason."""
    reason = _unready(services_of(request))
    return ExactJSON({"ready": not reason, "reason": reason}, status_code=503 if reason else 200)


def details(services: Services) -> dict[str, Any]:
    """What somebody who is logged in may see of the server's inside."""
    inside = services.pipeline.health()
    counted = {name: inside.pop(name) for name in ("trainers", "runs") if name in inside}
    return {"writer": inside, "database": services.database.dialect, "connections": counted}


def _status(services: Services) -> str:
    return "failing" if services.writer.failing else "ok"


def _unready(services: Services) -> str:
    if services.writer.failing:
        return "records cannot be made durable"
    try:
        with services.database.reader.connect() as connection:
            connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        return "the database does not answer"
    return ""
