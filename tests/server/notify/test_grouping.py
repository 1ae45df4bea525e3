"""What a group sends, and when: nothing twice, nothing lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.notify.conftest import NOW, S, facts_of
from tocsin_server.core.models import RUN_FAILED, AlertState
from tocsin_server.notify.grouping import Batch, Group, arrive, flush
from tocsin_server.notify.labels import Marks, RoutedAlert
from tocsin_server.notify.routing import DEFAULT, Route

Make = Callable[..., Any]
EMPTY = Group("g", "default", "mail", {"run_id": "r1"})
MUTED = Marks(silenced_by=("s1",))


class GroupHistory:
    """A group over time: alerts are added, and it is evaluated when it is due."""

    def __init__(self, route: Route = DEFAULT) -> None:
        self.route, self.now = route, NOW
        self.group: Group | None = None
        self.facts: dict[str, RoutedAlert] = {}
        self.marks: dict[str, Marks] = {}
        self.muted = False
        self.sent: list[tuple[float, Batch]] = []

    def add(self, routed: RoutedAlert) -> None:
        self.facts[routed.alert.id] = routed
        self.group = arrive(self.group or EMPTY, [routed], self.route, self.now)

    def wait(self, seconds: float) -> None:
        """Let time pass; evaluate the group whenever it is due."""
        end = self.now + int(seconds * S)
        while self.group and self.group.due_ns is not None and self.group.due_ns <= end:
            self.now = max(self.now, self.group.due_ns)
            self.group, batch = flush(self.group, self.route, self.facts, self.marks, self.muted, self.now)
            if batch:
                self.sent.append(((self.now - NOW) / S, batch))
        self.now = end

    @property
    def reasons(self) -> list[tuple[float, str]]:
        return [(at, batch.reason) for at, batch in self.sent]


def over(routed: RoutedAlert) -> RoutedAlert:
    return replace(routed, alert=replace(routed.alert, state=AlertState.RESOLVED, resolved_ns=NOW))


def test_a_critical_alert_waits_a_moment_a_warning_thirty(make_routed_alert: Make) -> None:
    """Alerts that arrive meanwhile are included."""
    history = GroupHistory()
    history.add(make_routed_alert("plateau", "warning"))
    history.wait(10)
    history.add(make_routed_alert("loss-spike", "critical"))
    history.wait(60)
    assert history.reasons == [(10.3, "new")]
    assert len(history.sent[0][1].new) == 2
    assert "loss-spike" in history.sent[0][1].firing[0], "the most severe comes first"


@pytest.mark.parametrize("first", ["nonfinite-loss", "scaler-collapse"])
def test_simultaneous_alerts_are_ordered_by_cause(make_routed_alert: Make, first: str) -> None:
    """The title of a notification names its first alert: the cause, whichever rule fired a step earlier."""
    history = GroupHistory()
    history.add(make_routed_alert(first, "critical"))
    history.add(
        make_routed_alert("scaler-collapse" if first == "nonfinite-loss" else "nonfinite-loss", "critical")
    )
    history.wait(60)
    assert "scaler-collapse" in history.sent[0][1].firing[0]


def test_a_critical_alert_does_not_wait_for_the_interval(make_routed_alert: Make) -> None:
    """Shortly after a notification, a new critical alert is sent after three seconds, a warning later."""
    history = GroupHistory()
    history.add(make_routed_alert("a", "warning"))
    history.wait(31)
    history.add(make_routed_alert("b", "warning"))
    history.wait(9)
    history.add(make_routed_alert("c", "critical"))
    history.wait(60)
    assert history.reasons == [(30.0, "new"), (40.3, "new")]


def test_a_resolution_is_sent_where_the_alert_was_sent(make_routed_alert: Make) -> None:
    """A resolution is sent once, after the interval, and the group ends with its last alert."""
    history = GroupHistory()
    fact = make_routed_alert("a", "warning")
    history.add(fact)
    history.wait(31)
    history.add(over(fact))
    history.wait(3600)
    assert history.reasons == [(30.0, "new"), (90.0, "resolved")]
    assert history.group is None


def test_a_warning_that_resolves_within_the_wait_is_not_sent(make_routed_alert: Make) -> None:
    """A critical one is sent as resolved."""
    for severity, reported in (("warning", []), ("critical", [(0.3, "new")])):
        history = GroupHistory()
        fact = make_routed_alert("a", severity)
        history.add(fact)
        history.wait(0.2)
        history.add(over(fact))
        history.wait(100)
        assert history.reasons == reported
        assert history.group is None
        assert all(batch.over == batch.new == (fact.alert.id,) for _, batch in history.sent)


def test_what_still_fires_is_repeated_until_somebody_acknowledges(make_routed_alert: Make) -> None:
    """Every four hours. An acknowledged alert is not repeated, but its end is sent."""
    history = GroupHistory()
    fact = make_routed_alert("a", "critical")
    history.add(fact)
    history.wait(9 * 3600)
    assert history.reasons == [(0.3, "new"), (14400.3, "repeat"), (28800.3, "repeat")]
    history.facts[fact.alert.id] = replace(fact, acked=True)
    history.wait(9 * 3600)
    assert len(history.sent) == 3
    history.add(over(history.facts[fact.alert.id]))
    history.wait(60)
    assert history.reasons[3:] == [(64800.0, "resolved")]


def test_a_more_severe_alert_is_sent_again(make_routed_alert: Make) -> None:
    """A warning that becomes critical is sent again after three seconds, even if it was acknowledged."""
    history = GroupHistory()
    history.add(make_routed_alert("a", "warning"))
    history.wait(40)
    history.add(make_routed_alert("a", "critical", acked=True))
    history.wait(10)
    assert history.reasons == [(30.0, "new"), (40.3, "new")]


def test_an_alert_is_sent_when_its_silence_ends(make_routed_alert: Make) -> None:
    """Nothing is sent during the silence. If the alert still fires at its end, it is sent then."""
    history = GroupHistory()
    fact = make_routed_alert("a", "critical")
    history.marks[fact.alert.id] = MUTED
    history.add(fact)
    history.wait(600)
    assert history.sent == []
    history.marks.clear()
    history.wait(60)
    assert [reason for _, reason in history.reasons] == ["new"]


def test_an_alert_is_sent_when_the_mute_time_ends(make_routed_alert: Make) -> None:
    """An alert that fires and resolves during the mute time is sent afterwards only if it was critical."""
    history = GroupHistory()
    history.muted = True
    for rule, severity in (("a", "warning"), ("b", "warning"), ("c", "critical")):
        history.add(make_routed_alert(rule, severity))
    history.wait(3600)
    for rule, severity in (("b", "warning"), ("c", "critical")):
        history.add(over(make_routed_alert(rule, severity)))
    history.wait(3600)
    assert history.sent == []
    history.muted = False
    history.wait(60)
    ((_, batch),) = history.sent
    assert [key.split(".")[1] for key in batch.new] == ["f-c", "f-a"]
    assert [key.split(".")[1] for key in batch.over] == ["f-c"]


def test_a_deleted_run_takes_its_alerts_along(make_routed_alert: Make) -> None:
    """A group whose alerts are deleted sends nothing and ends."""
    history = GroupHistory()
    history.add(make_routed_alert("a", "critical"))
    history.facts.clear()
    history.wait(60)
    assert (history.sent, history.group) == ([], None)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["fire", "escalate", "over", "ack", "silence", "loud", "restart"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 200),
    ),
    max_size=25,
)


@given(STEPS)
def test_nothing_is_sent_twice_and_nothing_critical_is_lost(steps: list[tuple[str, str, int]]) -> None:
    """In any sequence: an alert is new once for each severity, and resolved once, after it was sent.

    A critical alert that fires without a silence until the end is sent, and saving the group in between
    changes nothing.
    """
    history = GroupHistory(replace(DEFAULT, repeat_interval_s=10**6))
    episode = {"a": 1, "b": 1}
    for action, rule, pause in steps:
        routed = history.facts.get(_id(rule, episode[rule]))
        if action in ("fire", "escalate"):
            if routed is not None and routed.over:
                episode[rule] += 1
                routed = None
            severity = (
                "critical"
                if action == "escalate" or (routed and routed.alert.severity == "critical")
                else "warning"
            )
            history.add(facts_of(rule, severity, episode=episode[rule], acked=bool(routed and routed.acked)))
        elif routed is not None and action == "over" and not routed.over:
            history.add(over(routed))
        elif routed is not None and action == "ack":
            history.facts[routed.alert.id] = replace(routed, acked=True)
        elif action == "silence":
            history.marks[_id(rule, episode[rule])] = MUTED
        elif action == "loud":
            history.marks.clear()
        elif action == "restart" and history.group:
            history.group = replace(history.group, members=dict(history.group.members))
        history.wait(pause)
    history.marks.clear()
    history.wait(1000)
    new = [key for _, batch in history.sent for key in batch.new]
    resolved = [key for _, batch in history.sent for key in batch.over]
    assert all(new.count(one) <= 2 for one in new), "once as a warning, once as critical"
    assert len(resolved) == len(set(resolved))
    assert set(resolved) <= set(new)
    for key, routed in history.facts.items():
        if routed.alert.severity == "critical" and not routed.over and not routed.acked:
            assert key in new


def _id(rule: str, episode: int) -> str:
    return f"r1.f-{rule}.{episode}"


def ended(routed: RoutedAlert) -> RoutedAlert:
    """Return an alert that was firing when its run ended."""
    return replace(routed, alert=replace(routed.alert, state=AlertState.ENDED, resolved_ns=NOW))


def test_an_alert_that_its_run_ended_with_is_not_sent_as_resolved(make_routed_alert: Make) -> None:
    """Also where the route does not send resolved alerts: nothing has recovered."""
    history = GroupHistory(replace(DEFAULT, send_resolved=False))
    history.add(make_routed_alert("nonfinite-loss", "critical"))
    history.wait(10)
    history.add(ended(make_routed_alert("nonfinite-loss", "critical")))
    history.wait(3600)
    assert [reason for _, reason in history.reasons] == ["new", "ended"]
    assert history.group is None


def test_an_alert_that_ends_before_it_was_sent_is_sent(make_routed_alert: Make) -> None:
    """Warnings are included: the alert will not resolve, so it would otherwise never be sent."""
    history = GroupHistory()
    history.add(make_routed_alert("plateau", "warning"))
    history.wait(1)
    history.add(ended(make_routed_alert("plateau", "warning")))
    history.wait(3600)
    ((_, batch),) = history.sent
    assert (batch.new, batch.over) == (batch.over, batch.new)


def test_the_end_of_a_failed_run_is_one_notification(make_routed_alert: Make) -> None:
    """The failure was sent with its alerts; the end of the grace period sends nothing more."""
    history = GroupHistory()
    for rule in ("nonfinite-loss", "run-failed"):
        history.add(make_routed_alert(rule, "critical"))
    history.wait(10)
    for rule in ("nonfinite-loss", "run-failed"):
        history.add(ended(make_routed_alert(rule, "critical")))
    history.wait(3600)
    assert ([reason for _, reason in history.reasons], history.group) == (["new"], None)


def test_a_failure_soon_after_its_alert_does_not_wait(make_routed_alert: Make) -> None:
    """It is sent after three seconds although its group was notified just before."""
    history = GroupHistory()
    history.add(make_routed_alert("nonfinite-loss", "critical"))
    history.wait(10)
    history.add(make_routed_alert("run-failed", "critical"))
    history.wait(120)
    assert history.reasons == [(0.3, "new"), (13.0, "new")]


def test_a_run_that_continues_before_its_failure_was_sent_is_not_notified(make_routed_alert: Make) -> None:
    history = GroupHistory()
    history.add(make_routed_alert("run-failed", "critical"))
    history.wait(2)
    history.add(over(make_routed_alert("run-failed", "critical")))
    history.wait(3600)
    assert history.reasons == []


def joined(routed: RoutedAlert, incident: RoutedAlert) -> RoutedAlert:
    """Return the alert as one of the incident that another opened."""
    return replace(routed, alert=replace(routed.alert, incident=incident.alert.key))


def test_an_alert_that_joins_an_incident_is_not_sent_by_itself(make_routed_alert: Make) -> None:
    history = GroupHistory()
    first = make_routed_alert("nonfinite-loss", severity="critical")
    history.add(joined(first, first))
    history.wait(5)
    history.add(joined(make_routed_alert("nonfinite-grad-norm", severity="critical"), first))
    history.wait(300)
    assert history.reasons == [(0.3, "new")]


def test_a_more_severe_alert_escalates_an_incident(make_routed_alert: Make) -> None:
    history = GroupHistory()
    first = make_routed_alert("grad-explosion", severity="warning")
    history.add(joined(first, first))
    history.wait(40)
    history.add(joined(make_routed_alert("nonfinite-loss", severity="critical"), first))
    history.wait(300)
    assert history.reasons == [(30.0, "new"), (40.3, "new")]
    assert len(history.sent[-1][1].firing) == 2


def test_an_incident_is_resolved_when_its_last_alert_is(make_routed_alert: Make) -> None:
    """One resolution for all."""
    history = GroupHistory()
    first = make_routed_alert("nonfinite-loss", severity="critical")
    second = make_routed_alert("grad-explosion", severity="warning")
    for each in (first, second):
        history.add(joined(each, first))
    history.wait(100)
    history.add(over(joined(first, first)))
    history.wait(100)
    assert [reason for _, reason in history.reasons] == ["new"]
    history.add(over(joined(second, first)))
    history.wait(100)
    assert [reason for _, reason in history.reasons] == ["new", "resolved"]
    assert len(history.sent[-1][1].over) == 2
    assert history.group is None


def test_a_crash_is_sent_although_its_incident_is_critical(make_routed_alert: Make) -> None:
    history = GroupHistory()
    first = make_routed_alert("nonfinite-loss", severity="critical")
    history.add(joined(first, first))
    history.wait(10)
    history.add(joined(make_routed_alert(RUN_FAILED, severity="critical"), first))
    history.wait(10)
    assert history.reasons == [(0.3, "new"), (13.0, "new")]


def test_a_run_that_ended_broken_is_sent_when_its_silence_ends(make_routed_alert: Make) -> None:
    history = GroupHistory()
    first = make_routed_alert("nonfinite-loss", severity="critical")
    history.marks[first.alert.id] = MUTED
    history.add(first)
    history.wait(10)
    history.add(replace(first, alert=replace(first.alert, state=AlertState.ENDED, resolved_ns=NOW)))
    history.wait(300)
    assert history.reasons == []
    history.marks.clear()
    history.wait(300)
    assert [reason for _, reason in history.reasons] == ["new"]
    assert history.sent[0][1].over == (first.alert.id,)


@pytest.mark.parametrize("silenced", [False, True])
def test_an_incident_that_ended_broken_is_not_sent_as_resolved(
    make_routed_alert: Make, silenced: bool
) -> None:
    """One of its alerts recovered, then the run crashed. A silence of the crash changes nothing."""
    history = GroupHistory()
    spike = make_routed_alert("loss-spike", "critical", incident="f-loss-spike.1")
    crash = make_routed_alert(RUN_FAILED, "critical", incident="f-loss-spike.1")
    for each in (spike, crash):
        history.add(each)
    history.wait(10)
    history.add(over(spike))
    history.wait(100)
    if silenced:
        history.marks[crash.alert.id] = MUTED
    history.add(ended(crash))
    history.wait(3600)
    assert [reason for _, reason in history.reasons] == ["new"]


def test_the_end_of_a_failed_run_does_not_hide_that_of_another_run(make_routed_alert: Make) -> None:
    """Both are in one group, as with ``group_by: [project]``, and end together."""
    history = GroupHistory()
    crash = make_routed_alert(RUN_FAILED, "critical")
    other = make_routed_alert("nonfinite-loss", "critical", run_id="r2")
    for each in (crash, other):
        history.add(each)
    history.wait(10)
    for each in (crash, other):
        history.add(ended(each))
    history.wait(3600)
    assert [reason for _, reason in history.reasons] == ["new", "ended"]
    assert history.sent[-1][1].over == (other.alert.id,)
