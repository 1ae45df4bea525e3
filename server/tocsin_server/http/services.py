"""What the routers of row 3 need, gathered by app.py and found on every request and websocket."""

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
    """The parts of one running server."""

    settings: Settings
    database: Database
    writer: StoreWriter
    reader: StoreReader
    pipeline: Pipeline
    hub: Hub
    gate: Gate
    live: Any
    """The BroadcastServer of live.py, which this row must not import."""
    requests: RequestCoordinator
    delivery: Delivery
    connections: Connections


def services_of(connection: HTTPConnection) -> Services:
    """The services of the application that serves this request or websocket."""
    return cast(Services, connection.app.state.services)
