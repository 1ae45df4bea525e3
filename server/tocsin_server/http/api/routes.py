"""``/routes``: routes, inhibitions and mute times as one document."""

from __future__ import annotations

import asyncio
import time

from pydantic import BaseModel, ConfigDict
from starlette.requests import Request

from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.delivery.router import routing_of
from tocsin_server.http.api.deletion import actor_of
from tocsin_server.http.api.documents import RoutingDocument
from tocsin_server.http.api.permission import Admin, Reader
from tocsin_server.http.api.resource import resource
from tocsin_server.http.services import services_of
from tocsin_server.notify.routing import EVERY, Routing, plain, problems, read_routing
from tocsin_server.store import alert_groups, audit, notification_config
from tocsin_server.store.connection import Connection

router = resource("routes")


class NewRouting(BaseModel):
    """An omitted part takes its default."""

    model_config = ConfigDict(extra="allow")


@router.get("/routes", response_model=RoutingDocument)
def read_routes(request: Request, _identity: Reader) -> ExactJSON:
    """Return the document in effect, or the defaults if none was written."""
    with services_of(request).database.reader.connect() as connection:
        return _answer(routing_of(connection))


@router.put("/routes", response_model=RoutingDocument)
async def write_routes(request: Request, wanted: NewRouting, identity: Admin) -> ExactJSON:
    """Replace the document. Errors name the field and the reason."""
    services = services_of(request)
    routing = read_routing(wanted.model_extra or {})

    def work(connection: Connection) -> None:
        check_channels(connection, routing)
        now_ns = time.time_ns()
        details = {"before": plain(routing_of(connection)), "after": plain(routing)}
        notification_config.write_choice(connection, notification_config.ROUTING, plain(routing), now_ns)
        alert_groups.route_again(connection)
        audit.note(connection, now_ns, actor_of(identity), "routes.change", "routes", details)

    await asyncio.wrap_future(services.writer.call(work))
    services.delivery.wake()
    services.live.changed("routes")
    return _answer(routing)


def _answer(routing: Routing) -> ExactJSON:
    return ExactJSON({**plain(routing), "problems": problems(routing)})


def check_channels(connection: Connection, routing: Routing) -> None:
    """Raise a 422 Problem for a route to a channel that does not exist."""
    known = {row.name for row in notification_config.channels(connection)} | {EVERY}
    for at, route in enumerate(routing.routes):
        for name in route.channels:
            if name not in known:
                expected = f"one of {', '.join(sorted(known))}"
                raise Problem(422, subject=f"routes[{at}].channels", expected=expected, got=name)
