"""Limits of the server's sockets before and after login, with real sockets and a real server."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState
from websockets.exceptions import InvalidStatus
from websockets.protocol import State

from tests.server.conftest import ServerThread, hello_of, records_of, server_thread, wait_until
from tests.server.raw_socket import frame, websocket
from tocsin import protocol
from tocsin_server.http import ingest
from tocsin_server.http.pages import PIECE, Pieces
from tocsin_server.http.socket_limits import DISCARDED, BoundedWebSocket

Start = Callable[..., Any]
Dial = Callable[..., Any]
DEADLINE_S = 60.0
HEAD = b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerThread]:
    """One server for all tests with default settings. Each test needs unique run names."""
    place = tmp_path_factory.mktemp("server")
    limits: dict[str, Any] = {"limit_connections": 64, "limit_body_bytes": 1000, "limit_records_per_s": 10**9}
    with server_thread(place, head_timeout_s=DEADLINE_S, body_timeout_s=DEADLINE_S, **limits) as running:
        yield running


@pytest.fixture
def plug() -> Iterator[Callable[[Any], socket.socket]]:
    """``plug(server)``: a plain connection, closed after the test."""
    with contextlib.ExitStack() as stack:

        def connect(server: Any) -> socket.socket:
            host, port = server.base.split("//")[1].split(":")
            made = socket.create_connection((host, int(port)), timeout=DEADLINE_S)
            return stack.enter_context(made)

        yield connect


Plug = Callable[[Any], socket.socket]


def reply_of(peer: socket.socket) -> bytes:
    """Return everything until the server closes."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := peer.recv(65536):
            found += piece
    return found


def shouted(peer: socket.socket, piece: bytes, most: int) -> int:
    """Send ``piece`` repeatedly until the server closes, at most ``most`` bytes; return the number sent."""
    sent = 0
    with contextlib.suppress(OSError):
        while sent < most:
            peer.sendall(piece)
            sent += len(piece)
    return sent


def healthy(server: Any) -> bool:
    answer = httpx.get(f"{server.base}/api/v1/health", timeout=DEADLINE_S)
    return answer.status_code == 200


# The head of a request


@pytest.mark.parametrize(
    ("begin", "piece"),
    [(b"GET /", b"a" * 4096), (HEAD + b"x: ", b"a" * 4096), (HEAD, b"x: 1\r\n"), (HEAD, b"x: 1\r\n" * 600)],
    ids=["url", "value", "headers", "many-at-once"],
)
def test_an_endless_head_is_rejected(server: ServerThread, plug: Plug, begin: bytes, piece: bytes) -> None:
    """The connection ends after a bounded number of bytes, whichever part of the head is endless."""
    before = server.services.connections.closed["head"]
    peer = plug(server)
    peer.sendall(begin)
    sent = shouted(peer, piece, 200 << 20)
    assert sent < 100 << 20  # part of it is in the kernel's buffers
    assert reply_of(peer)[:12] in (b"HTTP/1.1 431", b"")  # "": the kernel discarded it with the unread data
    assert server.services.connections.closed["head"] == before + 1
    assert healthy(server)


def test_a_head_within_the_limit_is_answered(server: ServerThread) -> None:
    """Thirty kilobytes of cookies and a long address are an ordinary request."""
    headers = {"cookie": "c=" + "x" * 20_000}
    answer = httpx.get(f"{server.base}/api/v1/health?{'q' * 8000}", headers=headers)
    assert answer.status_code == 200


UNFINISHED = {
    "silent": b"",
    "empty lines": b"\r\n\r\n",
    "half": HEAD,
    "half of the second": HEAD + b"\r\n" + HEAD,
    "body": b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\ntoken",
}


def test_an_incomplete_request_is_closed(run_server: Start, plug: Plug) -> None:
    """Neither silence nor an incomplete head or body keeps a connection; the response says what is
    missing."""
    server = run_server(head_timeout_s=0.5, body_timeout_s=0.5)
    peers = {name: plug(server) for name in UNFINISHED}
    for name, peer in peers.items():
        peer.sendall(UNFINISHED[name])
    last = {name: reply_of(peer).rpartition(b"HTTP/1.1 ")[2] for name, peer in peers.items()}
    assert {name: answer[:3] for name, answer in last.items()} == dict.fromkeys(UNFINISHED, b"408")
    assert b"The request body did not arrive" in last["body"]
    assert server.services.connections.closed["timeout"] == len(UNFINISHED)


