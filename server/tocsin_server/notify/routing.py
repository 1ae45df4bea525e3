"""Route alerts to channels, with the timing of their notifications. Pure.

An alert takes the first matching route, and if that has ``continue``, the next matching one as well. Without
configured routes, all warning and critical alerts are sent to all channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tocsin_server.core.errors import FieldError
from tocsin_server.core.models import RUN_FAILED, Severity
from tocsin_server.notify import inhibition
from tocsin_server.notify import mute_times as mute
from tocsin_server.notify.fields import only, seconds, text, texts, truth
from tocsin_server.notify.inhibition import Inhibition
from tocsin_server.notify.matching import Matcher, all_hold, parse_matchers, size_of
from tocsin_server.notify.mute_times import MuteTime

EVERY = "*"
"""Stands for all enabled channels in a list of channel names."""
WAIT_FAILED_S, WAIT_CRITICAL_S, WAIT_S = 3.0, 0.3, 30.0
"""How long a new group waits for more alerts: after a failed run, which a launcher may restart at once; after
another critical alert, whose incident is notified once, whatever joins it later; and after other alerts."""
INTERVAL_S, REPEAT_S = 60.0, 4 * 3600.0
GROUP_BY = ("project", "incident")
_FIELDS = {
    "name", "matchers", "channels", "continue", "enabled", "group_by", "group_wait_s", "group_interval_s",
    "repeat_interval_s", "send_resolved", "mute_times",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Route:
    """One entry of the ordered list. ``group_wait_s`` None: 0.3 s for a critical alert, 3 s for a failed run,
    else 30 s.
    """

    name: str
    matchers: tuple[Matcher, ...] = ()
    channels: tuple[str, ...] = (EVERY,)
    continues: bool = False
    enabled: bool = True
    group_by: tuple[str, ...] = GROUP_BY
    group_wait_s: float | None = None
    group_interval_s: float = INTERVAL_S
    repeat_interval_s: float = REPEAT_S
    send_resolved: bool = True
    mute_times: tuple[str, ...] = ()

    def wait_ns(self, severity: Severity, rule: str = "") -> int:
        """Return how long an alert of this severity and rule waits for others."""
        usual = WAIT_CRITICAL_S if severity is Severity.CRITICAL else WAIT_S
        usual = WAIT_FAILED_S if rule == RUN_FAILED else usual
        return int((usual if self.group_wait_s is None else self.group_wait_s) * 1e9)

    def group_of(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Return the labels that the alerts of one group share."""
        return {name: labels.get(name, "") for name in self.group_by}


DEFAULT = Route("default", (Matcher("severity", "=~", "warning|critical"),))
FALLBACK = replace(DEFAULT, name="(fallback)")
"""Used while a stored route cannot be read, for alerts that match no other route, so that none is missed."""
MOST_MATCHERS = 1_000
"""Per document."""
LARGEST_PATTERNS = 5_000
"""Limit of the instructions of all regular expressions of a document (see ``matching.LARGEST_PATTERN``)."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A part of a stored document that cannot be read: it has no effect, the others have."""

    part: str
    at: int
    item: Any
    error: FieldError


@dataclass(frozen=True, slots=True)
class Routing:
    """The configuration of notifications."""

    routes: tuple[Route, ...] = (DEFAULT,)
    inhibitions: tuple[Inhibition, ...] = field(
        default_factory=lambda: tuple(
            inhibition.read_inhibition(item, f"inhibitions[{at}]")
            for at, item in enumerate(inhibition.DEFAULTS)
        )
    )
    mute_times: tuple[MuteTime, ...] = ()
    unread: tuple[Unread, ...] = ()

    def routes_of(self, labels: Mapping[str, str]) -> list[Route]:
        """Return the routes that an alert with these labels takes, in order."""
        taken = []
        for route in self.routes:
            if route.enabled and all_hold(route.matchers, labels):
                taken.append(route)
                if not route.continues:
                    break
        return taken

    def route(self, name: str) -> Route | None:
        """Return the route with this name, or None if it was removed."""
        return next((route for route in self.routes if route.name == name and route.enabled), None)

    def is_muted(self, route: Route, now_ns: int) -> bool:
        """Return whether one of the route's mute times covers this moment."""
        return any(time.covers(now_ns) for time in self.mute_times if time.name in route.mute_times)


def channels_of(route: Route, names: Iterable[str]) -> list[str]:
    """Return the channels among ``names`` (the enabled ones) that ``route`` sends to."""
    return [name for name in names if EVERY in route.channels or name in route.channels]


@dataclass(frozen=True, slots=True)
class MatchedRoute:
    """A route that an alert takes, and its effect."""

    route: Route
    channels: tuple[str, ...]
    group: dict[str, str]
    wait_s: float
    muted: bool


def match_of(
    routing: Routing, labels: Mapping[str, str], channels: Sequence[str], now_ns: int
) -> list[MatchedRoute]:
    """Return the routes of an alert with these labels, given the names of the enabled channels."""
    known = labels.get("severity", "")
    severity = Severity(known) if known in {each.value for each in Severity} else Severity.WARNING
    return [
        MatchedRoute(
            route,
            tuple(channels_of(route, channels)),
            route.group_of(labels),
            route.wait_ns(severity, labels.get("rule", "")) / 1e9,
            routing.is_muted(route, now_ns),
        )
        for route in routing.routes_of(labels)
    ]


