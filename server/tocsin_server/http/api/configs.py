"""``GET /configs``: the configuration of every run, so that a page can filter runs by it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.responses import ExactJSON
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.resource import resource
from tocsin_server.http.services import services_of
from tocsin_server.store.run_rows import configs

router = resource("runs")


class ConfigRow(TypedDict):
    """The configuration of a run as its training process sent it."""

    id: str
    config: Any


class ConfigList(TypedDict):
    """All runs that have a configuration."""

    items: list[ConfigRow]


@router.get("/configs", response_model=ConfigList)
def list_configs(request: Request, _identity: Reader, project: str | None = None) -> ExactJSON:
    """List the configurations of all runs, or of one project's runs."""
    with services_of(request).database.reader.connect() as connection:
        found = configs(connection, project)
    return ExactJSON({"items": [{"id": name, "config": config} for name, config in found.items()]})
