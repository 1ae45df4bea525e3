"""Waiting on several connections at once, and a session that loses its connection and finds another."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from tests.hook.ingest_server import IngestServer, closed_port, wait_until
from tocsin import protocol
from tocsin.transport.backlog import Backlog
from tocsin.transport.connection import Address, ConnectionLostError, resolve
from tocsin.transport.link import Link, wait
from tocsin.transport.outbox import Outbox
from tocsin.transport.server_url import Target, parse_target
from tocsin.transport.session import Session

WRITER = protocol.WriterId("launch", 0, "boot", 1, 1)


def _hello() -> protocol.Hello:
    return protocol.Hello(1, "tk", "p", "n", "r_1", WRITER, 1, "host", time.time_ns())


def _backlog(records: int) -> Backlog:
    outbox = Outbox()
    for step in range(records):
        outbox.put((step, step, ("loss",), float(step)))
    backlog = Backlog(outbox)
    backlog.flush()
    return backlog


@pytest.fixture
def link(server: IngestServer) -> Iterator[Link]:
    """A session with three hundred records to send."""
    session = Session(_backlog(300), _hello, random=lambda: 0.0)
    link = Link(session, parse_target(server.url), resolve=resolve)
    yield link
    link.close()


def _until(link: Link, arrived: object) -> None:
    def stepped() -> object:
        link.step(time.monotonic())
        wait([link.connection], 0.01)
        return arrived() if callable(arrived) else arrived

    wait_until(stepped)


def test_what_waits_arrives_and_is_acknowledged(server: IngestServer, link: Link) -> None:
    """Connect, hello, records, ack: only with ``step``, which never blocks."""
    _until(link, lambda: link.session._backlog.empty)
    assert server.only.steps == list(range(300))


def test_a_cut_connection_is_made_again(server: IngestServer, link: Link) -> None:
    """After a failure before any ack, the next connection sends a new hello, and nothing arrives twice."""
    server.withhold_acks = True
    _until(link, lambda: server.writers and server.only.seq >= 0)
    server.drop_connections()
    _until(link, lambda: link.connection is None)
    server.withhold_acks = False
    _until(link, lambda: link.session._backlog.empty)
    assert server.only.seqs == list(range(300))
    assert len(server.only.hellos) == 2


def test_where_nobody_answers_the_next_attempt_is_later() -> None:
    """The reason is stored, and ``wake_at`` gives the time of the next attempt."""
    target = parse_target(f"http://127.0.0.1:{closed_port()}")
    link = Link(Session(_backlog(1), _hello, random=lambda: 0.0), target, resolve=resolve)
    _until(link, lambda: link.session.last_error)
    assert link.connection is None
    assert link.wake_at(time.monotonic()) > time.monotonic() - 1


def test_a_name_that_is_not_known_is_a_lost_connection_too() -> None:
    """``resolve`` may raise: the session waits and reports the reason."""

    def unknown(target: Target) -> list[Address]:
        raise ConnectionLostError("the name x cannot be resolved")

    session = Session(_backlog(1), _hello, random=lambda: 0.0)
    link = Link(session, parse_target("http://x:1"), resolve=unknown)
    link.step(time.monotonic())
    assert session.last_error == "the name x cannot be resolved"


def test_waiting_ends_when_the_socket_is_signaled() -> None:
    """A byte on the wakeup socket is returned immediately; otherwise the timeout applies."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"\x0f")
        assert wait([None], 60.0, ours) == b"\x0f"
        assert wait([None], 0.0, ours) == b""
    assert wait([], 0.001) == b""