def read_routing(body: Any) -> Routing:
    """Parse the document of a user; ``problems``, which only the server sets, is ignored.

    Raises:
        FieldError: Names the first invalid field.
    """
    only(body, {*_READERS, "problems"}, "routing")
    usual = Routing()
    routes = _list(body, "routes") if "routes" in body else usual.routes
    muting = _list(body, "inhibitions") if "inhibitions" in body else usual.inhibitions
    times = _list(body, "mute_times")
    _bounded(routes, muting)
    _distinct("routes", [route.name for route in routes])
    _distinct("mute_times", [time.name for time in times])
    known = {time.name for time in times}
    for at, route in enumerate(routes):
        for name in route.mute_times:
            if name not in known:
                raise FieldError(f"routes[{at}].mute_times", f"one of {sorted(known)}", name)
    return Routing(routes, muting, times)


def read_stored_routing(body: Any) -> Routing:
    """Parse a stored document. Parts that cannot be read are left out and listed in ``unread``.

    Another version, or another regular expression engine, may have accepted what this one rejects.
    """
    usual = Routing()
    if not isinstance(body, Mapping):
        return replace(usual, unread=(Unread("routing", 0, body, FieldError("routing", "a table", body)),))
    parts: dict[str, tuple[Any, ...]] = {}
    unread: list[Unread] = []
    for part, read in _READERS.items():
        if part in body:
            parts[part] = tuple(_readable(body[part], part, read, unread))
    routes = parts.get("routes", usual.routes)
    if any(one.part == "routes" for one in unread):
        routes = (*routes, FALLBACK)
    muting = parts.get("inhibitions", usual.inhibitions)
    return Routing(routes, muting, parts.get("mute_times", ()), tuple(unread))


def _readable(given: Any, part: str, read: Read, unread: list[Unread]) -> Iterator[Any]:
    """Yield the items of a list that can be read; add the others to ``unread``."""
    if not isinstance(given, list):
        unread.append(Unread(part, 0, given, FieldError(part, "a list", given)))
        return
    for at, item in enumerate(given):
        try:
            yield read(item, f"{part}[{at}]")
        except FieldError as error:
            unread.append(Unread(part, at, item, error))


def read_route(item: Any, where: str) -> Route:
    """Parse a route from user input. Raises :class:`FieldError`."""
    only(item, _FIELDS, where)
    wait = seconds(item, "group_wait_s", where, None)
    interval = seconds(item, "group_interval_s", where, INTERVAL_S, least=1.0)
    repeat = seconds(item, "repeat_interval_s", where, REPEAT_S, least=60.0)
    return Route(
        text(item, "name", where),
        parse_matchers(item.get("matchers", []), f"{where}.matchers"),
        texts(item, "channels", where, [EVERY]),
        truth(item, "continue", where, False),
        truth(item, "enabled", where, True),
        texts(item, "group_by", where, list(GROUP_BY)),
        wait,
        INTERVAL_S if interval is None else interval,
        REPEAT_S if repeat is None else repeat,
        truth(item, "send_resolved", where, True),
        texts(item, "mute_times", where, []),
    )


def plain(routing: Routing) -> dict[str, Any]:
    """Return the document in the format of :func:`read_routing`, with unreadable parts in place."""
    written: dict[str, list[Any]] = {
        "routes": [_plain_route(route) for route in routing.routes if route is not FALLBACK],
        "inhibitions": [inhibition.plain(rule) for rule in routing.inhibitions],
        "mute_times": [mute.plain(time) for time in routing.mute_times],
    }
    for one in routing.unread:
        if one.part in written and isinstance(one.item, Mapping):
            written[one.part].insert(one.at, {**_EMPTY[one.part], **one.item})
    return written


def problems(routing: Routing) -> list[dict[str, Any]]:
    """Return the parts of a stored document that have no effect, and why."""
    return [
        {"subject": one.error.field, "expected": one.error.expected, "got": one.error.got}
        for one in routing.unread
    ]


def _plain_route(route: Route) -> dict[str, Any]:
    return {
        "name": route.name,
        "matchers": [str(matcher) for matcher in route.matchers],
        "channels": list(route.channels),
        "continue": route.continues,
        "enabled": route.enabled,
        "group_by": list(route.group_by),
        "group_wait_s": route.group_wait_s,
        "group_interval_s": route.group_interval_s,
        "repeat_interval_s": route.repeat_interval_s,
        "send_resolved": route.send_resolved,
        "mute_times": list(route.mute_times),
    }


_EMPTY: dict[str, dict[str, Any]] = {
    "routes": _plain_route(Route("")),
    "inhibitions": {"source": [], "target": [], "equal": []},
    "mute_times": {"name": "", "zone": "UTC", "times": []},
}
"""Fields that an unreadable item may lack, because pages require them."""
Read = Callable[[Any, str], Any]
_READERS: dict[str, Read] = {
    "routes": read_route,
    "inhibitions": inhibition.read_inhibition,
    "mute_times": mute.read_mute_time,
}


def _list(body: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    given = body.get(name, [])
    if not isinstance(given, list) or len(given) > 100:
        raise FieldError(name, "a list of at most 100", given)
    return tuple(_READERS[name](item, f"{name}[{at}]") for at, item in enumerate(given))


def _bounded(routes: Iterable[Route], inhibitions: Iterable[Inhibition]) -> None:
    """Raise :class:`FieldError` for a document that is too expensive to evaluate."""
    matchers = [matcher for route in routes for matcher in route.matchers]
    for rule in inhibitions:
        matchers += [*rule.source, *rule.target]
    if len(matchers) > MOST_MATCHERS:
        raise FieldError("routing", f"at most {MOST_MATCHERS} matchers in all", len(matchers))
    size = size_of(matchers)
    if size > LARGEST_PATTERNS:
        expected = f"regular expressions of at most {LARGEST_PATTERNS} instructions in all"
        raise FieldError("routing", expected, size)


def _distinct(where: str, names: Sequence[str]) -> None:
    for at, name in enumerate(names):
        if name in names[:at]:
            raise FieldError(f"{where}[{at}].name", "a unique name", name)
