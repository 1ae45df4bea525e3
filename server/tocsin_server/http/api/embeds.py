"""``POST /runs/{id}/embed``: create the signed link of an embedded chart (``http/embed.py``)."""

from __future__ import annotations

import time
from typing import Annotated

from pydantic import Field, StringConstraints
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.embed_links import LIST, LONGEST_DAYS, embed_path, names_in
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
LONGEST = 2_000
"""Characters of a chart, for the address."""


class NewEmbed(Body):
    """What to show, and for how many days: a series, or ``list:`` and up to 16 names, one a line."""

    series: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST)]
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
    known = {each.name for each in stored.series}
    chart = wanted.series if wanted.series in known else LIST + "\n".join(names_in(wanted.series))
    names = names_in(chart)
    if not names or (absent := next((name for name in names if name not in known), None)) is not None:
        got = absent if names else wanted.series
        detail = f"Run {run_id} has no series {str(got)[:200]!r}."
        raise Problem(404, subject="series", expected="a series of the run", got=got, detail=detail)
    now_ns = time.time_ns()
    until = now_ns // 10**9 + wanted.days * DAY_S

    def note(connection: Connection) -> None:
        details = {"series": wanted.series, "days": wanted.days}
        audit.note(connection, now_ns, actor_of(identity), "run.embed", run_id, details)

    services.writer.call(note).result()
    return ExactJSON(
        {"path": embed_path(services.delivery.key, run_id, chart, until), "until_ms": until * 1e3}
    )
