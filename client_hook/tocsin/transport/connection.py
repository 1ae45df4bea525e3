"""One websocket on one plain non-blocking socket.

Sans-I/O ``ClientProtocol`` instead of ``websockets.sync``: the latter starts two threads
a connection, and from Python 3.12 on no thread can be started while the interpreter shuts
down, which is when the last records of a run are sent.
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


class LostError(Exception):
    """The connection is gone: why, the code of the websocket's close, and what was said just before."""

    def __init__(self, reason: str, code: int | None = None, messages: Sequence[bytes] = ()) -> None:
        super().__init__(reason)
        self.code = code
        self.messages = messages


def resolve(target: Target) -> list[Address]:
    """Addresses of the server; may wait for the name service. Raises :class:`LostError`."""
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise LostError(f"the name {target.host} is not known here: {error}") from error
    return [(family, address) for family, _, _, _, address in found]


def is_numeric(target: Target) -> bool:
    """Whether the server is named by an address, so that no name service is asked."""
    try:
        socket.getaddrinfo(target.host, target.port, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return False
    return True


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """Reading the certificates of the system takes tens of milliseconds: once."""
    return ssl.create_default_context()


class Connection:
    """Connects to the first address that answers, then carries binary messages.

    Every method returns at once. ``pump`` moves what can be moved; it and ``send`` raise
    :class:`LostError`.
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
        self._next_address(now, LostError(f"{target.base}: no address"))

    @property
    def open(self) -> bool:
        """The websocket handshake is done."""
        return self._connected and not self._shaking and self._protocol.state is State.OPEN

    @property
    def waits_on(self) -> socket.socket | None:
        """The socket to wait on."""
        return self._socket

    @property
    def wants_write(self) -> bool:
        """Something waits for room in the socket, or for the connection itself."""
        return bool(self._out) or not self._connected or self._shaking

    @property
    def deadline(self) -> float:
        """When a handshake that is not done is given up."""
        return float("inf") if self.open else self._deadline

    def send(self, message: bytes) -> None:
        """Queues one binary message and sends what the socket takes."""
        self._protocol.send_binary(message)
        self._write()

    def ping(self) -> None:
        """Asks the peer for a sign of life."""
        self._protocol.send_ping(b"")
        self._write()

    def pump(self, now: float) -> tuple[list[bytes], bool]:
        """Messages that came in, and whether any byte came in."""
        if not self.open and now >= self._deadline:
            self._give_up(now)
        if not (self._connected or self._finish_connecting(now)):
            return [], False
        if self._shaking and not self._shake():
            return [], False
        self._write()
        heard = self._read()
        messages = list(self._messages())
        self._write()
        if self._protocol.state in (State.CLOSING, State.CLOSED):
            raise self._closed(messages)
        return messages, heard

    def close(self) -> None:
        """Says goodbye if the socket takes it at once, and closes it."""
        if self._socket is None:
            return
        try:
            if self.open:
                self._protocol.send_close(1000)
                self._write()
        except (LostError, OSError):
            pass
        self._socket.close()
        self._socket = None

    def forget(self) -> None:
        """In a forked child: the descriptor goes, without a byte to the peer."""
        if self._socket is not None:
            fd = self._socket.detach()
            self._socket = None
            if fd >= 0:
                os.close(fd)

    def _next_address(self, now: float, reason: LostError) -> None:
        """Starts connecting to the next address; ``reason`` is raised when none is left."""
        while self._addresses:
            self._drop()
            family, address = self._addresses.pop(0)
            try:
                self._socket = socket.socket(family, socket.SOCK_STREAM)
                self._socket.setblocking(False)
                code = self._socket.connect_ex(address)
            except OSError as error:
                reason = LostError(f"{self._target.base}: {error}")
                continue
            self._deadline = now + CONNECT_S
            if code in (0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY):
                return
            reason = LostError(f"{self._target.base}: {os.strerror(code)}")
        self._drop()
        raise reason

    def _give_up(self, now: float) -> None:
        late = LostError(f"{self._target.base}: no answer within {CONNECT_S:g} s")
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
            self._next_address(now, LostError(f"{self._target.base}: {os.strerror(code)}"))
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
            raise LostError(f"{self._target.base}: TLS: {error}") from error
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
            # What the peer said before it closed may still be readable: _read tells.
            self._out.clear()
            if self._protocol.state is State.CLOSED:
                raise LostError(f"{self._target.base}: {error}") from error

    def _read(self) -> bool:
        assert self._socket is not None
        heard = False
        while True:
            try:
                data = self._socket.recv(_READ)
            except _BLOCKED:
                return heard
            except OSError as error:
                raise LostError(f"{self._target.base}: {error}", self._protocol.close_code) from error
            if not data:
                self._protocol.receive_eof()
                return heard
            heard = True
            self._protocol.receive_data(data)

    def _messages(self) -> Iterator[bytes]:
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT):
                self._parts.append(bytes(event.data))
                if event.fin:
                    yield b"".join(self._parts)
                    self._parts.clear()

    def _closed(self, messages: list[bytes]) -> LostError:
        failed = self._protocol.handshake_exc
        if failed is not None:
            return LostError(f"{self._target.base}: {failed}", None, messages)
        code = self._protocol.close_code
        reason = self._protocol.close_reason or "without a reason"
        return LostError(f"{self._target.base}: closed by the server ({code}: {reason})", code, messages)
