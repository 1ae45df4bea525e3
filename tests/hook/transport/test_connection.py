"""One WebSocket on one non-blocking socket: addresses, TLS, errors."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hook.ingest_server import IngestServer, closed_port
from tocsin import protocol
from tocsin.transport import connection
from tocsin.transport.connection import Address, Connection, ConnectionLostError, resolve
from tocsin.transport.link import wait
from tocsin.transport.server_url import Target, parse_target


@pytest.fixture
def server() -> Iterator[IngestServer]:
    """A server on loopback that has started."""
    server = IngestServer()
    server.start()
    yield server
    server.stop()


def opened(target: Target, addresses: list[Address]) -> Connection:
    """Pump until the WebSocket is open."""
    made = Connection(target, addresses, time.monotonic())
    try:
        while not made.open:
            made.pump(time.monotonic())
            wait([made], 0.1)
    except ConnectionLostError:
        made.close()
        raise
    return made


def test_the_next_address_is_tried_when_one_refuses(server: IngestServer) -> None:
    """`localhost` is often ::1 first, where no server listens."""
    dead = (socket.AF_INET, ("127.0.0.1", closed_port()))
    alive = (socket.AF_INET, ("127.0.0.1", server.port))
    made = opened(parse_target(server.url), [dead, dead, alive])
    assert made.waits_on is not None
    assert made.waits_on.getpeername() == ("127.0.0.1", server.port)
    made.close()


def test_an_address_that_does_not_answer_is_given_up_for_the_next(server: IngestServer) -> None:
    """An address that never responds costs five seconds of the given clock."""
    with socket.socket() as hole:
        hole.bind(("127.0.0.1", 0))
        hole.listen(0)
        filler = [socket.socket() for _ in range(4)]
        for sock in filler:
            sock.setblocking(False)
            sock.connect_ex(hole.getsockname())
        alive = (socket.AF_INET, ("127.0.0.1", server.port))
        made = Connection(parse_target(server.url), [(socket.AF_INET, hole.getsockname()), alive], 0.0)
        assert made.pump(0.1) == ([], False)
        while not made.open:
            made.pump(connection.CONNECT_S)
            wait([made], 0.1)
        made.close()
        for sock in filler:
            sock.close()


def test_a_server_without_that_path_is_named_with_its_status(server: IngestServer) -> None:
    """A wrong prefix is an HTTP error, and the reason says which."""
    target = parse_target(server.url + "/elsewhere")
    with pytest.raises(ConnectionLostError, match="404"):
        opened(target, resolve(target))


def test_an_unknown_name_is_reported(server: IngestServer) -> None:
    """In the name service's words."""
    with pytest.raises(ConnectionLostError, match=r"the name no-such-host\.invalid cannot be resolved"):
        resolve(parse_target("http://no-such-host.invalid"))


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IngestServer]:
    """A server with TLS and a self-signed certificate for localhost."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *names], check=True, capture_output=True)
    server = IngestServer()
    server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.tls.load_cert_chain(certificate, key)
    server.start()
    connection._tls.cache_clear()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    yield server
    server.stop()
    connection._tls.cache_clear()


def test_messages_travel_over_tls(secure: IngestServer) -> None:
    """https addresses: handshake, certificate by name, then the same conversation."""
    target = parse_target(f"https://localhost:{secure.port}")
    made = opened(target, resolve(target))
    writer = protocol.WriterId("a", 0, "b", 1, 1)
    made.send(protocol.encode(protocol.Hello(1, "", "p", "n", "r", writer, 1, "h", 0)))
    messages: list[bytes] = []
    while not messages:
        wait([made], 1.0)
        messages, _ = made.pump(time.monotonic())
    made.close()
    assert isinstance(protocol.decode_server(messages[0]), protocol.Welcome)


def test_a_certificate_that_is_not_trusted_is_refused(
    secure: IngestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the authority there is no connection, and the reason says TLS."""
    monkeypatch.delenv("SSL_CERT_FILE")
    connection._tls.cache_clear()
    target = parse_target(f"https://localhost:{secure.port}")
    with pytest.raises(ConnectionLostError, match=r"TLS.*certificate"):
        opened(target, resolve(target))


def test_a_response_without_end_is_given_up_at_once() -> None:
    """A server that is no WebSocket server and keeps sending headers does not keep the sender."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        target = parse_target(f"http://127.0.0.1:{address[1]}")
        link = Connection(target, [(socket.AF_INET, address)], 0.0)
        with listener.accept()[0] as peer:
            peer.sendall(b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 1000)
            wait([link], 5.0)
            with pytest.raises(ConnectionLostError, match="valid HTTP response"):
                link.pump(0.0)
            link.close()
