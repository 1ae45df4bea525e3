"""``GET /configs``: what every run was configured with, so that a page can filter runs by it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.api.permission import PROBLEMS, Reader
from tocsin_server.responses import ExactJSON
from tocsin_server.services import services_of

router = APIRouter(tags=["runs"], responses=PROBLEMS)


class ConfigRow(TypedDict):
    """The configuration of a run, as its trainer gave it."""

    id: str
    config: Any


class ConfigList(TypedDict):
    """All runs that have a configuration."""

    items: list[ConfigRow]


@router.get("/configs", response_model=ConfigList)
def list_configs(request: Request, _identity: Reader, project: str | None = None) -> ExactJSON:
    """Configurations of all runs, or of those of one project."""
    runs = services_of(request).reader.runs()
    chosen = [run for run in runs if run.config is not None and project in (None, run.project)]
    return ExactJSON({"items": [{"id": run.id, "config": run.config} for run in chosen]})
