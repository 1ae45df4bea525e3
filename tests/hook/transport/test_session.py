"""The protocol as a state machine: time and randomness are given, nothing sleeps."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin import protocol
from tocsin.transport.backlog import Backlog
from tocsin.transport.outbox import Outbox
from tocsin.transport.session import (
    ALIVE_S,
    BACKOFF_CAP_S,
    POISON_ROUNDS,
    SILENCE_S,
    WELCOME_S,
    WINDOW,
    Phase,
    Session,
)

WRITER = protocol.WriterId("a", 0, "b", 1, 1)
HELLO = protocol.Hello(1, "tk", "p", "n", "r", WRITER, 1, "h", 0)
PULSE = protocol.Alive(0)


class Talk:
    """A session with a backlog of ``waiting`` one-record messages."""

    def __init__(self, waiting: int = 0, *, random: float = 1.0) -> None:
        outbox = Outbox(blocks=128, block_bytes=64)  # each holds one record
        for seq in range(waiting):
            outbox.put((seq, 0, ("loss",), 1.0))
        self.backlog = Backlog(outbox)
        self.backlog.flush()
        self.session = Session(self.backlog, lambda: HELLO, random=lambda: random)

    def connect(self, now: float = 0.0, *, seq: int = -1, flush_ms: int = 200) -> None:
        """Connect, get the welcome, and stream."""
        self.session.connecting(now)
        self.session.opened(now)
        self.receive(protocol.Welcome(1, "r", 0, seq, -1, flush_ms), now)

    def receive(self, message: protocol.ServerMessage, now: float = 0.0) -> Any:
        """Receive ``message`` from the server."""
        return self.session.received(protocol.encode(message), now)

    def take_sent(self, now: float = 0.0) -> list[int]:
        """Return the number of the record in each message that is sent now."""
        messages = [protocol.decode_client(message) for message in self.session.due(now, None)]
        return [message.seq for message in messages if isinstance(message, protocol.Records)]


def test_a_session_dials_at_once_and_says_hello_first() -> None:
    """The first message on a connection is the hello, and nothing else is sent before the welcome."""
    talk = Talk(waiting=3)
    assert talk.session.should_dial(0.0)
    talk.session.connecting(0.0)
    assert not talk.session.should_dial(1.0)
    assert protocol.decode_client(talk.session.opened(1.0)) == HELLO
    assert talk.take_sent() == []


def test_a_welcome_is_followed_by_what_the_server_lacks() -> None:
    """Records up to 1 are durable: 2 is the first that is sent."""
    talk = Talk(waiting=4)
    talk.connect(seq=1)
    assert talk.take_sent() == [2, 3]


def test_no_more_than_the_window_is_under_way() -> None:
    """64 messages, then nothing until an ack; then sending continues."""
    talk = Talk(waiting=100)
    talk.connect()
    assert len(talk.take_sent()) == WINDOW
    assert talk.take_sent() == []
    talk.receive(protocol.Ack(9, -1, 200))
    assert talk.take_sent() == list(range(64, 74))


def test_a_lost_connection_sends_again_what_was_not_acknowledged() -> None:
    """Five sent, two acknowledged, then the connection is lost: three are sent again, in order."""
    talk = Talk(waiting=5)
    talk.connect()
    talk.take_sent()
    talk.receive(protocol.Ack(1, -1, 200))
    talk.session.lost(1.0, "cut")
    talk.connect(2.0, seq=1)
    assert talk.take_sent() == [2, 3, 4]


def test_alive_is_sent_every_five_seconds() -> None:
    """Also when there is nothing else to send."""
    talk = Talk()
    talk.connect(0.0)
    times = [now for now in range(11) if list(talk.session.due(float(now), lambda: PULSE))]
    assert times == [0, 5, 10]
    assert talk.session.wake_at(10.0) == 10.0 + ALIVE_S


def test_attempts_back_off_and_never_wait_longer_than_30_s() -> None:
    """0.25 s, doubling to 30 s, with the longest jitter."""
    talk, now, waits = Talk(random=1.0), 0.0, []
    for _ in range(10):
        talk.session.connecting(now)
        talk.session.lost(now, "refused")
        waits.append(talk.session.wake_at(now) - now)
        now = talk.session.wake_at(now)
        assert talk.session.should_dial(now)
    assert waits == [0.25, 0.5, 1, 2, 4, 8, 16, BACKOFF_CAP_S, BACKOFF_CAP_S, BACKOFF_CAP_S]


@given(st.floats(0, 1), st.integers(0, 40))
def test_jitter_halves_at_most(random: float, failures: int) -> None:
    """Two hundred clients of a restarted server do not reconnect at the same time."""
    talk = Talk(random=random)
    for _ in range(failures + 1):
        talk.session.lost(0.0, "refused")
    slowest = min(BACKOFF_CAP_S, 0.25 * 2**failures)
    assert slowest / 2 <= talk.session.wake_at(0.0) <= slowest


def test_the_end_of_a_run_does_not_wait_out_a_long_back_off() -> None:
    """When the run ends, the next attempt is immediate, and later ones are at most half a second apart."""
    talk = Talk()
    for _ in range(20):
        talk.session.lost(0.0, "refused")
    talk.session.hurry(1.0)
    assert talk.session.should_dial(1.0)
    talk.session.lost(1.0, "refused")
    assert talk.session.wake_at(1.0) <= 1.5


def test_a_silent_server_is_given_up() -> None:
    """After WELCOME_S without a welcome, or SILENCE_S without data, it reconnects."""
    talk = Talk()
    talk.session.connecting(0.0)
    talk.session.opened(0.0)
    assert talk.session.overdue(WELCOME_S - 0.1) is None
    assert "handshake" in (talk.session.overdue(WELCOME_S) or "")
    talk.receive(protocol.Welcome(1, "r", 0, -1, -1), 5.0)
    talk.session.note_activity(10.0)
    assert talk.session.overdue(10.0 + SILENCE_S - 0.1) is None
    assert "sent nothing for" in (talk.session.overdue(10.0 + SILENCE_S) or "")


@pytest.mark.parametrize(("asked", "used"), [(200, 0.2), (1000, 1.0), (0, 0.02), (10**9, 5.0), (-5, 0.02)])
def test_the_requested_flush_interval_is_used_within_limits(asked: int, used: float) -> None:
    """The server can request neither a busy loop nor a run that never reports."""
    talk = Talk()
    talk.connect(flush_ms=asked)
    assert talk.session.flush_s == used


@pytest.mark.parametrize("code", [4400, 4401, 4403])
def test_a_final_refusal_stops_for_good(code: int) -> None:
    """By message or by close code alone: no more attempts."""
    by_message, by_code = Talk(), Talk()
    for talk in (by_message, by_code):
        talk.session.connecting(0.0)
        talk.session.opened(0.0)
    by_message.receive(protocol.Refused("connection", "bad-token", "a known token", "tk"))
    by_code.session.lost(0.0, "closed", code)
    for talk in (by_message, by_code):
        talk.session.lost(0.0, "closed", code)
        assert talk.session.stopped
        assert not talk.session.should_dial(1e9)


def test_a_refusal_in_mid_stream_stops_nothing() -> None:
    """A malformed frame among good ones is counted, and the stream continues."""
    talk = Talk(waiting=1)
    talk.connect()
    talk.receive(protocol.Refused("connection", "malformed-frame", "a message", "noise"))
    assert talk.session.phase is Phase.STREAMING
    assert talk.session.refused == {"malformed-frame": 1}
    assert talk.take_sent() == [0]


def test_a_notice_is_no_reason_for_a_lost_connection() -> None:
    """What the server accepted does not count as rejected, and explains no later problem."""
    talk = Talk(waiting=1)
    talk.connect()
    talk.receive(protocol.Refused("notice", "step-order", "ascending steps", "step 0 after step 0"))
    assert talk.session.refusal is None
    assert "refused" not in talk.session.sentences["step-order"]


def test_a_frame_that_breaks_every_connection_is_set_aside() -> None:
    """After five closes at the same frame, the frame is dropped and the following ones are sent."""
    talk = Talk(waiting=3)
    for _ in range(POISON_ROUNDS):
        talk.connect()
        assert talk.take_sent()[0] == 0
        talk.session.lost(0.0, "message too big", 1009)
    talk.connect()
    assert talk.take_sent() == [1, 2]
    assert talk.session.set_aside == 1


def test_a_flapping_network_sets_nothing_aside() -> None:
    """Connections that only break never make a frame suspect, however many break."""
    talk = Talk(waiting=2)
    for _ in range(3 * POISON_ROUNDS):
        talk.connect()
        talk.take_sent()
        talk.session.lost(0.0, "reset", 1006)
    talk.connect()
    assert talk.take_sent() == [0, 1]


def test_alerts_and_requests_are_handed_on() -> None:
    """They are for the script, not for the session."""
    alert = protocol.Alert("a", "r", "critical", "firing", "s")
    talk = Talk()
    talk.connect()
    assert talk.receive(alert) == alert


@given(st.binary(max_size=40))
def test_noise_from_the_server_is_counted_and_survived(noise: bytes) -> None:
    """Nothing a server sends raises in the trainer."""
    talk = Talk(waiting=1)
    talk.connect()
    assert talk.session.received(noise, 0.0) is None
    assert talk.take_sent() == [0]


@given(st.lists(st.sampled_from(["send", "ack", "stale ack", "cut"]), max_size=60))
def test_whatever_happens_the_server_sees_every_record_in_order(happenings: list[str]) -> None:
    """Any interleaving of sends, acks and cuts: no gap, no reorder, resends only of what was unsure."""
    talk = Talk(waiting=20)
    talk.connect()
    durable, pending, clock = -1, [], itertools.count()
    for happening in [*happenings, "cut", "send", "ack"]:
        if happening == "send":
            pending += talk.take_sent()
        elif happening == "cut":
            talk.session.lost(float(next(clock)), "cut")
            durable, pending = durable + len(pending) // 2, []  # half of it had got through
            talk.connect(float(next(clock)), seq=durable)
        elif happening == "ack" and pending:
            assert pending == list(range(durable + 1, durable + 1 + len(pending)))
            durable, pending = pending[-1], []
            talk.receive(protocol.Ack(durable, -1, 200))
        else:
            talk.receive(protocol.Ack(durable - 1, -1, 200))
    assert durable == 19
    assert talk.backlog.empty
