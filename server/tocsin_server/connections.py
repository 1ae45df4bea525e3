"""Which connections may stay: bounds by number, by address, by time and by bytes that wait. One event loop.

A connection *waits* while it is its peer's turn: no complete request yet, an idle connection that is kept
alive, a body that is on its way, a websocket before its first message. Where there is no room for a new
connection, the one that has waited longest goes, of the address that has most of them. So silent
connections never block a training process, a page or a health check, however many there are.

Each limit is counted and logged, at most one line per :data:`SAY_EVERY_S`.
"""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger("tocsin.connections")

HELD = "tocsin.held"
"""Extension of a websocket's scope: a function, whether the server itself does not read on."""
LIMITS = ("connections", "address", "head", "timeout", "strangers", "stuck")
"""What closes connections, as it is counted: too many in all or of one address, a head that is too large, a
request that is not complete in time, too much before a login, a peer that takes nothing."""
SAY_EVERY_S = 30.0
SPARE = 32
"""Connections beyond the limit that are let in for a short request, as a health check is."""
PAGES_SHARE = 0.5
"""Share of the limit that live pages may take; the rest is for trainers and requests."""
STUCK_S = 60.0
"""Seconds after which a peer that does not read is disconnected."""
CLOSING_S = 15.0
"""A connection that is being closed has so long to take its last words."""
ALLOWANCE = 64 << 10
"""Bytes of a message under way that no budget refuses: those of an ordinary trainer."""
STRANGER_ALLOWANCE = 8 << 10
"""The same before the first message of a websocket is complete."""


def group_of(host: str | None) -> str:
    """Return the address that a peer counts under: one IPv4 address, or an IPv6 network of 64 bits."""
    try:
        address = ipaddress.ip_address((host or "").partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address) and not address.is_loopback:
        if address.ipv4_mapped is None:
            return str(ipaddress.ip_network((address, 64), strict=False))
        address = address.ipv4_mapped
    return str(address)


def is_local(group: str) -> bool:
    """Whether peers of this address are on this machine: users of it, or a proxy before the server."""
    return not group or ipaddress.ip_network(group).network_address.is_loopback


@dataclass(eq=False, slots=True)
class Connection:
    """One open connection. ``close`` ends it with a word for the peer, ``abort`` at once."""

    group: str
    close: Callable[[str], None]
    abort: Callable[[], None]
    waiting: bool = True
    spare: bool = False
    """Let in beyond the limit: for a short request, not for a websocket."""
    kind: str = "request"
    """``request``, ``trainer`` or ``page``."""
    deadline: float | None = None
    why: str = ""
    """What the peer is late with when the deadline passes."""
    stuck_since: float | None = None
    closing_since: float | None = None

    def expect(self, what: str, deadline: float | None) -> None:
        """It is the peer's turn: ``what`` must have come by ``deadline`` (None: whenever)."""
        self.why, self.deadline = what, deadline


