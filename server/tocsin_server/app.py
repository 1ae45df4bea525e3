"""Puts the parts together: one FastAPI application, its parts started and stopped in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

import anyio.to_thread
from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware

from tocsin_server import __version__, acklink, ingest, live, login, metrics, plotlyjs
from tocsin_server.access import Token
from tocsin_server.actions import Desk
from tocsin_server.api import (
    about,
    acks,
    alerts,
    audit,
    backtest,
    changes,
    channels,
    configs,
    deletion,
    deliveries,
    description,
    events,
    failures,
    health,
    layers,
    marks,
    projects,
    records,
    report,
    routes,
    rulefiles,
    rules,
    runs,
    series,
    session,
    silences,
    tokens,
    trial,
    tunings,
)
from tocsin_server.auth import Auth
from tocsin_server.delivery.service import Delivery
from tocsin_server.guard import Guard
from tocsin_server.housekeeping import Housekeeper
from tocsin_server.hub import Hub
from tocsin_server.live import LiveRoom
from tocsin_server.login import Attempts
from tocsin_server.pages import SecurityHeaders, page_routes, web_directory
from tocsin_server.pipeline import Pipeline
from tocsin_server.plotlyjs import PlotlyJS
from tocsin_server.recorder import Recorder, record_flights
from tocsin_server.responses import ExactJSON
from tocsin_server.rulebook import watch_rules
from tocsin_server.services import Services
from tocsin_server.settings import Settings
from tocsin_server.siblings import watch_siblings
from tocsin_server.store import tokens as token_store
from tocsin_server.store.database import Database, migrate, open_database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.writer import StoreWriter
from tocsin_server.watchdog import watch

API = "/api/v1"
# Those with a longer path first: a run's id may hold a slash, so `/runs/{id}` takes what is left over.
RESOURCES = (
    series,
    layers,
    records,
    events,
    report,
    runs,
    acks,
    marks,
    alerts,
    rules,
    tunings,
    rulefiles,
    backtest,
    projects,
    tokens,
    session,
    health,
    deletion,
    changes,
    configs,
    channels,
    routes,
    silences,
    deliveries,
    audit,
    trial,
    about,
)
GZIP_LEVEL = 4
REFRESH_S = 1.0
"""How often tokens are read again: a token revoked by another process counts within this and one more."""

log = logging.getLogger("tocsin.app")


def create_app(settings: Settings) -> FastAPI:
    """The application, on a database brought to the newest schema. Its lifespan starts and stops the parts.

    Raises StartError where the pages or plotly.js are missing, and what the database raises.
    """
    web, plotly = web_directory(), plotlyjs.installed()
    migrate(settings.url)
    database = open_database(settings.url)
    services = assemble(settings, database)
    app = FastAPI(
        title="tocsin",
        version=__version__,
        description="The alarm bell for training runs. Non-finite numbers are the strings NaN, Infinity, "
        "-Infinity; arrays are Plotly's typed form, float64.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=ExactJSON,
        lifespan=_lifespan(services, plotly),
        middleware=[
            Middleware(SecurityHeaders),
            Middleware(Guard, settings=settings, gate=services.gate),
            Middleware(GZipMiddleware, minimum_size=1000, compresslevel=GZIP_LEVEL),
            Middleware(failures.Crashes),
        ],
    )
    app.state.services = services
    app.state.attempts = Attempts(settings.login_attempts)
    app.state.plotly_version = plotly.version
    failures.install(app)
    description.describe(app)
    for resource in RESOURCES:
        app.include_router(resource.router, prefix=API)
    pages = page_routes(web, plotly)
    for router in (ingest.router, live.router, metrics.router, login.router, acklink.router, pages):
        app.include_router(router)
    return app


def assemble(settings: Settings, database: Database) -> Services:
    """The parts of a server, not started yet."""
    writer = StoreWriter(database, interval_s=settings.commit_ms / 1000, limit_bytes=settings.backlog_bytes)
    reader = StoreReader(database)
    hub = Hub()
    pipeline = Pipeline(settings, writer, reader, hub)
    gate = Auth(settings, lambda: stored_tokens(database))
    room = LiveRoom(pipeline, hub, settings)
    desk = Desk(pipeline)
    delivery = Delivery(settings, database, writer, reader, hub)
    return Services(settings, database, writer, reader, pipeline, hub, gate, room, desk, delivery)


def stored_tokens(database: Database) -> Iterable[Token]:
    """The tokens in the database, revoked ones too."""
    with database.reader.connect() as connection:
        return token_store.tokens(connection)


def _lifespan(services: Services, plotly: PlotlyJS):  # type: ignore[no-untyped-def] # starlette's own type is private
    housekeeper = Housekeeper(services.settings, services.database, services.writer, services.pipeline)

    recorder = Recorder(services.database, services.writer)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        services.writer.start()
        await services.pipeline.start()
        services.live.start()
        await services.delivery.start()
        tasks = [
            asyncio.create_task(watch(services.pipeline), name="watchdog"),
            asyncio.create_task(watch_siblings(services.pipeline, services.reader), name="siblings"),
            asyncio.create_task(watch_rules(services.pipeline.rulebook, services.pipeline), name="rules"),
            asyncio.create_task(housekeeper.keep(), name="housekeeping"),
            asyncio.create_task(record_flights(recorder), name="flights"),
            asyncio.create_task(_keep_tokens_fresh(services), name="tokens"),
            asyncio.create_task(_compress(plotly), name="plotly"),
        ]
        try:
            yield
        finally:
            await _stop(services, tasks)

    return lifespan


async def _compress(plotly: PlotlyJS) -> None:
    """So that the first page does not wait for it."""
    await anyio.to_thread.run_sync(lambda: plotly.script_gzipped)


async def _keep_tokens_fresh(services: Services) -> None:
    while True:
        await asyncio.sleep(REFRESH_S)
        await anyio.to_thread.run_sync(services.gate.refresh)


async def _stop(services: Services, tasks: list[asyncio.Task[None]]) -> None:
    """Stops the parts in the order of a step's way. None of them may hold the server up for ever."""
    limit_s = services.settings.shutdown_s
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
    parts = (("delivery", services.delivery), ("live", services.live), ("pipeline", services.pipeline))
    for name, part in parts:
        try:
            await asyncio.wait_for(part.stop(), limit_s)
        except Exception as error:  # noqa: BLE001 - the other parts must still be stopped
            log.warning("%s did not stop in order: %r", name, error)
    await anyio.to_thread.run_sync(services.writer.stop, limit_s)
    # A cancelled task leaves its query running in a thread, and a connection in use cannot be closed.
    await asyncio.get_running_loop().shutdown_default_executor()
    services.database.fold_log()
    services.database.close()
