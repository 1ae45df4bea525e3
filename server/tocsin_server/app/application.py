"""Build the FastAPI application; start and stop its services in order."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio.to_thread
from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware

from tocsin_server import __version__
from tocsin_server.core.permissions import Token
from tocsin_server.core.responses import ExactJSON
from tocsin_server.core.settings import Settings
from tocsin_server.delivery.service import Delivery
from tocsin_server.detect.rules.catalog import rule_modules
from tocsin_server.http import embed, ingest, mcp, metrics, plotlyjs
from tocsin_server.http.api import (
    about,
    acks,
    alerts,
    audit,
    backtest,
    baselines,
    changes,
    channels,
    checkpoints,
    compare,
    compare_groups,
    configs,
    console,
    deletion,
    deliveries,
    description,
    diagnose,
    embeds,
    events,
    failures,
    health,
    incidents,
    layers,
    layouts,
    markdown,
    marks,
    media,
    metric_names,
    projects,
    push,
    records,
    remedies,
    report,
    routes,
    rule_scope,
    rulefiles,
    rules,
    run_changes,
    runs,
    saved_views,
    series,
    session,
    silences,
    similar,
    tokens,
    trial,
    tunings,
)
from tocsin_server.http.api.methods import Methods
from tocsin_server.http.auth import ack_link, login
from tocsin_server.http.auth.authentication import Auth
from tocsin_server.http.auth.login import Attempts
from tocsin_server.http.auth.middleware import Guard
from tocsin_server.http.connections import Bounds, Connections
from tocsin_server.http.joined import JoinedFiles
from tocsin_server.http.live import endpoint as live
from tocsin_server.http.live.endpoint import BroadcastServer
from tocsin_server.http.pages import Pieces, SecurityHeaders, page_routes
from tocsin_server.http.plotlyjs import PlotlyJS
from tocsin_server.http.root_path import RootPath
from tocsin_server.http.services import Services
from tocsin_server.http.web_files import web_directory
from tocsin_server.http.zstd import Zstd
from tocsin_server.jobs.cleanup import Housekeeper
from tocsin_server.runs.client_requests import RequestCoordinator
from tocsin_server.runs.pipeline import Pipeline
from tocsin_server.runs.pubsub import Hub
from tocsin_server.runs.rule_assignments import poll_rules
from tocsin_server.runs.similar_runs import SimilarRunFinder, poll_similar_runs
from tocsin_server.runs.watchdog import run_watchdog
from tocsin_server.store import tokens as token_store
from tocsin_server.store.connection import SQLAlchemyError
from tocsin_server.store.database import Database, migrate, open_database
from tocsin_server.store.periodic_jobs import DATABASE, PeriodicJobs
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.writer import StoreWriter

API = "/api/v1"
# The first path that matches is the resource (`methods`): `/runs/{id}/events` comes before `/runs/{id}`,
# whose id may contain slashes, and `/rules/packs` before `/rules/{id}`.
RESOURCES = (
    series,
    layers,
    layouts,
    baselines,
    records,
    events,
    checkpoints,
    media,
    console,
    report,
    embeds,
    remedies,
    deletion,
    run_changes,
    runs,
    similar,
    incidents,
    acks,
    marks,
    alerts,
    rulefiles,
    backtest,
    diagnose,
    rule_scope,
    rules,
    tunings,
    projects,
    tokens,
    session,
    health,
    changes,
    compare,
    compare_groups,
    configs,
    metric_names,
    channels,
    trial,
    routes,
    silences,
    saved_views,
    deliveries,
    push,
    audit,
    markdown,
    about,
)
GZIP_LEVEL = 4
RESERVED_FILES = 256
"""Open files reserved for the database, notifications and other uses besides connections."""
LEAST_CONNECTIONS = 64
REFRESH_S = 1.0
"""Interval of reading the tokens; a token revoked by another process is rejected within twice this time."""
ASK_S = 1.0
"""Interval of checking whether the database responds."""

log = logging.getLogger("tocsin.app")


def create_app(settings: Settings) -> FastAPI:
    """Return the application for a migrated database. Its lifespan starts and stops the services.

    Raises:
        StartError: The pages or plotly.js are missing. Errors of the database are passed on.
    """
    web, plotly = web_directory(), plotlyjs.installed()
    migrate(settings.url)
    database = open_database(settings.url)
    services = assemble(settings, database)
    app = FastAPI(
        title="tocsin",
        version=__version__,
        description="Alerting and live monitoring for training runs. Non-finite numbers are the "
        "strings NaN, Infinity, -Infinity; arrays are Plotly's typed form, float64.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        default_response_class=ExactJSON,
        lifespan=_lifespan(services, plotly),
        servers=[{"url": settings.root_path}] if settings.root_path else None,
        middleware=[
            Middleware(Pieces),
            Middleware(RootPath, root=settings.root_path),
            Middleware(SecurityHeaders, public_url=settings.public_url, hsts_days=settings.hsts_days),
            Middleware(Guard, settings=settings, gate=services.gate),
            Middleware(GZipMiddleware, minimum_size=1000, compresslevel=GZIP_LEVEL),
            Middleware(Zstd),
            Middleware(failures.Crashes),
            Middleware(
                Methods, routes=[route for one in RESOURCES for route in one.router.routes], prefix=API
            ),
        ],
    )
    app.state.services = services
    app.state.attempts = Attempts(settings.login_attempts)
    app.state.plotly_version = plotly.version
    app.state.embedded = embed.Contents()
    app.state.parsing = anyio.CapacityLimiter(markdown.AT_ONCE)
    failures.install(app)
    description.describe(app)
    # Before the API: routers are tried in order, and each prepares its routes when it is first tried.
    app.include_router(ingest.router)
    app.include_router(live.router)
    for resource in RESOURCES:
        app.include_router(resource.router, prefix=API)
    absent = partial(_absent, services.reader)
    pages = page_routes(web, JoinedFiles(web), plotly, settings.root_path, absent)
    for router in (metrics.router, mcp.router, login.router, ack_link.router, embed.router, pages):
        app.include_router(router)
    return app


def _absent(reader: StoreReader, address: str) -> bool:
    """Return whether the page at ``address`` is that of a run or an incident that does not exist."""
    folder, _, name = address.strip("/").partition("/")
    try:
        if folder == "runs":
            return not reader.existing_runs([name])
        return folder == "incidents" and reader.incident(name) is None
    except SQLAlchemyError:  # its page says so
        return False


def assemble(settings: Settings, database: Database) -> Services:
    """Create the services of a server without starting them."""
    jobs, pause_s = PeriodicJobs(), settings.commit_ms / 1000
    writer = StoreWriter(
        database,
        interval_s=pause_s,
        limit_bytes=settings.backlog_bytes,
        jobs=jobs,
        pack_after_s=settings.pack_after_s,
    )
    reader = StoreReader(database)
    hub = Hub()
    pipeline = Pipeline(settings, writer, reader, hub, jobs=jobs)
    gate = Auth(settings, lambda: stored_tokens(database))
    room = BroadcastServer(pipeline, hub, settings)
    requests = RequestCoordinator(pipeline.changes)
    delivery = Delivery(settings, database, writer, reader, hub, jobs=jobs, still_valid=gate.still_valid)
    pipeline.on_clock_set.append(delivery.clock_was_set)
    connections = Connections(bounds_of(settings), time.monotonic)
    return Services(
        settings, database, writer, reader, pipeline, hub, gate, room, requests, delivery, connections
    )


def bounds_of(settings: Settings) -> Bounds:
    """Return the connection limits, given the number of files that the process may open."""
    files = open_files()
    total = settings.limit_connections
    if files is not None:
        total = min(total, max(files - RESERVED_FILES, LEAST_CONNECTIONS))
    return Bounds(total, min(settings.limit_connections_address, max(total * 3 // 4, 1)))


def open_files() -> int | None:
    """Return the number of files that this process may open, or None if it is not limited."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows has no such limit
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def stored_tokens(database: Database) -> Iterable[Token]:
    """Return the tokens in the database, including revoked ones."""
    with database.reader.connect() as connection:
        return token_store.tokens(connection)