@dataclass(slots=True)
class Said:
    """Number of events of one kind since the last log line about it."""

    at: float
    count: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many connections at the same time, in all and of one address."""

    total: int = 4096
    of_address: int = 1024


class Connections:
    """Every open connection of the server. Times are seconds of a monotonic clock."""

    def __init__(self, bounds: Bounds, clock: Callable[[], float]) -> None:
        self.bounds = bounds
        self.clock = clock
        self.closed: Counter[str] = Counter()
        """How many connections each limit has closed, by its name."""
        self._all: dict[Connection, None] = {}
        self._waiting: dict[str, dict[Connection, None]] = {}
        """By address, the one that has waited longest first."""
        self._of_address: Counter[str] = Counter()
        self._said: dict[str, Said] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, connection: Connection) -> bool:
        """Count a new connection; return False where there is no room for it."""
        if not self._room_of_address(connection.group) or not self._room(connection):
            return False
        self._all[connection] = None
        self._of_address[connection.group] += 1
        self._wait(connection)
        return True

    def remove(self, connection: Connection) -> None:
        """That connection is gone."""
        if connection in self._all:
            del self._all[connection]
            self._of_address[connection.group] -= 1
            if not self._of_address[connection.group]:
                del self._of_address[connection.group]
            self._work(connection)

    def waits(self, connection: Connection, waiting: bool) -> None:
        """From here on it is the peer's turn, or ours."""
        if connection.waiting is not waiting and connection in self._all:
            connection.waiting = waiting
            (self._wait if waiting else self._work)(connection)

    def may_stay_open(self, connection: Connection, kind: str) -> bool:
        """Return whether a connection may become the websocket of a ``trainer`` or a ``page``."""
        pages = sum(1 for other in self._all if other.kind == "page") if kind == "page" else 0
        if connection.spare or pages >= self.bounds.total * PAGES_SHARE:
            self.acted("connections", connection.group, f"no room for another {kind}")
            return False
        connection.kind = kind
        return True

    def sweep(self) -> None:
        """Close late connections and those that do not read. Call this every second."""
        now = self.clock()
        for connection in list(self._all):
            if connection.deadline is not None and now >= connection.deadline:
                connection.deadline = None
                self.acted("timeout", connection.group, f"the {connection.why} did not arrive in time")
                connection.close(connection.why)
            stuck = connection.stuck_since is not None and now - connection.stuck_since >= STUCK_S
            ended = connection.closing_since is not None and now - connection.closing_since >= CLOSING_S
            if stuck or ended:
                self.acted("stuck", connection.group, "the peer did not read what was sent to it")
                connection.abort()

    def acted(self, limit: str, group: str, why: str) -> None:
        """Count that ``limit`` closed or rejected a connection; log it at most every SAY_EVERY_S."""
        now = self.clock()
        self.closed[limit] += 1
        said = self._said.get(limit)
        if said is not None and now - said.at < SAY_EVERY_S:
            said.count += 1
            return
        more = f" ({said.count} more since the last message)" if said and said.count else ""
        self._said[limit] = Said(now)
        log.warning("Closed a connection from %s: %s%s", group or "this machine", why, more)

    # Room

    def _room_of_address(self, group: str) -> bool:
        if is_local(group) or self._of_address[group] < self.bounds.of_address:
            return True
        self.acted("address", group, f"there are {self.bounds.of_address} connections from that address")
        return self._let_go(group)

    def _room(self, connection: Connection) -> bool:
        total = self.bounds.total
        if len(self._all) < total:
            return True
        most = max(self._waiting, key=lambda group: len(self._waiting[group]), default=None)
        self.acted(
            "connections", connection.group if most is None else most, f"there are {total} connections"
        )
        if most is not None and self._let_go(most):
            return True
        connection.spare = True
        return len(self._all) < total + SPARE

    def _let_go(self, group: str) -> bool:
        """Close the connection of ``group`` that has waited longest; False where none waits."""
        longest = next(iter(self._waiting.get(group, ())), None)
        if longest is None:
            return False
        self.remove(longest)
        longest.abort()
        return True

    def _wait(self, connection: Connection) -> None:
        self._waiting.setdefault(connection.group, {})[connection] = None

    def _work(self, connection: Connection) -> None:
        group = self._waiting.get(connection.group, {})
        group.pop(connection, None)
        if not group:
            self._waiting.pop(connection.group, None)


class Receiver:
    """A socket whose messages are counted while they come in."""

    def hold(self) -> None:
        """Read no more for the moment."""
        raise NotImplementedError

    def release(self) -> None:
        """Read on."""
        raise NotImplementedError


@dataclass(eq=False, slots=True)
class Inbound:
    """Bytes that have come in and that the application has not dealt with: at most ``limit_bytes``.

    Above it, who sends a large message waits for the others, but for one at a time: where all are
    half way, somebody must come to an end. A message of :data:`ALLOWANCE` bytes is never held.
    """

    limit_bytes: int
    bytes: int = 0
    _of: dict[Receiver, int] = field(default_factory=dict)
    _held: dict[Receiver, None] = field(default_factory=dict)
    _first: Receiver | None = None
    """The one that may go on although the limit is reached."""

    def count(self, receiver: Receiver, held: int) -> None:
        """``receiver`` holds so many bytes now."""
        self.bytes += held - self._of.get(receiver, 0)
        self._of[receiver] = held
        if held <= ALLOWANCE:
            self._end(receiver)
        elif self.bytes > self.limit_bytes and receiver is not self._first:
            if self._first is None and not self._held:
                self._first = receiver
            elif receiver not in self._held:
                self._held[receiver] = None
                receiver.hold()
        self._go_on()

    def forget(self, receiver: Receiver) -> None:
        """That socket is gone."""
        self.bytes -= self._of.pop(receiver, 0)
        self._end(receiver)
        self._go_on()

    def _end(self, receiver: Receiver) -> None:
        """Its large message has come to an end: it neither waits nor is it the one that goes on."""
        if receiver in self._held:
            del self._held[receiver]
            receiver.release()
        if receiver is self._first:
            self._first = None

    def _go_on(self) -> None:
        while self._held and (self.bytes <= self.limit_bytes or self._first is None):
            receiver = next(iter(self._held))
            del self._held[receiver]
            if self.bytes > self.limit_bytes:
                self._first = receiver
            receiver.release()
