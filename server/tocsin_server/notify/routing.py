"""Routes: which alert goes to which channels, and at what pace. Pure.

An alert takes the first route whose matchers hold, and where that says ``continue`` the next as
well. Without a route of their own everybody gets every warning and critical alert on every channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocsin_server.domain import Severity
from tocsin_server.errors import FieldError
from tocsin_server.notify import inhibition, mute
from tocsin_server.notify.inhibition import Inhibition
from tocsin_server.notify.matching import Matcher, all_hold, parse_matchers
from tocsin_server.notify.mute import MuteTime
from tocsin_server.notify.reading import only, seconds, text, texts, truth

EVERY = "*"
"""As the name of a channel: all that are switched on."""
WAIT_CRITICAL_S, WAIT_S = 5.0, 30.0
"""How long a group waits for company before it is told first, by the gravest of it."""
INTERVAL_S, REPEAT_S = 60.0, 4 * 3600.0
GROUP_BY = ("project", "run_id")
_FIELDS = {
    "name", "matchers", "channels", "continue", "enabled", "group_by", "group_wait_s", "group_interval_s",
    "repeat_interval_s", "send_resolved", "mute_times",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Route:
    """One line of the ordered list. ``group_wait_s`` None: 5 s for a critical alert, else 30 s."""

    name: str
    matchers: tuple[Matcher, ...] = ()
    channels: tuple[str, ...] = (EVERY,)
    goes_on: bool = False
    enabled: bool = True
    group_by: tuple[str, ...] = GROUP_BY
    group_wait_s: float | None = None
    group_interval_s: float = INTERVAL_S
    repeat_interval_s: float = REPEAT_S
    send_resolved: bool = True
    mute_times: tuple[str, ...] = ()

    def wait_ns(self, severity: Severity) -> int:
        """How long an alert of this severity waits for company."""
        usual = WAIT_CRITICAL_S if severity is Severity.CRITICAL else WAIT_S
        return int((usual if self.group_wait_s is None else self.group_wait_s) * 1e9)

    def group_of(self, labels: Mapping[str, str]) -> dict[str, str]:
        """The labels that alerts of one group share."""
        return {name: labels.get(name, "") for name in self.group_by}


DEFAULT = Route("default", (Matcher("severity", "=~", "warning|critical"),))


@dataclass(frozen=True, slots=True)
class Routing:
    """What people decided about notifications."""

    routes: tuple[Route, ...] = (DEFAULT,)
    inhibitions: tuple[Inhibition, ...] = field(
        default_factory=lambda: tuple(
            inhibition.read_inhibition(item, f"inhibitions[{at}]")
            for at, item in enumerate(inhibition.DEFAULTS)
        )
    )
    mute_times: tuple[MuteTime, ...] = ()

    def routes_of(self, labels: Mapping[str, str]) -> list[Route]:
        """The routes that an alert with these labels takes, in order."""
        taken = []
        for route in self.routes:
            if route.enabled and all_hold(route.matchers, labels):
                taken.append(route)
                if not route.goes_on:
                    break
        return taken

    def route(self, name: str) -> Route | None:
        """The route of this name; None where somebody took it away."""
        return next((route for route in self.routes if route.name == name and route.enabled), None)

    def is_muted(self, route: Route, now_ns: int) -> bool:
        """Whether one of the route's mute times covers this moment."""
        return any(time.covers(now_ns) for time in self.mute_times if time.name in route.mute_times)


def channels_of(route: Route, names: Iterable[str]) -> list[str]:
    """The channels among ``names`` (those switched on) to which ``route`` leads."""
    return [name for name in names if EVERY in route.channels or name in route.channels]


@dataclass(frozen=True, slots=True)
class Taken:
    """A route that an alert takes, and what comes of it."""

    route: Route
    channels: tuple[str, ...]
    group: dict[str, str]
    wait_s: float
    muted: bool


def way_of(routing: Routing, labels: Mapping[str, str], channels: Sequence[str], now_ns: int) -> list[Taken]:
    """The way of an alert with these labels, given the names of the channels that are switched on."""
    known = labels.get("severity", "")
    severity = Severity(known) if known in {each.value for each in Severity} else Severity.WARNING
    return [
        Taken(
            route,
            tuple(channels_of(route, channels)),
            route.group_of(labels),
            route.wait_ns(severity) / 1e9,
            routing.is_muted(route, now_ns),
        )
        for route in routing.routes_of(labels)
    ]


def read_routing(body: Any) -> Routing:
    """The document as people write it. Raises :class:`FieldError`, which names the first bad field."""
    only(body, {"routes", "inhibitions", "mute_times"}, "routing")
    usual = Routing()
    routes = _list(body, "routes", read_route) if "routes" in body else usual.routes
    muting = (
        _list(body, "inhibitions", inhibition.read_inhibition) if "inhibitions" in body else usual.inhibitions
    )
    times = _list(body, "mute_times", mute.read_mute_time)
    _distinct("routes", [route.name for route in routes])
    _distinct("mute_times", [time.name for time in times])
    known = {time.name for time in times}
    for at, route in enumerate(routes):
        for name in route.mute_times:
            if name not in known:
                raise FieldError(f"routes[{at}].mute_times", f"one of {sorted(known)}", name)
    return Routing(routes, muting, times)


def read_route(item: Any, where: str) -> Route:
    """A route as people write it. Raises :class:`FieldError`."""
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
    """The document as :func:`read_routing` reads it."""
    return {
        "routes": [_plain_route(route) for route in routing.routes],
        "inhibitions": [inhibition.plain(rule) for rule in routing.inhibitions],
        "mute_times": [mute.plain(time) for time in routing.mute_times],
    }


def _plain_route(route: Route) -> dict[str, Any]:
    return {
        "name": route.name,
        "matchers": [str(matcher) for matcher in route.matchers],
        "channels": list(route.channels),
        "continue": route.goes_on,
        "enabled": route.enabled,
        "group_by": list(route.group_by),
        "group_wait_s": route.group_wait_s,
        "group_interval_s": route.group_interval_s,
        "repeat_interval_s": route.repeat_interval_s,
        "send_resolved": route.send_resolved,
        "mute_times": list(route.mute_times),
    }


def _list(body: Mapping[str, Any], name: str, read: Any) -> tuple[Any, ...]:
    given = body.get(name, [])
    if not isinstance(given, list) or len(given) > 100:
        raise FieldError(name, "a list of at most 100", given)
    return tuple(read(item, f"{name}[{at}]") for at, item in enumerate(given))


def _distinct(where: str, names: Sequence[str]) -> None:
    for at, name in enumerate(names):
        if name in names[:at]:
            raise FieldError(f"{where}[{at}].name", "a name that no other has", name)