def test_a_refused_body_that_never_comes_is_closed(run_server: Start, plug: Plug) -> None:
    """The response has been sent; the connection is closed as well."""
    server = run_server(body_timeout_s=0.5)
    peer = plug(server)
    peer.sendall(HEAD.replace(b"GET", b"POST") + b"Content-Length: 50\r\n\r\n")
    assert reply_of(peer).startswith(b"HTTP/1.1 4")


def test_a_pipeline_is_bounded(server: ServerThread, plug: Plug) -> None:
    """A thousand requests in one write are not all buffered; the server continues."""
    peer = plug(server)
    peer.sendall((HEAD + b"\r\n") * 1000)
    assert reply_of(peer).count(b"HTTP/1.1 200") <= 10
    assert healthy(server)


def test_requests_behind_each_other_are_answered(server: ServerThread, plug: Plug) -> None:
    """A keep-alive connection serves one request after another, with bodies."""
    peer = plug(server)
    for _ in range(3):
        peer.sendall(b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 7\r\n\r\ntoken=x")
        answer = b""
        while b"</html>" not in answer:
            answer += peer.recv(65536)
        assert b"unknown or was revoked" in answer


def test_a_rejected_body_is_discarded_up_to_a_limit(server: ServerThread, plug: Plug) -> None:
    """Also one that was declared longer; the server continues."""
    peer = plug(server)
    peer.sendall(b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999999999\r\n\r\n")
    assert DISCARDED <= shouted(peer, b"x" * 65536, 400 << 20) < 300 << 20
    assert healthy(server)


def test_trailers_behind_a_body_are_not_kept(server: ServerThread, plug: Plug) -> None:
    """An endless body of small chunks and trailers is ended too."""
    peer = plug(server)
    peer.sendall(b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
    assert shouted(peer, b"x: 1\r\n" * 1000, 200 << 20) < 100 << 20
    assert healthy(server)


# Number of connections


def test_silent_connections_do_not_block_others(server: ServerThread, dial: Dial, plug: Plug) -> None:
    """With twice the limit, a client and a health check connect, and the oldest silent ones are closed."""
    silent = [plug(server) for _ in range(128)]
    assert healthy(server)
    client = dial(server.base, "r2", server.token)
    client.acked(client.train([0], loss=[1.0]))
    assert reply_of(silent[0]) == b""
    assert len(server.services.connections) <= 64
    assert server.services.connections.closed["connections"] >= 60


def test_websockets_without_a_hello_do_not_block_others(server: ServerThread, dial: Dial, plug: Plug) -> None:
    """WebSockets without a handshake count as silent connections."""
    for _ in range(80):
        websocket(plug(server))
    client = dial(server.base, "r0", server.token)
    client.acked(client.train([0], loss=[1.0]))


def test_a_full_server_keeps_its_clients_and_reports_health(run_server: Start, dial: Dial) -> None:
    """If all are logged in, a new one is asked to come later, and the others are not affected."""
    server = run_server(limit_connections=8)
    clients = [dial(server.base, f"r{number}", server.token) for number in range(8)]
    with pytest.raises(InvalidStatus, match="503"):
        dial(server.base)
    assert healthy(server)
    for client in clients:
        client.acked(client.train([0], loss=[1.0]))
    clients[0].socket.close()
    assert dial(server.base, "r9", server.token).welcome.seq == -1


# Websockets


def test_many_messages_in_one_write_are_all_processed(server: ServerThread, plug: Plug) -> None:
    """Messages are parsed on demand, in order and without loss, followed by a close."""
    peer = websocket(plug(server))
    count = 3000
    frames = [frame(protocol.encode(records_of(no, [no], loss=[1.0]))) for no in range(count)]
    peer.sendall(frame(protocol.encode(hello_of("r1", server.token))))
    peer.sendall(b"".join(frames) + frame(struct.pack("!H", 1000), opcode=8))
    reply_of(peer)

    def steps() -> list[int]:
        found: list[int] = server.services.reader.records("r1", limit=10_000).step.tolist()
        return found

    wait_until(lambda: len(steps()) >= count, "all records")
    assert steps() == list(range(count))


def test_large_messages_of_many_come_in_by_turns(run_server: Start, dial: Dial) -> None:
    """Messages of ten times the limit in total are all acked, so processed bytes are no longer counted."""
    server, values = run_server(receive_bytes=200_000), [0.5] * 8000
    clients = [dial(server.base, f"r{number}", server.token) for number in range(4)]
    for client in clients:
        client.train(range(8000), loss=values, **{f"extra{number}": values for number in range(6)})
    for client in clients:
        client.acked(7999)


def test_half_a_hello_holds_little(run_server: Start, dial: Dial, plug: Plug) -> None:
    """Before login, few incomplete bytes are allowed; a small hello is accepted all the same."""
    server = run_server(receive_bytes=400_000)
    half = [websocket(plug(server)) for _ in range(3)]
    for peer in half:
        peer.sendall(frame(bytes(1_000_000))[:60_000])
    assert any(reply_of(peer) == b"" for peer in half[1:])
    assert dial(server.base, "r1", server.token).welcome.seq == -1
    assert server.services.connections.closed["strangers"] >= 1


def test_a_peer_that_pings_and_does_not_read_is_not_read(server: ServerThread, plug: Plug) -> None:
    """The server stops reading from it, because unsent pongs would use unbounded memory."""
    peer = websocket(plug(server))
    peer.settimeout(1.0)
    assert shouted(peer, frame(bytes(100), opcode=9) * 600, 400 << 20) < 200 << 20
    assert healthy(server)


def test_a_hello_after_many_pings_is_received(server: ServerThread, plug: Plug) -> None:
    """Pings before, between and after messages lose no message."""
    peer = websocket(plug(server))
    peer.sendall(
        frame(b"", 9) * 100 + frame(protocol.encode(hello_of("r1", server.token))) + frame(b"", 9) * 3
    )
    found = b""
    while b"welcome" not in found:
        received = peer.recv(65536)
        assert received, f"closed after {found!r}"
        found += received


def test_a_trainer_that_is_held_back_for_long_is_not_silent(
    run_server: Start, dial: Dial, monkeypatch: pytest.MonkeyPatch, eventually: Any
) -> None:
    """While the server does not read it, its silence does not count; it continues once there is room."""
    monkeypatch.setattr(ingest, "SILENCE_S", 0.2)
    monkeypatch.setattr(ingest, "LOOK_S", 0.02)
    server, gate = run_server(backlog_bytes=10_000), threading.Event()
    client = dial(server.base, "r1", server.token)
    server.services.writer.call(lambda _: gate.wait(DEADLINE_S))
    last = [client.train(range(no, no + 1000), loss=[0.5] * 1000) for no in range(0, 3000, 1000)][-1]
    eventually(lambda: server.health()["pressed"], "back-pressure")
    time.sleep(0.5)  # longer than the limit of silence
    gate.set()
    client.acked(last)


def test_pongs_are_not_awaited_while_reading_is_paused() -> None:
    """A connection that the server does not read is pinged again; one that it reads is closed."""

    class Transport:
        closed = False

        def is_closing(self) -> bool:
            return self.closed

        def close(self) -> None:
            self.closed = True

        def write(self, _data: bytes) -> None:
            return

    async def scene() -> None:
        config = uvicorn.Config(lambda: None, ws_ping_interval=20.0, log_config=None)
        config.load()
        peer = BoundedWebSocket(config, ServerState(), {}, asyncio.get_running_loop())
        transport: Any = Transport()
        peer.transport, peer.read_paused = transport, True
        peer.keepalive_timeout()
        assert not transport.closed
        assert peer.ping_timer is not None
        peer.stop_keepalive()
        peer.read_paused = False
        peer.conn.state = State.OPEN
        peer.keepalive_timeout()
        assert transport.closed

    asyncio.run(scene())


# Outgoing data


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, 3 * PIECE])
def test_a_body_is_sent_in_pieces(size: int) -> None:
    """Nothing is lost or added, the last piece is marked as the last, and none is large."""
    body, sent = bytes(range(256)) * (size // 256 + 1), []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body[:size], "more_body": False})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError

    asyncio.run(Pieces(app)({"type": "http"}, receive, send))
    pieces = sent[1:]
    assert b"".join(piece["body"] for piece in pieces) == body[:size]
    assert [piece["more_body"] for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    assert all(len(piece["body"]) <= PIECE for piece in pieces)


def test_an_asset_that_nobody_reads_is_not_copied(server: ServerThread, plug: Plug, eventually: Any) -> None:
    """Of ten megabytes, a peer that reads nothing gets what the kernel buffers, and is then disconnected."""
    version = server.app.state.plotly_version
    peer = plug(server)
    path = f"/assets/plotly-{version}.min.js".encode()
    peer.sendall(8 * (b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
    connections = server.services.connections
    stuck = lambda: [one for one in connections._all if one.stuck_since is not None]  # noqa: E731
    (one,) = eventually(lambda: server.call(stuck), "the server to stop writing")
    server.call(lambda: setattr(one, "stuck_since", time.monotonic() - 3600))
    eventually(lambda: len(connections) == 0, "the connection to be cut off")
