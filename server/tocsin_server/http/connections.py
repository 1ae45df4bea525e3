"""Limit connections by number, address, time and unprocessed bytes. For use on one event loop.

A connection *waits* while the server waits for its peer: for a complete request, for the next request on a
kept-alive connection, for a body, or for the first message of a WebSocket. If there is no room for a new
connection, the server closes the one that has waited longest, of the address that has the most waiting
connections. Silent connections therefore never block a training process, a page or a health check.

The effect of each limit is counted, and logged at most once per :data:`LOG_EVERY_S`.
"""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger("tocsin.connections")

HELD = "tocsin.held"
"""Extension of a websocket's scope: a function that returns whether the server has paused reading."""
LIMITS = ("connections", "address", "head", "timeout", "strangers", "stuck")
"""Reasons for closing a connection, as they are counted: too many connections, too many from one address,
request headers that are too large, a request that is not complete in time, too much data before the first
message of a websocket, a peer that does not read."""
LOG_EVERY_S = 30.0
SPARE = 32
"""Connections beyond the limit that are accepted for a short request such as a health check."""
PAGES_SHARE = 0.5
"""Share of the limit that live pages may use; the rest is for training processes and requests."""
STUCK_S = 60.0
"""Seconds after which a peer that does not read is disconnected."""
CLOSING_S = 15.0
"""Seconds that a connection may take to close."""
ALLOWANCE = 64 << 10
"""Bytes of an incomplete message that are always accepted: enough for an ordinary training process."""
STRANGER_ALLOWANCE = 8 << 10
"""The same for the first message of a websocket."""


def group_of(host: str | None) -> str:
    """Return the address under which a peer is counted: one IPv4 address, or a /64 network of IPv6."""
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
    """Return whether peers with this address are on this machine, such as a reverse proxy."""
    return not group or ipaddress.ip_network(group).network_address.is_loopback


@dataclass(eq=False, slots=True)
class Connection:
    """One open connection. ``close`` ends it with a response to the peer, ``abort`` without one."""

    group: str
    close: Callable[[str], None]
    abort: Callable[[], None]
    waiting: bool = True
    evictable: bool = False
    """Accepted beyond the limit: for a short request, not for a websocket."""
    kind: str = "request"
    """``request``, ``trainer`` or ``page``."""
    deadline: float | None = None
    why: str = ""
    """What the peer must send by the deadline."""
    stuck_since: float | None = None
    closing_since: float | None = None

    def expect(self, what: str, deadline: float | None) -> None:
        """Require that the peer sends ``what`` by ``deadline`` (None: no deadline)."""
        self.why, self.deadline = what, deadline


@dataclass(slots=True)
class LimitLog:
    """When a limit was last logged, and how often it has acted since."""

    at: float
    count: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Maximum number of simultaneous connections, in total and from one address."""

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
        """Waiting connections by address, the one that has waited longest first."""
        self._of_address: Counter[str] = Counter()
        self._logged: dict[str, LimitLog] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, connection: Connection) -> bool:
        """Count a new connection; return False if there is no room for it."""
        if not self._room_of_address(connection.group) or not self._room(connection):
            return False
        self._all[connection] = None
        self._of_address[connection.group] += 1
        self._wait(connection)
        return True

    def remove(self, connection: Connection) -> None:
        """Forget a closed connection."""
        if connection in self._all:
            del self._all[connection]
            self._of_address[connection.group] -= 1
            if not self._of_address[connection.group]:
                del self._of_address[connection.group]
            self._work(connection)

    def waits(self, connection: Connection, waiting: bool) -> None:
        """Note whether the server waits for the peer from now on."""
        if connection.waiting is not waiting and connection in self._all:
            connection.waiting = waiting
            (self._wait if waiting else self._work)(connection)

    def may_stay_open(self, connection: Connection, kind: str) -> bool:
        """Return whether a connection may become the websocket of a ``trainer`` or a ``page``."""
        pages = sum(1 for other in self._all if other.kind == "page") if kind == "page" else 0
        if connection.evictable or pages >= self.bounds.total * PAGES_SHARE:
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
        """Count that ``limit`` closed or rejected a connection; log it at most every LOG_EVERY_S."""
        now = self.clock()
        self.closed[limit] += 1
        logged = self._logged.get(limit)
        if logged is not None and now - logged.at < LOG_EVERY_S:
            logged.count += 1
            return
        more = f" ({logged.count} more since the last message)" if logged and logged.count else ""
        self._logged[limit] = LimitLog(now)
        log.warning("Closed a connection from %s: %s%s", group or "this machine", why, more)

    # Eviction

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
        connection.evictable = True
        return len(self._all) < total + SPARE

    def _let_go(self, group: str) -> bool:
        """Close the connection of ``group`` that has waited longest; return False if none waits."""
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
    """A socket whose messages are counted while they arrive."""

    def hold(self) -> None:
        """Pause reading."""
        raise NotImplementedError

    def release(self) -> None:
        """Resume reading."""
        raise NotImplementedError


@dataclass(eq=False, slots=True)
class Inbound:
    """Bound the received bytes that the application has not processed yet to ``limit_bytes``.

    Above the limit, large messages are received one at a time, because none could be completed if all were
    paused halfway. Messages of at most :data:`ALLOWANCE` bytes are never paused.
    """

    limit_bytes: int
    bytes: int = 0
    _of: dict[Receiver, int] = field(default_factory=dict)
    _held: dict[Receiver, None] = field(default_factory=dict)
    _first: Receiver | None = None
    """The one that may continue although the limit is reached."""

    def count(self, receiver: Receiver, held: int) -> None:
        """Set the number of bytes that ``receiver`` holds."""
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
        """Forget a closed socket."""
        self.bytes -= self._of.pop(receiver, 0)
        self._end(receiver)
        self._go_on()

    def _end(self, receiver: Receiver) -> None:
        """Note that the large message of ``receiver`` is complete, and let it read again."""
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
