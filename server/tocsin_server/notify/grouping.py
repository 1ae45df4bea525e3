"""Group alerts: what is sent together, when, and what was sent already. Pure; the clock is an argument.

An incident is notified when it opens, when a more severe alert joins it, and when all of its alerts are over;
alerts that join it without being more severe are sent with the next notification. As in Alertmanager, a new
group waits ``group_wait`` for more alerts, later changes wait ``group_interval``, alerts that still fire are
repeated after ``repeat_interval``, and a resolution is sent where the alert was sent. There are two
differences. A critical alert waits ``group_wait`` only, even if its group was notified recently. An alert
that was over before it could be sent is still sent once, if it was critical or was firing when its run ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tocsin_server.core.causal_order import by_cause
from tocsin_server.core.models import RUN_FAILED, AlertState, Severity
from tocsin_server.notify.labels import NEVER_NOTIFIED, NO_MARKS, Marks, NotifiedState, RoutedAlert
from tocsin_server.notify.routing import Route

S = 10**9


OVER = ("gone", "resolved", "ended", "known", "brief")
"""Decisions after which an alert leaves its group."""


@dataclass(frozen=True, slots=True)
class _IncidentStatus:
    """Status of the alerts of one incident that are in a group."""

    level: int
    """Highest severity level that was notified, -1 if none."""
    over: bool
    """Whether all of them are over."""


@dataclass(frozen=True, slots=True)
class Group:
    """Alerts of one route and channel that share the labels of ``group_by``."""

    id: str
    route: str
    channel: str
    labels: Mapping[str, str]
    members: Mapping[str, NotifiedState] = field(default_factory=dict)
    """Alert id -> what was sent about it."""
    due_ns: int | None = None
    """When the group is evaluated next."""
    notified_ns: int | None = None
    """When a notification was last sent."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The alert ids of one notification. ``new``: those that were not notified before."""

    reason: str
    """``new``, ``ended``, ``resolved`` or ``repeat``."""
    firing: tuple[str, ...]
    over: tuple[str, ...]
    """Alerts that resolved, or were firing when their run ended."""
    new: tuple[str, ...]


def arrive(
    group: Group, arrived: Iterable[RoutedAlert], route: Route, now_ns: int, *, brief: Collection[str] = ()
) -> Group:
    """Return the group after alerts fired, became more severe or resolved.

    ``brief``: ids of the alerts that did all of that since the last pass.
    """
    members, due = dict(group.members), group.due_ns
    for routed in arrived:
        if not routed.over or routed.alert.id in brief:
            members.setdefault(routed.alert.id, NEVER_NOTIFIED)
        notified = members.get(routed.alert.id)
        if notified is not None:
            due = min(due or _never(now_ns), _wanted(group, notified, routed, route, now_ns))
    return replace(group, members=members, due_ns=due)


def _wanted(group: Group, notified: NotifiedState, routed: RoutedAlert, route: Route, now_ns: int) -> int:
    """Return when this change should be notified."""
    wait = now_ns + route.wait_ns(routed.alert.severity, routed.alert.rule)
    more_severe = not routed.over and level_of(routed) > notified.level
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
    """Evaluate a group that is due.

    Args:
        group: The group.
        route: Its route.
        routed_alerts: The alerts as they are now; a missing one was deleted with its run.
        marks: Why alerts are suppressed.
        muted: Whether a mute time is active.
        now_ns: The server's time.

    Returns:
        The group afterwards (None if it ended), and what to send, if anything.
    """
    known = {key: notified for key, notified in group.members.items() if key in routed_alerts}
    incidents = _incidents(known, routed_alerts)
    if muted:
        left = _without_unnotified(known, routed_alerts, incidents, now_ns)
        return _waiting(replace(group, members=left), route, now_ns), None
    decisions = {
        key: _decision(
            routed_alerts[key], notified, incidents[incident_of(routed_alerts[key])], marks.get(key, NO_MARKS)
        )
        for key, notified in known.items()
    }
    batch = _batch(group, route, routed_alerts, decisions, now_ns)
    members = {
        key: _notified_now(routed_alerts[key], notified)
        if decisions[key] == "joined" or (batch and decisions[key] in ("new", "firing", "acked"))
        else notified
        for key, notified in known.items()
        if decisions[key] not in OVER
    }
    after = replace(group, members=members, notified_ns=now_ns if batch else group.notified_ns)
    looked_after = any(decisions[key] == "held" for key in after.members)
    return _next(after, route, looked_after, now_ns), batch


def per_incident(
    group: Group, batch: Batch, routed_alerts: Mapping[str, RoutedAlert]
) -> Iterator[tuple[str, Batch]]:
    """Yield each incident that a batch has news of, and its own batch.

    It contains all alerts of the incident that still fire: its message replaces the one before.
    """
    reported: dict[str, list[str]] = {}
    for key in (*batch.firing, *batch.over):
        reported.setdefault(incident_of(routed_alerts[key]), []).append(key)
    joined: dict[str, list[str]] = {}
    for key in group.members:
        if key in routed_alerts and _is_firing(routed_alerts[key]):
            joined.setdefault(incident_of(routed_alerts[key]), []).append(key)
    all_over, all_new = set(batch.over), set(batch.new)
    for name, keys in reported.items():
        over = tuple(key for key in keys if key in all_over)
        new = tuple(key for key in keys if key in all_new)
        firing = dict.fromkeys([*(key for key in keys if key not in all_over), *joined.get(name, ())])
        if new or over or batch.reason == "repeat":
            ended = any(routed_alerts[key].ended for key in over)
            known = "ended" if ended else "resolved" if over else "repeat"
            yield name, Batch("new" if new else known, tuple(firing), over, new)


