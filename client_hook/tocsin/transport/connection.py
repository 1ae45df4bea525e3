"""A WebSocket on a non-blocking socket.

It uses the sans-I/O ``ClientProtocol``, because ``websockets.sync`` starts two threads for each connection,
and since Python 3.12 no thread can be started while the interpreter shuts down, which is when the last
records of a run are sent.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State

from .server_url import Target

CONNECT_S = 5.0
_READ = 65536
_BLOCKED = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
Address = tuple[int, Any]
"""Address family and socket address."""


class ConnectionLostError(Exception):
    """The connection is lost: the reason, the WebSocket close code, and the last messages before it."""

    def __init__(self, reason: str, code: int | None = None, messages: Sequence[bytes] = ()) -> None:
        super().__init__(reason)
        self.code = code
        self.messages = messages


def resolve(target: Target) -> list[Address]:
    """Return the addresses of the server. Blocks while the name is resolved.

    Raises:
        ConnectionLostError: The name cannot be resolved.
    """
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConnectionLostError(f"the name {target.host} cannot be resolved: {error}") from error
    return [(family, address) for family, _, _, _, address in found]


def is_numeric(target: Target) -> bool:
    """Return whether the host is an IP address, so that no name has to be resolved."""
    try:
        socket.getaddrinfo(target.host, target.port, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return False
    return True


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """Return the TLS context. It is cached because loading the certificates takes tens of milliseconds."""
    return ssl.create_default_context()


class Connection:
    """Connect to the first address that responds, then exchange binary messages.

    No method blocks. ``pump`` and ``send`` raise ConnectionLostError if the connection is lost.
    """

    def __init__(self, target: Target, addresses: Sequence[Address], now: float) -> None:
        self._target = target
        self._addresses = list(addresses)
        self._socket: socket.socket | None = None
        self._protocol = ClientProtocol(target.websocket, max_size=4 << 20)
        self._out = bytearray()
        self._parts: list[bytes] = []
        self._connected = self._shaking = False
        self._deadline = now
        self._next_address(now, ConnectionLostError(f"{target.base} has no address"))

    @property
    def open(self) -> bool:
        """Whether the WebSocket handshake is complete."""
        return self._connected and not self._shaking and self._protocol.state is State.OPEN

    @property
    def waits_on(self) -> socket.socket | None:
        """The socket to wait for."""
        return self._socket

    @property
    def wants_write(self) -> bool:
        """Whether to wait until the socket can be written to."""
        return bool(self._out) or not self._connected or self._shaking

    @property
    def deadline(self) -> float:
        """The time at which an incomplete handshake is aborted."""
        return float("inf") if self.open else self._deadline

    def send(self, message: bytes) -> None:
        """Queue a binary message, and send as much as the socket accepts."""
        self._protocol.send_binary(message)
        self._write()

    def ping(self) -> None:
        """Send a ping."""
        self._protocol.send_ping(b"")
        self._write()

    def pump(self, now: float) -> tuple[list[bytes], bool]:
        """Send and receive without blocking.

        Returns:
            The complete messages, and whether any bytes were received.

        Raises:
            ConnectionLostError: The connection was closed or timed out.
        """
        if not self.open and now >= self._deadline:
            self._give_up(now)
        if not (self._connected or self._finish_connecting(now)):
            return [], False
        if self._shaking and not self._shake():
            return [], False
        self._write()
        has_received = self._read()
        messages = list(self._messages())
        self._write()
        if self._protocol.state in (State.CLOSING, State.CLOSED):
            raise self._closed(messages)
        return messages, has_received

    def close(self) -> None:
        """Send a close frame if the socket accepts it immediately, and close the socket."""
        if self._socket is None:
            return
        try:
            if self.open:
                self._protocol.send_close(1000)
                self._write()
        except (ConnectionLostError, OSError):
            pass
        self._socket.close()
        self._socket = None

    def forget(self) -> None:
        """In a forked child: close the descriptor without sending anything."""
        if self._socket is not None:
            fd = self._socket.detach()
            self._socket = None
            if fd >= 0:
                os.close(fd)

    def _next_address(self, now: float, reason: ConnectionLostError) -> None:
        """Start connecting to the next address. Raise ``reason`` if there is none left."""
        while self._addresses:
            self._drop()
            family, address = self._addresses.pop(0)
            try:
                self._socket = socket.socket(family, socket.SOCK_STREAM)
                self._socket.setblocking(False)
                code = self._socket.connect_ex(address)
            except OSError as error:
                reason = ConnectionLostError(f"{self._target.base}: {error}")
                continue
            self._deadline = now + CONNECT_S
            if code in (0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY):
                return
            reason = ConnectionLostError(f"{self._target.base}: {os.strerror(code)}")
        self._drop()
        raise reason

    def _give_up(self, now: float) -> None:
        late = ConnectionLostError(f"{self._target.base}: no response within {CONNECT_S:g} s")
        if self._connected:
            raise late
        self._next_address(now, late)

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _finish_connecting(self, now: float) -> bool:
        sock = self._socket
        assert sock is not None
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._next_address(now, ConnectionLostError(f"{self._target.base}: {os.strerror(code)}"))
            return False
        try:
            sock.getpeername()
        except OSError:
            return False
        self._connected = True
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._target.secure:
            self._wrap(sock)
        self._protocol.send_request(self._protocol.connect())
        return True

    def _wrap(self, sock: socket.socket) -> None:
        self._socket = _tls().wrap_socket(
            sock, server_hostname=self._target.host, do_handshake_on_connect=False
        )
        self._shaking = True

    def _shake(self) -> bool:
        assert isinstance(self._socket, ssl.SSLSocket)
        try:
            self._socket.do_handshake()
        except _BLOCKED:
            return False
        except (OSError, ValueError) as error:
            raise ConnectionLostError(f"{self._target.base}: TLS: {error}") from error
        self._shaking = False
        return True

    def _write(self) -> None:
        for data in self._protocol.data_to_send():
            self._out += data
        if self._socket is None or not self._connected or self._shaking:
            return
        try:
            while self._out:
                del self._out[: self._socket.send(self._out)]
        except _BLOCKED:
            pass
        except OSError as error:
            # What the server sent before it closed may still be readable: _read returns it.
            self._out.clear()
            if self._protocol.state is State.CLOSED:
                raise ConnectionLostError(f"{self._target.base}: {error}") from error

    def _read(self) -> bool:
        assert self._socket is not None
        has_received = False
        while True:
            try:
                data = self._socket.recv(_READ)
            except _BLOCKED:
                return has_received
            except OSError as error:
                raise ConnectionLostError(
                    f"{self._target.base}: {error}", self._protocol.close_code
                ) from error
            if not data:
                self._protocol.receive_eof()
                return has_received
            has_received = True
            self._protocol.receive_data(data)
            if self._protocol.handshake_exc is not None:  # it may send more without end
                raise self._closed([])

    def _messages(self) -> Iterator[bytes]:
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT):
                self._parts.append(bytes(event.data))
                if event.fin:
                    yield b"".join(self._parts)
                    self._parts.clear()

    def _closed(self, messages: list[bytes]) -> ConnectionLostError:
        failed = self._protocol.handshake_exc
        if failed is not None:
            return ConnectionLostError(f"{self._target.base}: {failed}", None, messages)
        code = self._protocol.close_code
        reason = self._protocol.close_reason or "without a reason"
        return ConnectionLostError(
            f"{self._target.base}: closed by the server ({code}: {reason})", code, messages
        )
