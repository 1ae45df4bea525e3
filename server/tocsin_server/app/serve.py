"""Run the server: bind the port, lock the database, print the address, and shut down in order."""

from __future__ import annotations

import logging
import math
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from tocsin_server import __version__
from tocsin_server.app.application import create_app, stored_tokens
from tocsin_server.core.collector import calm_collector
from tocsin_server.core.errors import StartError
from tocsin_server.core.permissions import Scope, Token
from tocsin_server.core.settings import Settings
from tocsin_server.http.auth.authentication import ADMIN, TRAINER
from tocsin_server.http.auth.login import login_address
from tocsin_server.http.socket_limits import bounded
from tocsin_server.store.connection import URL, SQLAlchemyError
from tocsin_server.store.database import database_url, migrate, open_database, parsed_url
from tocsin_server.store.ownership import PostgresLock, sole_on_file

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LISTEN_BACKLOG = 2048
MOST_FILES = 65_536

log = logging.getLogger("tocsin.serve")


class AnnouncedServer(uvicorn.Server):
    """uvicorn server that reports once when it accepts requests. It installs its own signal handlers."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            calm_collector()
            self._announce()


def serve(settings: Settings, announce: Callable[[str], None]) -> int:
    """Serve until a signal arrives; return the exit status.

    Args:
        settings: The settings of the server.
        announce: Called with the startup message once the server accepts requests.

    Raises:
        StartError: The port is in use, tokens for a public address are missing, the database is unavailable,
            or another server uses it. The text says what to do.
    """
    os.umask(0o077)  # the files of this process contain secrets and the configurations of trainings
    displaced: list[str] = []
    raise_file_limit()
    with listening(settings) as listener, sole_server(settings) as lock, ending_quietly():
        prepare(settings)
        base = address(settings, listener.getsockname()[1])
        app = create_app(settings)
        app.state.services.delivery.base = base
        server = AnnouncedServer(
            uvicorn_config(app, settings), lambda: announce(startup_message(settings, base))
        )

        def stop(reason: str) -> None:
            log.error("%s", reason)
            displaced.append(reason)
            server.should_exit = True

        if lock is not None:
            lock.monitor(app.state.services.database.gate, stop)
        server.run(sockets=[listener])
    return 0 if server.started and not displaced else 1


def raise_file_limit() -> None:
    """Raise the limit of open files to the hard limit, because every connection is a file."""
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextmanager
def ending_quietly() -> Iterator[None]:
    """Ignore the signal that uvicorn raises again after it has shut down."""
    kept = signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, kept)


def uvicorn_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """Return the uvicorn configuration: our request log, limited connections, a bounded shutdown."""
    http, websocket = bounded(settings, app.state.services.connections)
    return uvicorn.Config(
        app,
        http=http,
        ws=websocket,
        ws_max_size=settings.websocket_bytes,
        ws_per_message_deflate=False,  # increases the cost of a client's frame by half (measured)
        ws_ping_interval=20.0,
        ws_ping_timeout=20.0,
        timeout_graceful_shutdown=max(1, math.ceil(settings.shutdown_s)),
        access_log=False,  # it logs query strings, and that of a login link contains the token
        log_config=None,
        server_header=False,
        proxy_headers=bool(settings.public_url or settings.root_path),
        lifespan="on",
    )


def set_up_logging() -> None:
    """Log to standard error; from uvicorn only warnings, because its messages contain query strings."""
    logging.basicConfig(format=LOG_FORMAT, level=logging.INFO)
    for name in ("uvicorn", "uvicorn.error", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


@contextmanager
def listening(settings: Settings) -> Iterator[socket.socket]:
    """Yield a bound socket. Raises StartError if the port is in use or the address is not local."""
    try:
        listener = _bound(settings.host, settings.port)
    except OSError as error:
        raise StartError(_why_not_bound(settings, error)) from error
    with listener:
        yield listener


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, where = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(LISTEN_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _why_not_bound(settings: Settings, error: OSError) -> str:
    place = f"{settings.host}:{settings.port}"
    if isinstance(error, socket.gaierror):
        return f"Cannot listen on {settings.host!r}: {error.strerror}. Pass an address of this machine."
    return (
        f"Cannot listen on {place}: {error.strerror}. "
        "Is another tocsin-server running? Use `--port N` for another port, or `--port 0` for any free one."
    )


@contextmanager
def sole_server(settings: Settings) -> Iterator[PostgresLock | None]:
    """Prevent other servers from using the database.

    Yields:
        The lock to watch, if it can be lost while the server runs (Postgres).

    Raises:
        StartError: Another server uses the database, or it does not respond.
    """
    url = _url_or_fail(database_url, settings.url)
    if url.get_backend_name() == "sqlite":
        with sole_on_file(Path(str(url.database))):
            yield None
        return
    lock = PostgresLock(url, shown_url(settings))
    try:
        lock.take()
        yield lock
    finally:
        lock.release()


def _url_or_fail(read: Callable[[str], URL], url: str) -> URL:
    """Return the URL that ``read`` finds. Raises StartError if it cannot be parsed or is not supported."""
    try:
        return read(url)
    except ValueError as error:
        raise StartError(str(error)) from error


def prepare(settings: Settings) -> None:
    """Migrate the database and check that a public address has tokens. Raises StartError."""
    try:
        migrate(settings.url)
    except (SQLAlchemyError, OSError, ValueError) as error:
        raise StartError(f"database {shown_url(settings)}: {_first_line(error)}") from error
    if settings.loopback or settings.allow_admin_link:
        return
    database = open_database(settings.url)
    try:
        missing = missing_tokens(list(stored_tokens(database)))
    finally:
        database.close()
    if missing:
        raise StartError(_not_open(settings, missing))


def missing_tokens(tokens: list[Token]) -> list[str]:
    """Return the commands that create the missing tokens: one for clients and one for users."""
    scopes = {token.scope for token in tokens if token.revoked_ns is None}
    commands = []
    if Scope.INGEST not in scopes:
        commands.append("tocsin-server token create trainers --scope ingest")
    if not scopes & {Scope.READ, Scope.WRITE, Scope.ADMIN}:
        commands.append("tocsin-server token create me --scope admin")
    return commands


def _not_open(settings: Settings, missing: list[str]) -> str:
    lines = "\n".join(f"  {command}" for command in missing)
    return (
        f"host {settings.host}: other machines can reach this address, so you must create tokens first:\n"
        f"{lines}\n"
        "(on the same --data-dir and --database-url), or --allow-admin-link to accept the printed link."
    )


def address(settings: Settings, port: int) -> str:
    """Return the URL of the server for a user."""
    if settings.public_url:
        return settings.public_url
    host = socket.gethostname() if settings.host in ("0.0.0.0", "::", "") else settings.host  # noqa: S104
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}{settings.root_path}"


def startup_message(settings: Settings, base: str) -> str:
    """Return the startup message: address, login link, and the lines for a training script."""
    own = settings.loopback or settings.allow_admin_link
    link = login_address(base, ADMIN.secret(settings.data_dir)) if own else f"{base}/login"
    token = TRAINER.secret(settings.data_dir) if own else "TOKEN_OF_SCOPE_INGEST"
    note = (
        "keep it to yourself; it stays the same across restarts"
        if own
        else "replace the token with one that you created"
    )
    return f"""
tocsin {__version__} at {base}
Database: {shown_url(settings)}

Open in a browser ({note}):
  {link}

Paste into a training script:
  import tocsin
  run = tocsin.watch("my-project", url="{base}", token="{token}")

or keep the secret out of the script:
  export TOCSIN_URL={base} TOCSIN_TOKEN={token if own else "..."}

Ctrl-C stops the server; training continues and sends its data later.
"""


def shown_url(settings: Settings) -> str:
    """Return the database URL without its password."""
    return _url_or_fail(parsed_url, settings.url).render_as_string(hide_password=True)


def _first_line(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]
