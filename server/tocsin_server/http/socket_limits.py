"""Wrap uvicorn's protocol classes with limits on what a peer may do before and after login.

uvicorn limits neither the size of request headers nor the time that they may take, holds whole pipelines and
whole responses in memory, and answers pings even if the peer does not read. This module adds limits around
these classes; uvicorn still implements HTTP and WebSocket.
"""

from __future__ import annotations

import asyncio
import http
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from tocsin.protocol import PATH
from tocsin_server.core.settings import Settings
from tocsin_server.http.connections import (
    HELD,
    STRANGER_ALLOWANCE,
    Connection,
    Connections,
    Inbound,
    Receiver,
    group_of,
)

NO_ROOM = "The server has too many connections. Try again later."
HEAD = "request headers"
"""Name of the request headers in errors and in the log."""
MOST_HEADERS = 128
MOST_PIPELINED = 8
"""Maximum number of pipelined requests. Browsers send none before the response."""
PIECE = 16 << 10
"""Bytes of WebSocket frames that are parsed at a time: one read may contain a thousand messages."""
MESSAGE = 300
"""Bytes of memory that a message takes in addition to its contents."""
SWEEP_S = 1.0
BODY_FACTOR = 8
"""Maximum ratio of a body's bytes on the wire to its limit, because of chunks of one byte."""
DISCARDED = 64 << 20
"""Bytes of a rejected body that are discarded if its length was declared; the client reads after sending."""
STRANGERS_SHARE = 0.25
"""Share of the receive budget for WebSockets whose first message is not complete."""


class RefusedError(Exception):
    """Raised to stop the parser after a request was answered while it was parsed."""


class Bounded:
    """State that all connections of a server share."""

    def __init__(self, settings: Settings, connections: Connections) -> None:
        self.settings = settings
        self.connections = connections
        self.inbound = Inbound(settings.receive_bytes)
        self.strangers_bytes = 0
        """Bytes received on WebSockets whose first message is not complete."""
        self.of_transport: dict[asyncio.BaseTransport, Connection] = {}
        self._sweeping = False

    def opened(self, transport: asyncio.Transport, connection: Connection) -> bool:
        """Count a connection; return False if there is no room for it."""
        if not self.connections.add(connection):
            return False
        self.of_transport[transport] = connection
        if not self._sweeping:
            self._sweeping = True
            asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
        return True

    def lost(self, transport: asyncio.BaseTransport) -> None:
        """Forget a closed connection."""
        connection = self.of_transport.pop(transport, None)
        if connection is not None:
            self.connections.remove(connection)

    def _sweep(self) -> None:
        now = self.connections.clock()
        for transport, connection in self.of_transport.items():
            if connection.closing_since is None and transport.is_closing():
                connection.closing_since = now
        self.connections.sweep()
        self._sweeping = bool(self.of_transport)
        if self._sweeping:
            asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)


