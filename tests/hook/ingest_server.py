"""A real WebSocket server for protocol 1 that can be configured to misbehave.

It stores data as the real server does: for each writer, only above the last durable number, and acknowledged
after it was stored. Its data survives a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from tocsin import protocol

DEADLINE_S = 20.0


def wait_until(condition: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Wait for ``condition``; fail with its name if it does not become true."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"not true within {deadline_s} s: {condition}"
        time.sleep(0.005)


def closed_port() -> int:
    """Return a loopback port that is not in use."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@dataclass
class Kept:
    """What is durable of one writer."""

    hellos: list[protocol.Hello] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    columns: dict[str, list[float]] = field(default_factory=dict)
    events: list[protocol.Event] = field(default_factory=list)
    finish: protocol.Finish | None = None
    alive: list[protocol.Alive] = field(default_factory=list)
    seq: int = -1
    no: int = -1
    resent: int = 0

    def take(self, message: protocol.Records) -> None:
        """Store what is above the last durable record."""
        steps = struct.unpack(f"<{message.n}q", message.step)
        for index in range(message.n):
            if message.seq + index <= self.seq:
                self.resent += 1
                continue
            self.seq = message.seq + index
            self.seqs.append(self.seq)
            self.steps.append(steps[index])
            for name, column in message.cols.items():
                if isinstance(column, bytes):
                    value = struct.unpack_from("<d", column, 8 * index)[0]
                    self.columns.setdefault(name, []).append(value)

    def take_event(self, message: protocol.Event | protocol.Finish) -> None:
        """Store what is above the last durable event."""
        if message.no <= self.no:
            return
        self.no = message.no
        if isinstance(message, protocol.Finish):
            self.finish = message
        else:
            self.events.append(message)


class IngestServer:
    """Server in a separate thread on loopback. Its settings may be changed at any time."""

    def __init__(self) -> None:
        self.writers: dict[protocol.WriterId, Kept] = {}
        self.port = 0
        self.withhold_acks = False
        self.ack_twice = False
        self.ack_after_s = 0.0
        self.flush_ms = 20
        self.drop_after: int | None = None
        self.refuse: protocol.Refused | None = None
        self.close_code = 4401
        self.say: list[protocol.Alert | protocol.Request | protocol.Refused] = []
        self.health = '{"status": "ok", "version": "0.1.0"}'
        self.token: str | None = None
        self.tls: ssl.SSLContext | None = None
        self.connections = 0
        self.largest_flight = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._open: set[ServerConnection] = set()

    @property
    def url(self) -> str:
        """The URL for a training script."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def only(self) -> Kept:
        """Return the only writer."""
        (kept,) = self.writers.values()
        return kept

    def start(self) -> None:
        """Start listening, on the previous port if there was one."""
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)))
        self._thread.start()
        assert ready.wait(DEADLINE_S)

    def stop(self) -> None:
        """Stop immediately: connections are aborted, stored data stays."""
        if self._thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join(DEADLINE_S)
            self._thread = None

    def drop_connections(self) -> None:
        """Cut every connection, as a failing network does."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._abort)

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        listening = serve(
            self._talk, "127.0.0.1", self.port, ping_interval=None, process_request=self._answer, ssl=self.tls
        )
        async with listening as server:
            self.port = next(iter(server.sockets)).getsockname()[1]
            ready.set()
            await self._stopped.wait()
            self._abort()

    def _abort(self) -> None:
        for connection in list(self._open):
            connection.transport.abort()

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path == protocol.PATH:
            return None
        return connection.respond(200 if request.path == "/api/v1/health" else 404, self.health)

    async def _talk(self, connection: ServerConnection) -> None:
        self._open.add(connection)
        try:
            with contextlib.suppress(ConnectionClosed):
                await self._converse(connection)
        finally:
            self._open.discard(connection)

    async def _converse(self, connection: ServerConnection) -> None:
        self.connections += 1
        hello = protocol.decode_client(await self._frame(connection))
        assert isinstance(hello, protocol.Hello)
        refusal = self._refusal(hello)
        if refusal is not None:
            await connection.send(protocol.encode(refusal))
            await connection.close(self.close_code)
            return
        kept = self.writers.setdefault(hello.writer, Kept())
        kept.hellos.append(hello)
        welcome = protocol.Welcome(1, hello.run or "r_1", 0, kept.seq, kept.no, self.flush_ms)
        await connection.send(protocol.encode(welcome))
        for message in self.say:
            await connection.send(protocol.encode(message))
        await self._listen(connection, kept)

    def _refusal(self, hello: protocol.Hello) -> protocol.Refused | None:
        """Check like the real server: first the token, then the rest of the hello."""
        if self.token is not None and hello.token != self.token:
            return protocol.Refused("connection", "bad-token", "a valid ingest token", "one that is unknown")
        if hello.writer.rank < 0:
            return protocol.Refused("connection", "bad-hello", "a rank from 0 on", str(hello.writer.rank))
        return self.refuse

    async def _listen(self, connection: ServerConnection, kept: Kept) -> None:
        flight = 0
        while True:
            message = protocol.decode_client(await self._frame(connection))
            flight = flight + 1 if isinstance(message, protocol.Records) else flight
            self.largest_flight = max(self.largest_flight, flight)
            self._keep(message, kept)
            if self.drop_after is not None and len(kept.seqs) >= self.drop_after:
                self.drop_after = None
                connection.transport.abort()
            if not self.withhold_acks:
                flight = 0
                await asyncio.sleep(self.ack_after_s)
                for _ in range(1 + self.ack_twice):
                    await connection.send(protocol.encode(protocol.Ack(kept.seq, kept.no, self.flush_ms)))

    async def _frame(self, connection: ServerConnection) -> bytes:
        frame = await connection.recv()
        assert isinstance(frame, bytes)
        return frame

    def _keep(self, message: protocol.ClientMessage, kept: Kept) -> None:
        if isinstance(message, protocol.Records):
            kept.take(message)
        elif isinstance(message, (protocol.Event, protocol.Finish)):
            kept.take_event(message)
        elif isinstance(message, protocol.Alive):
            kept.alive.append(message)