def _lifespan(services: Services, plotly: PlotlyJS):  # type: ignore[no-untyped-def] # starlette's own type is private
    pipeline, jobs = services.pipeline, services.pipeline.jobs
    housekeeper = Housekeeper(
        services.settings, services.database, services.writer, pipeline, work=jobs.round("housekeeping")
    )
    siblings = SimilarRunFinder(pipeline, services.reader, work=jobs.round("siblings"))

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        services.writer.start()
        await services.pipeline.start()
        services.live.start()
        await services.delivery.start()
        tasks = [
            asyncio.create_task(run_watchdog(pipeline, jobs.round("watchdog")), name="watchdog"),
            asyncio.create_task(poll_similar_runs(siblings), name="siblings"),
            asyncio.create_task(poll_rules(pipeline.rulebook, pipeline.changes), name="rules"),
            asyncio.create_task(housekeeper.keep(), name="housekeeping"),
            asyncio.create_task(_keep_tokens_fresh(services), name="tokens"),
            asyncio.create_task(_ask_database(services), name="database"),
            asyncio.create_task(_prepare(plotly), name="preparation"),
        ]
        try:
            yield
        finally:
            await _stop(services, tasks)

    return lifespan


async def _prepare(plotly: PlotlyJS) -> None:
    """Import the rules and compress plotly.js, so that no handshake and no page waits for them."""
    await anyio.to_thread.run_sync(rule_modules)
    await anyio.to_thread.run_sync(lambda: plotly.script_gzipped)


async def _keep_tokens_fresh(services: Services) -> None:
    async def refresh() -> None:
        await asyncio.to_thread(services.gate.refresh)

    await services.pipeline.jobs.round("tokens").keep(refresh, REFRESH_S)


async def _ask_database(services: Services) -> None:
    """Check periodically whether the database responds, so that health checks need no query."""

    async def ask() -> None:
        await asyncio.to_thread(services.database.ping)

    await services.pipeline.jobs.round(DATABASE).keep(ask, ASK_S)


async def _stop(services: Services, tasks: list[asyncio.Task[None]]) -> None:
    """Stop the services, the writer last. None of them may block the shutdown."""
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
