"""``/runs/{id}/embed`` and ``/embeds``: create, list and revoke links of charts (``http/embed.py``)."""

from __future__ import annotations

import secrets
import time
from typing import Annotated, Literal

from pydantic import Field, StringConstraints
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from tocsin_server.core.embed_links import LONGEST_DAYS, chart_text, embed_path, read_chart
from tocsin_server.core.formula import FormulaError
from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.deletion import actor_of
from tocsin_server.http.api.embedded_chart import ChartOfRun
from tocsin_server.http.api.permission import Editor
from tocsin_server.http.api.query import known_run
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.services import Services, services_of
from tocsin_server.store import audit
from tocsin_server.store.connection import Connection
from tocsin_server.store.embed_links import EmbedLink, add_link, count_links, delete_link, links, read_link

router = resource("runs")

DAY_S = 86_400
LONGEST = 2_000
"""Characters of a chart, for the address."""
MOST = 1_000
"""Links that have not expired."""


class NewEmbed(Body):
    """What to show, and for how many days.

    ``series`` is a series, or a chart as in the address of the run page: ``list:`` and up to 16 names, one a
    line, ``formula:``, ``spread:``, ``scatter:`` and two names, or ``media:`` and the name of an object.
    ``log`` are its logarithmic axes.
    """

    series: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST)]
    log: Annotated[list[Literal["x", "y"]], Field(max_length=2, default_factory=list)]
    days: Annotated[int, Field(ge=1, le=LONGEST_DAYS)] = 30


class MadeEmbed(TypedDict):
    """The path and query of the page for an iframe, and until when it is valid."""

    id: str
    path: str
    until_ms: float


class EmbedItem(MadeEmbed):
    """A link that was given out: its chart, also in words, who created it, and when."""

    run: str
    run_name: str
    chart: str
    title: str
    author: str
    created_ms: float


class EmbedList(TypedDict):
    """Links that have not expired, newest first."""

    items: list[EmbedItem]


@router.post("/runs/{run_id:path}/embed", response_model=MadeEmbed)
def embed_chart(request: Request, run_id: str, wanted: NewEmbed, identity: Editor) -> ExactJSON:
    """Create a link that shows one chart of the run to anyone who has it, without a login."""
    services = services_of(request)
    stored = known_run(services.reader, run_id)
    chart = chart_text(wanted.series, {each.name for each in stored.series}, wanted.log)
    try:
        absent = ChartOfRun(services.reader, stored, read_chart(chart)).missing()
    except FormulaError as error:
        raise Problem(
            422, subject="series", expected="a formula", got=wanted.series, detail=str(error)
        ) from error
    if absent is not None:
        detail = f"Run {run_id} has no series or object {absent[:200]!r}."
        raise Problem(404, subject="series", expected="a series of the run", got=absent, detail=detail)
    now_ns = time.time_ns()
    now_s, actor = now_ns // 10**9, actor_of(identity)
    link = EmbedLink(f"e_{secrets.token_hex(8)}", run_id, chart, actor, now_ns, now_s + wanted.days * DAY_S)

    def store(connection: Connection) -> None:
        if count_links(connection, now_s) >= MOST:
            detail = f"There are {MOST} links already. Revoke one first."
            raise Problem(422, subject="embeds", expected=f"at most {MOST} links", detail=detail)
        add_link(connection, link, now_s)
        details = {"series": wanted.series, "days": wanted.days}
        audit.note(connection, now_ns, actor, "run.embed", run_id, details)

    services.writer.call(store).result()
    return ExactJSON(_made(services, link))


@router.get("/embeds", response_model=EmbedList)
def list_embeds(request: Request, _identity: Editor) -> ExactJSON:
    """List the links that are still valid."""
    services = services_of(request)
    with services.reader.consistent() as connection:
        found = links(connection, int(time.time()))
    items = [
        {
            **_made(services, link),
            "run": link.run_id,
            "run_name": run_name,
            "chart": link.chart,
            "title": read_chart(link.chart).title,
            "author": link.author,
            "created_ms": link.created_ns / 1e6,
        }
        for link, run_name in found
    ]
    return ExactJSON({"items": items})


@router.delete("/embeds/{link_id}", status_code=204, response_class=Response)
def revoke_embed(request: Request, link_id: str, identity: Editor) -> Response:
    """Revoke a link: pages that embed its chart no longer show it."""

    def work(connection: Connection) -> EmbedLink | None:
        link = read_link(connection, link_id)
        if link is not None:
            delete_link(connection, link_id)
            details = {"series": link.chart}
            audit.note(connection, time.time_ns(), actor_of(identity), "run.unembed", link.run_id, details)
        return link

    if services_of(request).writer.call(work).result() is None:
        raise Problem(404, subject="embed", expected="the id of a link", got=link_id)
    return Response(status_code=204, headers={"cache-control": "no-store"})


def _made(services: Services, link: EmbedLink) -> dict[str, object]:
    path = embed_path(services.delivery.key, link.id, link.run_id, link.chart, link.until_s)
    return {"id": link.id, "path": path, "until_ms": link.until_s * 1e3}
