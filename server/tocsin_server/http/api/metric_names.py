"""``GET /metric-names``: the names of the series that runs have, for suggestions."""

from __future__ import annotations

from typing import Annotated

import anyio.to_thread
from fastapi import Query
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.responses import ExactJSON
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.query import WHOLE
from tocsin_server.http.api.resource import resource
from tocsin_server.http.services import services_of

router = resource("runs")

MOST = 5000


class MetricName(TypedDict):
    """A series, and how many runs have it."""

    name: str
    runs: int


class MetricNameList(TypedDict):
    """Names of series, the most frequent first. ``more`` says whether there are others."""

    items: list[MetricName]
    more: bool


@router.get("/metric-names", response_model=MetricNameList)
async def list_metric_names(
    request: Request,
    _identity: Reader,
    project: str | None = None,
    limit: Annotated[int, Query(ge=1, le=MOST), WHOLE] = 1000,
) -> ExactJSON:
    """List the names of the series of all runs, or of one project's runs."""
    reader = services_of(request).reader
    found, more = await anyio.to_thread.run_sync(reader.metric_names, project, limit)
    return ExactJSON({"items": [{"name": name, "runs": runs} for name, runs in found], "more": more})
