"""Give routers access to the services of the running server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import HTTPConnection

from tocsin_server.core.permissions import Gate
from tocsin_server.core.settings import Settings

if TYPE_CHECKING:
    from tocsin_server.delivery.service import Delivery
    from tocsin_server.http.connections import Connections
    from tocsin_server.runs.client_requests import RequestCoordinator
    from tocsin_server.runs.pipeline import Pipeline
    from tocsin_server.runs.pubsub import Hub
    from tocsin_server.store.database import Database
    from tocsin_server.store.reader import StoreReader
    from tocsin_server.store.writer import StoreWriter


@dataclass(frozen=True)
class Services:
    """The services of one running server."""

    settings: Settings
    database: Database
    writer: StoreWriter
    reader: StoreReader
    pipeline: Pipeline
    hub: Hub
    gate: Gate
    live: Any
    """The BroadcastServer of ``live/endpoint.py``, which this module must not import."""
    requests: RequestCoordinator
    delivery: Delivery
    connections: Connections


def services_of(connection: HTTPConnection) -> Services:
    """Return the services of the application that serves this request or WebSocket."""
    return cast(Services, connection.app.state.services)
