"""The client's side of the protocol as a state machine. Pure: no socket, no thread, no clock.

The caller reports what happened (``opened``, ``received``, ``lost``) and when, and asks what to do:
``should_dial``, ``due`` (messages to send now) and ``wake_at``. Times are seconds of any monotonic clock.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterator

from .. import protocol
from .backlog import Backlog
from .rejections import reason_of, sentence_of

WINDOW = 64
"""Maximum number of ``records`` messages that are sent and not acknowledged."""
ALIVE_S = 5.0
SILENCE_S = 20.0
"""A server that does not answer pings for this long is considered lost."""
WELCOME_S = 30.0
"""The server may be slow: 64 training processes that start together leave it little of two CPUs."""
BACKOFF_FIRST_S = 0.25
BACKOFF_CAP_S = 30.0
CLOSING_CAP_S = 0.5
FLUSH_MS = (20, 5000)
"""Limits of the flush interval that a server may request."""
STEADY_S = 5.0
"""A connection that lasted this long resets the backoff."""
FINAL_CODES = {4400, 4401, 4403}
"""Close codes of a server that will never accept this handshake."""
POISON_CODES = {1002, 1003, 1007, 1009, 4400}
"""Close codes that reject what was sent."""
POISON_ROUNDS = 5
"""After this many connections that broke at the same frame, the frame is set aside."""

Notification = protocol.Alert | protocol.Request


class Phase(enum.Enum):
    """State of the connection."""

    WAITING = "waiting"
    DIALLING = "dialling"
    HANDSHAKE = "handshake"
    STREAMING = "streaming"
    STOPPED = "stopped"


class Session:
    """Exchange of one writer with the server, over any number of connections."""

    def __init__(
        self,
        backlog: Backlog,
        hello: Callable[[], protocol.Hello],
        *,
        random: Callable[[], float],
    ) -> None:
        self._backlog = backlog
        self._hello = hello
        self._random = random
        self._failures = 0
        self._retry_at = float("-inf")
        self._deadline = float("inf")
        self._received_at = self._alive_at = 0.0
        self._steady_at = float("inf")
        self._closing = False
        self._poison = (-2, -2, 0)
        self.phase = Phase.WAITING
        self.flush_s = 0.2
        self.last_error: str | None = None
        """Why there is no connection, or None."""
        self._rejection: protocol.Refused | None = None
        """How the server last rejected this connection; None once it was accepted."""
        self.sentences: dict[str, str] = {}
        """The newest sentence for each code of a rejection or a notice."""
        self.refused: Counter[str] = Counter()
        """Number of rejections by code."""
        self.set_aside = 0
        """Number of records that were dropped because they broke the connection repeatedly."""
        self.run = ""
        self.known_seq: int | None = None
        """The highest record number that the server had at the first connection; None before it."""

    @property
    def stopped(self) -> bool:
        """Whether the server rejected this writer, so that nothing more is sent."""
        return self.phase is Phase.STOPPED

    @property
    def refusal(self) -> str | None:
        """Why the server last rejected this connection and what to do, as sentences, or None."""
        return sentence_of(self._rejection) if self._rejection is not None else None

    @property
    def reason(self) -> str | None:
        """Why records are not delivered, for use in a sentence, or None."""
        return reason_of(self._rejection) if self._rejection is not None else self.last_error

    def should_dial(self, now: float) -> bool:
        """Return whether it is time to connect."""
        return self.phase is Phase.WAITING and now >= self._retry_at

    def connecting(self, now: float) -> None:
        """Note that a connection is being made."""
        self.phase = Phase.DIALLING
        self._deadline = float("inf")

    def opened(self, now: float) -> bytes:
        """Note that the WebSocket is open; return the handshake to send."""
        self.phase = Phase.HANDSHAKE
        self._received_at = now
        self._deadline = now + WELCOME_S
        return protocol.encode(self._hello())

    def hurry(self, now: float) -> None:
        """Shorten the pauses between attempts, because the run is ending."""
        self._closing = True
        self._retry_at = min(self._retry_at, now)

    def note_activity(self, now: float) -> None:
        """Note that bytes were received."""
        self._received_at = now

    def received(self, frame: bytes, now: float) -> Notification | None:
        """Process a message of the server; return it if it is for the training script.

        A frame that cannot be decoded (of a newer server) is counted and ignored.
        """
        try:
            message = protocol.decode_server(frame)
        except protocol.ProtocolError as error:
            self.refused["malformed-from-server"] += 1
            self.sentences["malformed-from-server"] = f"message of the server: {error}"
            return None
        if isinstance(message, protocol.Ack):
            self._acked(message)
        elif isinstance(message, protocol.Welcome):
            self._welcomed(message, now)
        elif isinstance(message, protocol.Refused):
            self._refused(message)
        else:
            return message
        return None

    def due(self, now: float, heartbeat: Callable[[], protocol.Alive] | None) -> Iterator[bytes]:
        """Yield the messages to send now, each encoded when it is due: frames that fit into the window, and
        ``heartbeat`` every 5 s.
        """
        if self.phase is not Phase.STREAMING:
            return
        for _ in range(WINDOW - self._backlog.in_flight):
            frame = self._backlog.next()
            if frame is None:
                break
            yield frame.body
        if heartbeat is not None and now >= self._alive_at:
            self._alive_at = now + ALIVE_S
            yield protocol.encode(heartbeat())

    @property
    def is_more_due(self) -> bool:
        """Whether ``due`` has more to send, although it has just been called."""
        streaming = self.phase is Phase.STREAMING
        return streaming and self._backlog.in_flight < WINDOW and self._backlog.has_more

    @property
    def is_at_window(self) -> bool:
        """Whether only an acknowledgement allows more to be sent."""
        return self.phase is not Phase.STREAMING or self._backlog.in_flight >= WINDOW

    def overdue(self, now: float) -> str | None:
        """Return why the connection timed out, or None."""
        if self.phase is Phase.HANDSHAKE and now >= self._deadline:
            return f"the server did not answer the handshake within {WELCOME_S:g} s"
        if self.phase is Phase.STREAMING and now - self._received_at >= SILENCE_S:
            return f"the server sent nothing for {SILENCE_S:g} s"
        return None

    def lost(self, now: float, reason: str, code: int | None = None) -> None:
        """Note that the connection is lost, and schedule the next attempt. ``code``: WebSocket close code."""
        if self.phase is Phase.STOPPED:
            return
        self.last_error = reason
        if self.phase is Phase.HANDSHAKE and code in FINAL_CODES:
            self.phase = Phase.STOPPED
            return
        if self.phase is Phase.STREAMING and code in POISON_CODES:
            self._count_poison()
        if self.phase is Phase.STREAMING and now >= self._steady_at:
            self._failures = 0
        self.phase = Phase.WAITING
        self._retry_at = now + self._backoff()
        self._failures += 1

    def wake_at(self, now: float) -> float:
        """Return the latest time at which the session must be called again."""
        if self.phase is Phase.WAITING:
            return self._retry_at
        if self.phase is Phase.HANDSHAKE:
            return self._deadline
        if self.phase is Phase.STREAMING:
            return min(self._alive_at, self._received_at + SILENCE_S)
        return float("inf")

    def _backoff(self) -> float:
        """Return the pause: it doubles from 0.25 s to 30 s, half of it jitter, so that clients of a restarted
        server do not reconnect together.
        """
        cap = CLOSING_CAP_S if self._closing else BACKOFF_CAP_S
        return min(cap, BACKOFF_FIRST_S * 2.0 ** min(self._failures, 10)) * (0.5 + 0.5 * self._random())

    def _welcomed(self, message: protocol.Welcome, now: float) -> None:
        if self.phase is not Phase.HANDSHAKE:
            return
        self.phase = Phase.STREAMING
        self._steady_at = now + STEADY_S
        self._alive_at = now
        self.last_error = self._rejection = None
        self.run = message.run
        self.known_seq = message.seq if self.known_seq is None else self.known_seq
        self._flush(message.flush_ms)
        self._backlog.resume(message.seq, message.events)
        if self._poison[2] >= POISON_ROUNDS:
            self.set_aside += self._backlog.set_aside()
            self._poison = (-2, -2, 0)

    def _acked(self, message: protocol.Ack) -> None:
        if self.phase is Phase.STREAMING:
            self._failures = 0
            self._backlog.acknowledge(message.seq, message.events)
            self._flush(message.flush_ms)

    def _flush(self, flush_ms: int) -> None:
        low, high = FLUSH_MS
        self.flush_s = min(max(flush_ms, low), high) / 1000

    def _refused(self, message: protocol.Refused) -> None:
        self.refused[message.code] += 1
        self.sentences[message.code] = sentence_of(message)
        if message.scope == "connection":
            self._rejection = message
        if message.scope == "connection" and self.phase is Phase.HANDSHAKE and not message.retry:
            self.phase = Phase.STOPPED

    def _count_poison(self) -> None:
        """Count connections that broke at the same frame."""
        seq, events, rounds = self._poison
        here = (self._backlog.seq, self._backlog.events)
        self._poison = (*here, rounds + 1 if here == (seq, events) else 1)
