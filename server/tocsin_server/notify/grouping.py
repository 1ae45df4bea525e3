"""Groups: what is told together, when, and what was told already. Pure; the clock is an argument.

As in Alertmanager: a new group waits ``group_wait`` for company, later news waits
``group_interval``, what still fires is repeated after ``repeat_interval``, and what is over is told
where its firing was. Two things are quicker here: a critical alert waits ``group_wait`` only,
however lately its group was told; and an alert that is over before it could be told is told all the
same, once, as over, where it was critical or where its run's end resolved it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tocsin_server.core.causal_order import by_cause
from tocsin_server.core.models import AlertState, Severity
from tocsin_server.notify.labels import NEVER_NOTIFIED, NO_MARKS, Marks, NotifiedState, RoutedAlert
from tocsin_server.notify.routing import Route

S = 10**9
FOLLOWED_NS = 3600 * S
"""A run that failed is followed so long after it was told: that it goes on is told too."""


@dataclass(frozen=True, slots=True)
class Group:
    """Alerts of one route and channel that share the labels of ``group_by``."""

    id: str
    route: str
    channel: str
    labels: Mapping[str, str]
    members: Mapping[str, NotifiedState] = field(default_factory=dict)
    """By alert id: what was told of it."""
    due_ns: int | None = None
    """When it is looked at next."""
    notified_ns: int | None = None
    """When it was told last."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one notification tells, by alert id. ``new``: those of them that nobody heard of yet."""

    reason: str
    """``failed``, ``new``, ``resolved`` or ``repeat``."""
    firing: tuple[str, ...]
    resolved: tuple[str, ...]
    new: tuple[str, ...]


def arrive(group: Group, routed: RoutedAlert, route: Route, now_ns: int, *, brief: bool = False) -> Group:
    """An alert of the group did something: it fires, became graver, or is over. ``brief``: all of that
    since anybody looked."""
    members = group.members
    if (not routed.over or brief) and routed.alert.id not in members:
        members = {**members, routed.alert.id: NEVER_NOTIFIED}
    notified = members.get(routed.alert.id)
    if notified is None:
        return group
    due = min(group.due_ns or _never(now_ns), _wanted(group, notified, routed, route, now_ns))
    return replace(group, members=members, due_ns=due)


def _wanted(group: Group, notified: NotifiedState, routed: RoutedAlert, route: Route, now_ns: int) -> int:
    """When this news shall be told."""
    wait = now_ns + route.wait_ns(routed.alert.severity)
    levels = [notified.level] if routed.failure is None else [one.level for one in group.members.values()]
    before = max(levels, default=-1)
    more_severe = not routed.over and routed.alert.severity.level > before
    if group.notified_ns is None or (more_severe and routed.alert.severity is Severity.CRITICAL):
        return wait
    return max(now_ns, group.notified_ns + int(route.group_interval_s * S))


def _never(now_ns: int) -> int:
    return now_ns + 10 * 366 * 86_400 * S


def flush(
    group: Group,
    route: Route,
    routed_alerts: Mapping[str, RoutedAlert],
    marks: Mapping[str, Marks],
    muted: bool,
    now_ns: int,
) -> tuple[Group | None, Batch | None]:
    """The group after it was looked at (None: it is over) and what is to be told, if anything.

    ``environment`` are the alerts as they are now; one that is missing was deleted with its run.
    """
    known = {key: notified for key, notified in group.members.items() if key in routed_alerts}
    if muted:
        return _waiting(
            replace(group, members=_without_unnotified(known, routed_alerts, now_ns)), route, now_ns
        ), None
    decisions = {
        key: _decision(routed_alerts[key], notified, marks.get(key, NO_MARKS), now_ns)
        for key, notified in known.items()
    }
    batch = _batch(group, route, routed_alerts, decisions, now_ns)
    members = {
        key: _notified_now(routed_alerts[key], notified)
        if batch and decisions[key] in ("new", "firing", "acked")
        else notified
        for key, notified in known.items()
        if decisions[key] not in ("gone", "resolved", "brief")
    }
    after = replace(group, members=members, notified_ns=now_ns if batch else group.notified_ns)
    looked_after = any(
        decisions[key] in ("held", "noted") or routed_alerts[key].failure is not None for key in after.members
    )
    return _next(after, route, looked_after, now_ns), batch


