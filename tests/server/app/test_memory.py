"""With every queue full, the server's resident memory stays bounded. Tests a real process under a flood."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from tests.matrix import LONG
from tests.server.conftest import hello_of, sparse_of, wait_until
from tests.server.raw_socket import frame, websocket
from tocsin import protocol

MOST_MB = 384
"""What a flood may add to an idle server, with the default settings (docs/reference/metrics.md)."""
MORE_S = 1.0
"""Seconds for which the flood continues after back-pressure has started."""
FLOODERS = 3
"""Connections of each kind."""
WIDE: dict[str, protocol.Column] = {
    f"a/long/name/of/a/series/{number:04d}": sparse_of([0], [0.5]) for number in range(500)
}
NESTED: dict[str, Any] = {"maps": [{} for _ in range(20_000)]}


def text(no: int) -> protocol.ClientMessage:
    return protocol.Event(no, "note", time.time_ns(), data={"text": "x" * 65_000})


def nested(no: int) -> protocol.ClientMessage:
    return protocol.Event(no, "note", time.time_ns(), data=NESTED)


def wide(no: int) -> protocol.ClientMessage:
    return protocol.Records(no, 1, struct.pack("<q", no), struct.pack("<q", time.time_ns()), WIDE)


def large(no: int) -> protocol.ClientMessage:
    n = 20_000
    steps = protocol.little_endian("q", range(no * n, (no + 1) * n))
    return protocol.Records(no * n, n, steps, steps, {f"s{number}": bytes(8 * n) for number in range(8)})


def swelling(no: int) -> protocol.ClientMessage:
    return protocol.Event(no, "note", time.time_ns(), data={"lists": [[]] * 3_000_000})


KINDS: tuple[Callable[[int], protocol.ClientMessage], ...] = (text, nested, wide, large, swelling)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the database against writes by other connections during the block."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def connected(server: Any) -> socket.socket:
    host, port = server.base.split("//")[1].split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def greeted(server: Any, run: str) -> socket.socket:
    """Return the socket of a client that has completed the handshake and reads nothing from then on."""
    peer = websocket(connected(server))
    config: dict[str, Any] = {"lists": [[] for _ in range(20_000)]}
    peer.sendall(frame(protocol.encode(hello_of(run, server.client_token, config=config))))
    found = b""
    while b"welcome" not in found:
        found += peer.recv(65536)
    return peer


def flood(peer: socket.socket, frames: Iterator[bytes], over: threading.Event) -> None:
    """Send ``frames`` until ``over`` is set or the server closes the connection."""
    peer.settimeout(0.2)
    with peer, contextlib.suppress(ConnectionError):
        while not over.is_set():
            rest = next(frames)
            while rest and not over.is_set():
                with contextlib.suppress(TimeoutError):
                    rest = rest[peer.send(rest) :]


def watch(process: psutil.Process, seen: list[int], over: threading.Event) -> None:
    """Measure the memory of the server until ``over`` is set."""
    while not over.wait(0.02):
        seen.append(process.memory_info().rss)


def frames_of(make: Callable[[int], protocol.ClientMessage]) -> Iterator[bytes]:
    no = 0
    while True:
        yield frame(protocol.encode(make(no)))
        no += 1


def endless(begin: bytes, piece: bytes) -> Iterator[bytes]:
    yield begin
    while True:
        yield piece


@LONG
def test_full_queues_hold_a_bounded_amount_of_memory(start_server: Any, tmp_path: Path) -> None:
    """Nothing can be stored while all clients, also unknown ones, send what needs most memory; then all is
    stored."""
    server = start_server()
    process = psutil.Process(server.process.pid)
    idle = process.memory_info().rss
    clients = [(greeted(server, f"{kind.__name__}{no}"), kind) for kind in KINDS for no in range(FLOODERS)]
    half, begin = frame(bytes(15 << 20))[: 1 << 20], b"GET / HTTP/1.1\r\nHost: x\r\nx: "
    over, seen = threading.Event(), [idle]
    with locked(tmp_path / "tocsin.db"):
        work = [(peer, frames_of(kind), over) for peer, kind in clients]
        work += [(websocket(connected(server)), endless(half, half), over) for _ in range(20)]
        work += [(connected(server), endless(begin, b"x" * 65536), over) for _ in range(20)]
        threads = [threading.Thread(target=flood, args=one) for one in work]
        threads.append(threading.Thread(target=watch, args=(process, seen, over)))
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: server.get("/health")["writer"]["pressed"], "back-pressure")
            time.sleep(MORE_S)  # the flood continues
        finally:
            over.set()
            for thread in threads:
                thread.join()
    assert (max(seen) - idle) / 1e6 < MOST_MB
    wait_until(lambda: server.get("/health")["writer"]["backlog_bytes"] == 0, "the backlog to be stored")
