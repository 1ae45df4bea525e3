"""``POST /runs/{id}/embed``: create the signed link of an embedded chart (``http/embed.py``)."""

from __future__ import annotations

import time
from typing import Annotated

from pydantic import Field, StringConstraints
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.embed_links import LONGEST_DAYS, embed_path
from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.deletion import actor_of
from tocsin_server.http.api.permission import Editor
from tocsin_server.http.api.query import known_run
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.services import services_of
from tocsin_server.store import audit
from tocsin_server.store.connection import Connection

router = resource("runs")

DAY_S = 86_400


class NewEmbed(Body):
    """Which series to show, and for how many days."""

    series: Annotated[str, StringConstraints(min_length=1, max_length=250)]
    days: Annotated[int, Field(ge=1, le=LONGEST_DAYS)] = 30


class EmbedLink(TypedDict):
    """The path and query of the page for an iframe, and until when it is valid."""

    path: str
    until_ms: float


@router.post("/runs/{run_id:path}/embed", response_model=EmbedLink)
def embed_chart(request: Request, run_id: str, wanted: NewEmbed, identity: Editor) -> ExactJSON:
    """Create a link that shows one chart of the run to anyone who has it, without a login."""
    services = services_of(request)
    stored = known_run(services.reader, run_id)
    if wanted.series not in {each.name for each in stored.series}:
        detail = f"Run {run_id} has no series {wanted.series[:200]!r}."
        raise Problem(404, subject="series", expected="a series of the run", got=wanted.series, detail=detail)
    now_ns = time.time_ns()
    until = now_ns // 10**9 + wanted.days * DAY_S

    def note(connection: Connection) -> None:
        details = {"series": wanted.series, "days": wanted.days}
        audit.note(connection, now_ns, actor_of(identity), "run.embed", run_id, details)

    services.writer.call(note).result()
    return ExactJSON(
        {"path": embed_path(services.delivery.key, run_id, wanted.series, until), "until_ms": until * 1e3}
    )