def _decision(routed: RoutedAlert, notified: NotifiedState, marks: Marks, now_ns: int) -> str:
    """What is to be done about one alert."""
    if routed.failure is not None:
        return _of_failure(routed, notified, marks, now_ns)
    if routed.over:
        if marks.silenced_by:
            return "gone"
        if notified.ever:
            return "resolved"
        return "brief" if is_severe(routed) and not marks.suppressed and not routed.acked else "gone"
    if routed.alert.state is AlertState.PENDING or marks.suppressed or (routed.acked and not notified.ever):
        return "held"
    if routed.alert.severity.level > notified.level:
        return "new"
    return "acked" if routed.acked else "firing"


def is_severe(routed: RoutedAlert) -> bool:
    """Whether an alert that came and went before it could be told is told all the same."""
    severe = routed.alert.severity is Severity.CRITICAL or "resolved_by" in routed.alert.labels
    return severe and routed.alert.fired_ns is not None


def _of_failure(routed: RoutedAlert, notified: NotifiedState, marks: Marks, now_ns: int) -> str:
    """A run that failed is told once and never repeated; untold and going on again it is no news."""
    if routed.over:
        return "resolved" if notified.ever and not marks.silenced_by else "gone"
    if not notified.ever:
        return "held" if marks.suppressed else "new"
    return "noted" if now_ns - routed.alert.updated_ns < FOLLOWED_NS else "gone"


def _batch(
    group: Group,
    route: Route,
    routed_alerts: Mapping[str, RoutedAlert],
    decisions: Mapping[str, str],
    now_ns: int,
) -> Batch | None:
    def those(*wanted: str) -> tuple[str, ...]:
        return tuple(key for key in _most_severe_first(routed_alerts, decisions) if decisions[key] in wanted)

    new, over = those("new", "brief"), those("resolved") if route.send_resolved else ()
    firing = those("new", "firing", "acked")
    repeats = bool(those("firing")) and _is_old(group, route, now_ns)
    if not new and not over and not repeats:
        return None
    reason = "new" if new else "resolved" if over else "repeat"
    if any(routed_alerts[key].failure is not None for key in new):
        reason = "failed"
    return Batch(reason, firing, over + those("brief"), new)


def _most_severe_first(routed_alerts: Mapping[str, RoutedAlert], keys: Mapping[str, str]) -> list[str]:
    keyed = {id(routed_alerts[key].alert): key for key in keys}
    return [keyed[id(alert)] for alert in by_cause(routed_alerts[key].alert for key in keys)]


def _is_old(group: Group, route: Route, now_ns: int) -> bool:
    return group.notified_ns is not None and now_ns - group.notified_ns >= int(route.repeat_interval_s * S)


def _notified_now(routed: RoutedAlert, notified: NotifiedState) -> NotifiedState:
    return NotifiedState(max(notified.level, routed.alert.severity.level))


def _next(group: Group, route: Route, looked_after: bool, now_ns: int) -> Group | None:
    """When the group is looked at next; ``looked_after``: something in it may change without a word."""
    if not group.members:
        return None
    if looked_after or group.notified_ns is None:
        return _waiting(group, route, now_ns)
    return replace(group, due_ns=max(now_ns, group.notified_ns) + int(route.repeat_interval_s * S))


def _waiting(group: Group, route: Route, now_ns: int) -> Group | None:
    """Looked at again after the interval: a silence, an inhibition or a mute time may be over by then."""
    if not group.members:
        return None
    return replace(group, due_ns=now_ns + int(route.group_interval_s * S))


def _without_unnotified(
    members: Mapping[str, NotifiedState], routed_alerts: Mapping[str, RoutedAlert], now_ns: int
) -> dict[str, NotifiedState]:
    """During a mute time: alerts that came and went untold, and would not be told later, are let go."""
    return {
        key: notified
        for key, notified in members.items()
        if _decision(routed_alerts[key], notified, NO_MARKS, now_ns) != "gone"
    }
