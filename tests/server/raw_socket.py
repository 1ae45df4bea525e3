"""WebSocket frames built by hand, for data that no client library would send."""

from __future__ import annotations

import socket
import struct

from tocsin import protocol

KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"


def frame(payload: bytes, opcode: int = 2) -> bytes:
    """Return a client's WebSocket frame. Its mask is zero, so the payload is unchanged."""
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | size)
    elif size < 65536:
        head = struct.pack("!BBH", 0x80 | opcode, 0xFE, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0xFF, size)
    return head + bytes(4) + payload


def websocket(peer: socket.socket) -> socket.socket:
    """Complete the WebSocket handshake of a client, without sending a hello."""
    lines = b"Host: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    peer.sendall(b"GET " + protocol.PATH.encode() + b" HTTP/1.1\r\n" + lines + KEY)
    found = b""
    while b"\r\n\r\n" not in found:
        found += peer.recv(65536)
    assert found.startswith(b"HTTP/1.1 101")
    return peer