class BoundedHTTP(HttpToolsProtocol):
    """HTTP with limits on request headers, the time of the body, pipelining, and connections."""

    shared: ClassVar[Bounded]
    _connection: Connection | None = None
    _in_head = False
    _in_body = False
    _begun = 0
    _part_bytes = 0
    """Bytes read of the current headers or body, without the read in which they began."""
    _answered = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        remote = get_remote_addr(transport)
        connection = Connection(group_of(remote[0] if remote else None), self._late, transport.abort)
        if not self.shared.opened(transport, connection):
            self._refuse(503, NO_ROOM)
            return
        self._connection = connection
        self._expect(HEAD, self.shared.settings.head_timeout_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self.shared.lost(self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._answered:
            return
        part = (self._begun, self._in_head, self._in_body)
        super().data_received(data)
        if self._answered or part != (self._begun, self._in_head, self._in_body):
            return
        self._part_bytes += len(data)
        settings = self.shared.settings
        if self._in_head and self._part_bytes > settings.limit_head_bytes:
            self._head_too_large()
        elif self._in_body and self._part_bytes > self._most_body_bytes():
            self._refuse(413, f"The request body is larger than {settings.limit_body_bytes} bytes.")

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._in_body, self._part_bytes = True, False, 0
        self._begun += 1
        if self._begun > 1:
            self._expect(HEAD, self.shared.settings.head_timeout_s)

    def on_url(self, url: bytes) -> None:
        self._check_head(len(self.url) + len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: trailers are not used, and their number is not limited
        self._check_head(0)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._check_head(len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers))
        if len(self.pipeline) >= MOST_PIPELINED:
            self._refuse(429, f"More than {MOST_PIPELINED} pipelined requests. Wait for a response first.")
            raise RefusedError
        self._in_head, self._in_body, self._part_bytes = False, True, 0
        self._expect("request body", self.shared.settings.body_timeout_s)
        super().on_headers_complete()
        if self._connection is not None and self._connection.evictable and self.cycle is not None:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        self._in_body = False
        if self.cycle is None or not self.cycle.response_complete:
            self._our_turn()
        else:
            self._their_turn()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not (self.pipeline or self._in_head or self._in_body):
            self._their_turn()
        super().on_response_complete()

    # Callbacks of uvicorn

    def handle_websocket_upgrade(self) -> None:
        kind = "trainer" if self.url.partition(b"?")[0].endswith(PATH.encode()) else "page"
        connection = self._connection
        if connection is None or not self.shared.connections.may_stay_open(connection, kind):
            self._refuse(503, NO_ROOM)
            return
        self._expect("", None)
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        if not self._answered:
            super().send_400_response(msg)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._connection is not None:
            self._connection.stuck_since = self.shared.connections.clock()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._connection is not None:
            self._connection.stuck_since = None

    # Waiting for the peer

    def _our_turn(self) -> None:
        self._expect("", None)
        if self._connection is not None:
            self.shared.connections.waits(self._connection, False)

    def _their_turn(self) -> None:
        """Wait for the next request on a kept-alive connection; the next byte stops uvicorn's own timer."""
        self._expect(HEAD, self.timeout_keep_alive + self.shared.settings.head_timeout_s)
        if self._connection is not None:
            self.shared.connections.waits(self._connection, True)

    def _expect(self, what: str, seconds: float | None) -> None:
        if self._connection is not None:
            deadline = None if seconds is None else self.shared.connections.clock() + seconds
            self._connection.expect(what, deadline)

    def _most_body_bytes(self) -> int:
        most = BODY_FACTOR * self.shared.settings.limit_body_bytes
        is_rejected = self.cycle is not None and self.cycle.response_complete
        is_declared = any(name == b"content-length" for name, _ in self.headers)
        return max(most, DISCARDED) if is_rejected and is_declared else most

    # Responses of this class

    def _late(self, what: str) -> None:
        if self.flow.read_paused:  # the rest of the body is not read: the application is slow, not the peer
            self._expect(what, self.shared.settings.body_timeout_s)
        else:
            self._refuse(408, f"The {what} did not arrive in time.")

    def _check_head(self, size: int) -> None:
        if size > self.shared.settings.limit_head_bytes or len(self.headers) >= MOST_HEADERS:
            self._head_too_large()
            raise RefusedError

    def _head_too_large(self) -> None:
        limit = self.shared.settings.limit_head_bytes
        why = f"more than {limit} bytes of request line and headers, or {MOST_HEADERS} headers"
        self.shared.connections.acted("head", self._connection.group if self._connection else "", why)
        self._refuse(431, f"The request has {why}.")

    def _refuse(self, status: int, sentence: str) -> None:
        """Respond instead of the application and close the connection; ignore further input."""
        if self._answered:
            return
        self._answered = True
        if self.cycle is None or not self.cycle.response_started or self.cycle.response_complete:
            body = f"{sentence}\n".encode()
            head = (
                f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\n"
                "content-type: text/plain; charset=utf-8\r\n"
                f"content-length: {len(body)}\r\n"
                "connection: close\r\n" + ("retry-after: 5\r\n" if status == 503 else "") + "\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()


class Counted(asyncio.Queue[Any]):
    """Queue of messages for the application that counts the bytes of memory in it."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self.put_count = 0

    def _put(self, item: Any) -> None:
        self.bytes += size_of_message(item)
        self.put_count += 1
        super()._put(item)

    def _get(self) -> Any:
        item = super()._get()
        self.bytes -= size_of_message(item)
        return item


def size_of_message(message: Any) -> int:
    """Return the bytes of memory of a message for the application."""
    return MESSAGE + len(message.get("bytes") or message.get("text") or b"")


class BoundedWebSocket(WebSocketsSansIOProtocol, Receiver):
    """WebSocket that limits unprocessed data, and stops reading from a peer that does not read."""

    shared: ClassVar[Bounded]

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.queue: Counted = Counted()
        self._connection: Connection | None = None
        self._stranger = True
        """Whether the first message is not complete yet."""
        self._raw = bytearray()
        """Received bytes that are not parsed yet."""
        self._partial = 0
        """Bytes parsed since the last complete message."""
        self._in_hand = 0
        """Bytes of the message that the application is processing."""
        self._counted = 0
        """Bytes that count towards the limit before the first message is complete."""
        self._holds: set[str] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connection = self.shared.of_transport.get(transport)
        if self._connection is not None:
            self._connection.close, self._connection.abort = self._late, self.transport.abort
            self.shared.connections.waits(self._connection, True)

    def connection_lost(self, exc: Exception | None) -> None:
        self.shared.lost(self.transport)
        self._count_stranger(0)
        self.shared.inbound.forget(self)
        self._raw.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._raw += data
        self._feed()

    async def run_asgi(self) -> None:
        extensions: dict[str, Any] = self.scope["extensions"]
        extensions[HELD] = lambda: bool(self._holds)
        await super().run_asgi()

    async def receive(self) -> Any:
        self._in_hand = 0
        self._count()
        message = await super().receive()
        self._in_hand = size_of_message(message)
        if message["type"] == "websocket.receive" and self._stranger:
            self._stranger = False
            self._count_stranger(0)
            if self._connection is not None:
                self.shared.connections.waits(self._connection, False)
        self._feed()
        return message

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.close_sent:
            self._feed()  # the peer's response to the close may have arrived already

    def _feed(self) -> None:
        """Parse received bytes up to the next message; parse the rest when that message was taken."""
        while (
            self._raw
            and self.writable.is_set()
            and not self.transport.is_closing()
            and (self.close_sent or self.queue.empty())
        ):
            piece = bytes(self._raw[:PIECE])
            del self._raw[:PIECE]
            messages = self.queue.put_count
            self._partial += len(piece)
            super().data_received(piece)
            if self.queue.put_count != messages:
                self._partial = 0
        self._count()

    def _count(self) -> None:
        if self.disconnected:
            return
        held = len(self._raw) + self._partial + self.queue.bytes + self._in_hand
        if self._stranger:
            self._count_stranger(held)
        else:
            self.shared.inbound.count(self, held)

    def _count_stranger(self, held: int) -> None:
        shared = self.shared
        shared.strangers_bytes += held - self._counted
        self._counted = held
        limit = shared.settings.receive_bytes * STRANGERS_SHARE
        if shared.strangers_bytes > limit and held > STRANGER_ALLOWANCE:
            group = self._connection.group if self._connection else ""
            shared.connections.acted("strangers", group, "too much data before the first message")
            self.transport.abort()

    # Reading

    def hold(self) -> None:
        self._stop("budget")

    def release(self) -> None:
        self._go_on("budget")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop("writes")  # pings are answered: a peer that does not read must not cause more responses
        if self._connection is not None:
            self._connection.stuck_since = self.shared.connections.clock()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._connection is not None:
            self._connection.stuck_since = None
        self._go_on("writes")
        self._feed()

    def _stop(self, why: str) -> None:
        self._holds.add(why)
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def _go_on(self, why: str) -> None:
        self._holds.discard(why)
        if not self._holds and self.read_paused and self.queue.empty() and not self.transport.is_closing():
            self.read_paused = False
            self.transport.resume_reading()

    # Timeouts

    def keepalive_timeout(self) -> None:
        """Ignore the timeout while reading is paused, because a pong could not have been read."""
        if self.read_paused and self.writable.is_set() and not self.transport.is_closing():
            self.pong_timer = None
            self.pending_ping_payload = None
            self.schedule_ping()
            return
        super().keepalive_timeout()

    def _late(self, _what: str) -> None:
        self.transport.abort()


def bounded(settings: Settings, connections: Connections) -> tuple[type[BoundedHTTP], type[BoundedWebSocket]]:
    """Return the two protocol classes of one server."""
    shared = {"shared": Bounded(settings, connections)}
    return type("HTTP", (BoundedHTTP,), shared), type("WebSocket", (BoundedWebSocket,), shared)
