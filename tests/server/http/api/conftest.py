"""A server on either database for the API's tests, and a client that uses the real protocol."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, cast

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.matrix import DATABASES
from tests.server.conftest import ServerProcess, server_process
from tests.server.own_postgres import OwnPostgres
from tocsin import protocol
from tocsin.protocol import Ack, Event, Finish, Hello, Records, WriterId, little_endian

_numbers = itertools.count(1)
ON_BOTH = (
    "records", "series", "runs", "layers", "events", "alerts", "acks", "marks", "silences", "projects",
    "about", "rules", "run_changes", "remedies", "saved_views",
    "layouts", "baselines", "compare", "compare_groups",
)  # fmt: skip
"""Tests of these routes run on Postgres too, with ``TOCSIN_TEST_ALL``: their responses come from the
database."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the server of each test: on DATABASES if the module is one of ON_BOTH."""
    routes = metafunc.module.__name__.rpartition(".test_")[2]
    if routes in ON_BOTH and "server" in metafunc.fixturenames:
        metafunc.parametrize("kind", DATABASES, indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """The database of a test's server."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture(scope="session")
def server_on_postgres(
    own_postgres: OwnPostgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """One real server process on Postgres for all tests that do not stop it."""
    address = own_postgres.migrated_database().render_as_string(hide_password=False)
    with server_process(tmp_path_factory.mktemp("server"), "--database-url", address) as running:
        yield running


@pytest.fixture
def server(request: pytest.FixtureRequest, server: ServerProcess, kind: str) -> ServerProcess:
    """The server of all tests on SQLite, or the one on Postgres."""
    if kind == "sqlite":
        return server
    on_postgres: ServerProcess = request.getfixturevalue("server_on_postgres")
    return on_postgres


Cells = Sequence[float | None]


def _column(values: Cells) -> protocol.Column:
    """Return values as a column of the protocol; None is a record without a value."""
    present = [(row, value) for row, value in enumerate(values) if value is not None]
    packed = little_endian("d", [value for _, value in present])
    if len(present) == len(values):
        return packed
    return protocol.Sparse(little_endian("I", [row for row, _ in present]), packed)


class Trainer:
    """One client; each call returns once the server has stored the data durably."""

    def __init__(self, socket: ClientConnection, hello: Hello) -> None:
        self._socket = socket
        self._seq = self._no = 0
        self.run = self._exchange(hello, protocol.Welcome).run

    def _exchange(self, message: protocol.ClientMessage, kind: type[Any]) -> Any:
        self._socket.send(protocol.encode(message))
        return self._received_at(kind)

    def _received_at(self, kind: type[Any]) -> Any:
        while not isinstance(message := protocol.decode_server(cast(bytes, self._socket.recv(30))), kind):
            pass
        return message

    def _durable(self, message: protocol.ClientMessage) -> None:
        ack = self._exchange(message, Ack)
        while (ack.seq, ack.events) != (self._seq - 1, self._no - 1):
            ack = self._received_at(Ack)

    def records(
        self, columns: Mapping[str, Cells], *, first_step: int = 0, times_ns: Sequence[int] | None = None
    ) -> None:
        """Send one record for each row of ``columns``, by default all of them of now."""
        n = len(next(iter(columns.values())))
        step = little_endian("q", range(first_step, first_step + n))
        t = little_endian("q", times_ns or [time.time_ns()] * n)
        seq, self._seq = self._seq, self._seq + n
        self._durable(Records(seq, n, step, t, {name: _column(cells) for name, cells in columns.items()}))

    def event(self, kind: str, *, step: int | None = None, **data: Any) -> None:
        """Send one event."""
        self._no += 1
        self._durable(Event(self._no - 1, kind, time.time_ns(), step, data))

    def disconnect(self) -> None:
        """Disappear without the end of the training."""
        self._socket.close()

    def finish(self) -> None:
        """End this training."""
        self._no += 1
        self._durable(Finish(self._no - 1, time.time_ns(), records=self._seq))


@pytest.fixture
def trainer(server: Any) -> Iterator[Callable[..., Trainer]]:
    """``trainer(project=..., name=..., run=...)``: a connected client; disconnected after the test."""
    with ExitStack() as stack:

        def begin(**hello: Any) -> Trainer:
            number = next(_numbers)
            address = server.base.replace("http", "ws", 1) + protocol.PATH
            socket = stack.enter_context(connect(address))
            now_ns = time.time_ns()  # the server takes what the handshake needs for a difference of clocks
            defaults = {"project": "p", "name": f"run {number}", "run": f"r_{number}", "world_size": 1}
            who = WriterId(f"launch-{number}", 0, "boot", number, now_ns)
            fields: dict[str, Any] = (
                defaults | {"token": server.client_token, "host": "node", "time_ns": now_ns} | hello
            )
            return Trainer(socket, Hello(version=protocol.VERSION, writer=who, **fields))

        yield begin