def _is_firing(routed: RoutedAlert) -> bool:
    return not routed.over and routed.alert.state is not AlertState.PENDING


def level_of(routed: RoutedAlert) -> int:
    """Return the level of an alert's severity, 0 to 2; a crash is one level above critical."""
    level = routed.alert.severity.level
    return level + 1 if level == Severity.CRITICAL.level and routed.alert.rule == RUN_FAILED else level


def incident_of(routed: RoutedAlert) -> str:
    """Return the incident of an alert, or the alert itself if it belongs to none."""
    return routed.alert.incident_id or routed.alert.id


def _incidents(
    members: Mapping[str, NotifiedState], routed_alerts: Mapping[str, RoutedAlert]
) -> dict[str, _IncidentStatus]:
    """Return the status of each incident in a group."""
    found: dict[str, _IncidentStatus] = {}
    for key, notified in members.items():
        name, over = incident_of(routed_alerts[key]), routed_alerts[key].over
        before = found.get(name, _IncidentStatus(-1, True))
        found[name] = _IncidentStatus(max(before.level, notified.level), before.over and over)
    return found


def _decision(routed: RoutedAlert, notified: NotifiedState, incident: _IncidentStatus, marks: Marks) -> str:
    """Return what to do with one alert."""
    level = level_of(routed)
    if not routed.over:
        if routed.alert.state is AlertState.PENDING or marks.suppressed:
            return "held"
        if level > incident.level:
            return "held" if routed.acked and not notified.ever else "new"
        if not notified.ever:
            return "joined"
        return "acked" if routed.acked else "firing"
    if marks.silenced_by:  # a run that ended broken is still broken when the silence ends
        return "held" if routed.ended and is_severe(routed) else "gone"
    unheard = is_severe(routed) and level > incident.level and not marks.suppressed and not routed.acked
    if not notified.ever and unheard:
        return "brief"
    continues = routed.alert.rule == RUN_FAILED and not routed.ended
    if not incident.over and not (continues and notified.ever):
        return "joined"  # it is reported when the incident is over
    if incident.level < 0:
        return "gone"
    if routed.ended:
        return "known" if routed.alert.rule == RUN_FAILED else "ended"
    return "resolved" if notified.ever else "gone"


def is_severe(routed: RoutedAlert) -> bool:
    """Return whether an alert that was over before it could be sent is still notified.

    A failure that another attempt followed at once is not.
    """
    if routed.alert.rule == RUN_FAILED and not routed.ended:
        return False
    severe = routed.alert.severity is Severity.CRITICAL or routed.ended
    return severe and routed.alert.fired_ns is not None


def _batch(
    group: Group,
    route: Route,
    routed_alerts: Mapping[str, RoutedAlert],
    decisions: Mapping[str, str],
    now_ns: int,
) -> Batch | None:
    def those(*wanted: str) -> tuple[str, ...]:
        return tuple(key for key in _most_severe_first(routed_alerts, decisions) if decisions[key] in wanted)

    new = those("new", "brief")
    # These alerts were notified with the failure of the run; the end of the grace period adds nothing.
    failed = {routed_alerts[key].alert.run_id for key in those("known")}
    ended = tuple(key for key in those("ended") if routed_alerts[key].alert.run_id not in failed)
    # An incident that ended broken is never reported as resolved, whatever else recovered before.
    broken = {incident_of(routed_alerts[key]) for key in decisions if routed_alerts[key].ended}
    broken -= {incident_of(routed_alerts[key]) for key in ended}
    resolved = tuple(key for key in those("resolved") if incident_of(routed_alerts[key]) not in broken)
    over = (*ended, *(resolved if route.send_resolved else ()))
    firing = those("new", "firing", "acked")
    repeats = bool(those("firing")) and _is_old(group, route, now_ns)
    if not new and not over and not repeats:
        return None
    reason = "new" if new else "ended" if ended else "resolved" if over else "repeat"
    return Batch(reason, firing, over + those("brief"), new)


def _most_severe_first(routed_alerts: Mapping[str, RoutedAlert], keys: Mapping[str, str]) -> list[str]:
    keyed = {id(routed_alerts[key].alert): key for key in keys}
    return [keyed[id(alert)] for alert in by_cause(routed_alerts[key].alert for key in keys)]


def _is_old(group: Group, route: Route, now_ns: int) -> bool:
    return group.notified_ns is not None and now_ns - group.notified_ns >= int(route.repeat_interval_s * S)


def _notified_now(routed: RoutedAlert, notified: NotifiedState) -> NotifiedState:
    return NotifiedState(max(notified.level, level_of(routed)))


def _next(group: Group, route: Route, looked_after: bool, now_ns: int) -> Group | None:
    """Return the group with its next due time; ``looked_after``: it must be checked at every interval."""
    if not group.members:
        return None
    if looked_after or group.notified_ns is None:
        return _waiting(group, route, now_ns)
    return replace(group, due_ns=max(now_ns, group.notified_ns) + int(route.repeat_interval_s * S))


def _waiting(group: Group, route: Route, now_ns: int) -> Group | None:
    """Return the group due after the interval, when a silence, inhibition or mute time may have ended."""
    if not group.members:
        return None
    return replace(group, due_ns=now_ns + int(route.group_interval_s * S))


def _without_unnotified(
    members: Mapping[str, NotifiedState],
    routed_alerts: Mapping[str, RoutedAlert],
    incidents: Mapping[str, _IncidentStatus],
    now_ns: int,
) -> dict[str, NotifiedState]:
    """Drop alerts that ended during a mute time and would not be notified afterwards."""
    return {
        key: notified
        for key, notified in members.items()
        if _decision(routed_alerts[key], notified, incidents[incident_of(routed_alerts[key])], NO_MARKS)
        != "gone"
    }
