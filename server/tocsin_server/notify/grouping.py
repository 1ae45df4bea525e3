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
from tocsin_server.notify.labels import NO_MARKS, UNTOLD, AlertFacts, Marks, Told
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
    members: Mapping[str, Told] = field(default_factory=dict)
    """By alert id: what was told of it."""
    due_ns: int | None = None
    """When it is looked at next."""
    told_ns: int | None = None
    """When it was told last."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one notification tells, by alert id. ``new``: those of them that nobody heard of yet."""

    reason: str
    """``failed``, ``new``, ``resolved`` or ``repeat``."""
    firing: tuple[str, ...]
    resolved: tuple[str, ...]
    new: tuple[str, ...]


def arrive(group: Group, facts: AlertFacts, route: Route, now_ns: int, *, brief: bool = False) -> Group:
    """An alert of the group did something: it fires, became graver, or is over. ``brief``: all of that
    since anybody looked."""
    members = group.members
    if (not facts.over or brief) and facts.alert.id not in members:
        members = {**members, facts.alert.id: UNTOLD}
    told = members.get(facts.alert.id)
    if told is None:
        return group
    due = min(group.due_ns or _never(now_ns), _wanted(group, told, facts, route, now_ns))
    return replace(group, members=members, due_ns=due)


def _wanted(group: Group, told: Told, facts: AlertFacts, route: Route, now_ns: int) -> int:
    """When this news shall be told."""
    wait = now_ns + route.wait_ns(facts.alert.severity)
    heights = [told.height] if facts.failure is None else [one.height for one in group.members.values()]
    before = max(heights, default=-1)
    graver = not facts.over and facts.alert.severity.height > before
    if group.told_ns is None or (graver and facts.alert.severity is Severity.CRITICAL):
        return wait
    return max(now_ns, group.told_ns + int(route.group_interval_s * S))


def _never(now_ns: int) -> int:
    return now_ns + 10 * 366 * 86_400 * S


def flush(
    group: Group,
    route: Route,
    facts: Mapping[str, AlertFacts],
    marks: Mapping[str, Marks],
    muted: bool,
    now_ns: int,
) -> tuple[Group | None, Batch | None]:
    """The group after it was looked at (None: it is over) and what is to be told, if anything.

    ``facts`` are the alerts as they are now; one that is missing was deleted with its run.
    """
    known = {key: told for key, told in group.members.items() if key in facts}
    if muted:
        return _waiting(replace(group, members=_without_trifles(known, facts, now_ns)), route, now_ns), None
    verdicts = {
        key: _verdict(facts[key], told, marks.get(key, NO_MARKS), now_ns) for key, told in known.items()
    }
    batch = _batch(group, route, facts, verdicts, now_ns)
    members = {
        key: _told_now(facts[key], told) if batch and verdicts[key] in ("new", "firing", "acked") else told
        for key, told in known.items()
        if verdicts[key] not in ("gone", "resolved", "brief")
    }
    after = replace(group, members=members, told_ns=now_ns if batch else group.told_ns)
    looked_after = any(
        verdicts[key] in ("held", "noted") or facts[key].failure is not None for key in after.members
    )
    return _next(after, route, looked_after, now_ns), batch


def _verdict(facts: AlertFacts, told: Told, marks: Marks, now_ns: int) -> str:
    """What is to be done about one alert."""
    if facts.failure is not None:
        return _of_failure(facts, told, marks, now_ns)
    if facts.over:
        if marks.silenced_by:
            return "gone"
        if told.ever:
            return "resolved"
        return "brief" if is_grave(facts) and not marks.quiet and not facts.acked else "gone"
    if facts.alert.state is AlertState.PENDING or marks.quiet or (facts.acked and not told.ever):
        return "held"
    if facts.alert.severity.height > told.height:
        return "new"
    return "acked" if facts.acked else "firing"


def is_grave(facts: AlertFacts) -> bool:
    """Whether an alert that came and went before it could be told is told all the same."""
    grave = facts.alert.severity is Severity.CRITICAL or "resolved_by" in facts.alert.labels
    return grave and facts.alert.fired_ns is not None


def _of_failure(facts: AlertFacts, told: Told, marks: Marks, now_ns: int) -> str:
    """A run that failed is told once and never repeated; untold and going on again it is no news."""
    if facts.over:
        return "resolved" if told.ever and not marks.silenced_by else "gone"
    if not told.ever:
        return "held" if marks.quiet else "new"
    return "noted" if now_ns - facts.alert.updated_ns < FOLLOWED_NS else "gone"


def _batch(
    group: Group, route: Route, facts: Mapping[str, AlertFacts], verdicts: Mapping[str, str], now_ns: int
) -> Batch | None:
    def those(*wanted: str) -> tuple[str, ...]:
        return tuple(key for key in _gravest_first(facts, verdicts) if verdicts[key] in wanted)

    new, over = those("new", "brief"), those("resolved") if route.send_resolved else ()
    firing = those("new", "firing", "acked")
    repeats = bool(those("firing")) and _is_old(group, route, now_ns)
    if not new and not over and not repeats:
        return None
    reason = "new" if new else "resolved" if over else "repeat"
    if any(facts[key].failure is not None for key in new):
        reason = "failed"
    return Batch(reason, firing, over + those("brief"), new)


def _gravest_first(facts: Mapping[str, AlertFacts], keys: Mapping[str, str]) -> list[str]:
    keyed = {id(facts[key].alert): key for key in keys}
    return [keyed[id(alert)] for alert in by_cause(facts[key].alert for key in keys)]


def _is_old(group: Group, route: Route, now_ns: int) -> bool:
    return group.told_ns is not None and now_ns - group.told_ns >= int(route.repeat_interval_s * S)


def _told_now(facts: AlertFacts, told: Told) -> Told:
    return Told(max(told.height, facts.alert.severity.height))


def _next(group: Group, route: Route, looked_after: bool, now_ns: int) -> Group | None:
    """When the group is looked at next; ``looked_after``: something in it may change without a word."""
    if not group.members:
        return None
    if looked_after or group.told_ns is None:
        return _waiting(group, route, now_ns)
    return replace(group, due_ns=max(now_ns, group.told_ns) + int(route.repeat_interval_s * S))


def _waiting(group: Group, route: Route, now_ns: int) -> Group | None:
    """Looked at again after the interval: a silence, an inhibition or a mute time may be over by then."""
    if not group.members:
        return None
    return replace(group, due_ns=now_ns + int(route.group_interval_s * S))


def _without_trifles(
    members: Mapping[str, Told], facts: Mapping[str, AlertFacts], now_ns: int
) -> dict[str, Told]:
    """During a mute time: alerts that came and went untold, and would not be told later, are let go."""
    return {
        key: told for key, told in members.items() if _verdict(facts[key], told, NO_MARKS, now_ns) != "gone"
    }
