"""What a group tells, and when: nothing twice, nothing forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.server.notify.conftest import NOW, S, facts_of
from tocsin_server.core.models import AlertState
from tocsin_server.notify.grouping import Batch, Group, arrive, flush
from tocsin_server.notify.labels import AlertFacts, Marks
from tocsin_server.notify.routing import DEFAULT, Route

Make = Callable[..., Any]
EMPTY = Group("g", "default", "mail", {"run_id": "r1"})
MUTED = Marks(silenced_by=("s1",))


class Teller:
    """A group over time: alerts arrive, and it is looked at when it is due."""

    def __init__(self, route: Route = DEFAULT) -> None:
        self.route, self.now = route, NOW
        self.group: Group | None = None
        self.facts: dict[str, AlertFacts] = {}
        self.marks: dict[str, Marks] = {}
        self.muted = False
        self.told: list[tuple[float, Batch]] = []

    def hear(self, facts: AlertFacts) -> None:
        self.facts[facts.alert.id] = facts
        self.group = arrive(self.group or EMPTY, facts, self.route, self.now)

    def wait(self, seconds: float) -> None:
        """Lets time pass; the group is looked at whenever it is due."""
        end = self.now + int(seconds * S)
        while self.group and self.group.due_ns is not None and self.group.due_ns <= end:
            self.now = max(self.now, self.group.due_ns)
            self.group, batch = flush(self.group, self.route, self.facts, self.marks, self.muted, self.now)
            if batch:
                self.told.append(((self.now - NOW) / S, batch))
        self.now = end

    @property
    def reasons(self) -> list[tuple[float, str]]:
        return [(at, batch.reason) for at, batch in self.told]


def over(facts: AlertFacts) -> AlertFacts:
    return replace(facts, alert=replace(facts.alert, state=AlertState.RESOLVED, resolved_ns=NOW))


def test_a_critical_alert_waits_five_seconds_a_warning_thirty(make_facts: Make) -> None:
    """And what comes meanwhile goes along."""
    teller = Teller()
    teller.hear(make_facts("plateau", "warning"))
    teller.wait(10)
    teller.hear(make_facts("loss-spike", "critical"))
    teller.wait(60)
    assert teller.reasons == [(15.0, "new")]
    assert len(teller.told[0][1].new) == 2
    assert "loss-spike" in teller.told[0][1].firing[0], "the gravest comes first"


@pytest.mark.parametrize("first", ["nonfinite-loss", "scaler-collapse"])
def test_simultaneous_alerts_are_told_by_cause(make_facts: Make, first: str) -> None:
    """A notification's title names its first alert: the cause, whichever rule fired a step earlier."""
    teller = Teller()
    teller.hear(make_facts(first, "critical"))
    teller.hear(make_facts("scaler-collapse" if first == "nonfinite-loss" else "nonfinite-loss", "critical"))
    teller.wait(60)
    assert "scaler-collapse" in teller.told[0][1].firing[0]


def test_a_critical_alert_does_not_wait_for_the_interval(make_facts: Make) -> None:
    """A group that was told a moment ago tells a new critical alert after five seconds, a warning later."""
    teller = Teller()
    teller.hear(make_facts("a", "warning"))
    teller.wait(31)
    teller.hear(make_facts("b", "warning"))
    teller.wait(9)
    teller.hear(make_facts("c", "critical"))
    teller.wait(60)
    assert teller.reasons == [(30.0, "new"), (45.0, "new")]


def test_what_is_over_is_told_where_its_firing_was(make_facts: Make) -> None:
    """Resolved comes once, after the interval, and the group is gone with its last alert."""
    teller = Teller()
    fact = make_facts("a", "warning")
    teller.hear(fact)
    teller.wait(31)
    teller.hear(over(fact))
    teller.wait(3600)
    assert teller.reasons == [(30.0, "new"), (90.0, "resolved")]
    assert teller.group is None


def test_a_warning_that_comes_and_goes_within_the_wait_is_not_told(make_facts: Make) -> None:
    """A critical one is: as over."""
    for severity, told in (("warning", []), ("critical", [(5.0, "new")])):
        teller = Teller()
        fact = make_facts("a", severity)
        teller.hear(fact)
        teller.wait(1)
        teller.hear(over(fact))
        teller.wait(100)
        assert teller.reasons == told
        assert teller.group is None
        assert all(batch.resolved == batch.new == (fact.alert.id,) for _, batch in teller.told)


def test_what_still_fires_is_repeated_until_somebody_acknowledges(make_facts: Make) -> None:
    """Every four hours; an acknowledged alert is not, but its end is told."""
    teller = Teller()
    fact = make_facts("a", "critical")
    teller.hear(fact)
    teller.wait(9 * 3600)
    assert teller.reasons == [(5.0, "new"), (14405.0, "repeat"), (28805.0, "repeat")]
    teller.facts[fact.alert.id] = replace(fact, acked=True)
    teller.wait(9 * 3600)
    assert len(teller.told) == 3
    teller.hear(over(teller.facts[fact.alert.id]))
    teller.wait(60)
    assert teller.reasons[3:] == [(64800.0, "resolved")]


def test_a_graver_alert_is_told_again(make_facts: Make) -> None:
    """Warning told, then it is critical: five seconds later everybody knows, acknowledged or not."""
    teller = Teller()
    teller.hear(make_facts("a", "warning"))
    teller.wait(40)
    teller.hear(make_facts("a", "critical", acked=True))
    teller.wait(10)
    assert teller.reasons == [(30.0, "new"), (45.0, "new")]


def test_a_silence_holds_back_and_lets_go(make_facts: Make) -> None:
    """While it lasts nothing is told; if the alert still fires at its end it is told then."""
    teller = Teller()
    fact = make_facts("a", "critical")
    teller.marks[fact.alert.id] = MUTED
    teller.hear(fact)
    teller.wait(600)
    assert teller.told == []
    teller.marks.clear()
    teller.wait(60)
    assert [reason for _, reason in teller.reasons] == ["new"]


def test_a_mute_time_holds_back_and_lets_go(make_facts: Make) -> None:
    """What fires in the night and is over in the morning is told only where it was critical."""
    teller = Teller()
    teller.muted = True
    for rule, severity in (("a", "warning"), ("b", "warning"), ("c", "critical")):
        teller.hear(make_facts(rule, severity))
    teller.wait(3600)
    for rule, severity in (("b", "warning"), ("c", "critical")):
        teller.hear(over(make_facts(rule, severity)))
    teller.wait(3600)
    assert teller.told == []
    teller.muted = False
    teller.wait(60)
    ((_, batch),) = teller.told
    assert [key.split(".")[1] for key in batch.new] == ["f-c", "f-a"]
    assert [key.split(".")[1] for key in batch.resolved] == ["f-c"]


def test_a_deleted_run_takes_its_alerts_along(make_facts: Make) -> None:
    """A group whose alerts are gone tells nothing and is over."""
    teller = Teller()
    teller.hear(make_facts("a", "critical"))
    teller.facts.clear()
    teller.wait(60)
    assert (teller.told, teller.group) == ([], None)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["fire", "graver", "over", "ack", "silence", "loud", "restart"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 200),
    ),
    max_size=25,
)


@given(STEPS)
def test_nothing_is_told_twice_and_nothing_critical_is_forgotten(steps: list[tuple[str, str, int]]) -> None:
    """Whatever happens: an alert is new once a severity, resolved once and after it was told; a critical
    one that fires unsilenced to the end was told; and saving the group in between changes nothing."""
    teller = Teller(replace(DEFAULT, repeat_interval_s=10**6))
    episode = {"a": 1, "b": 1}
    for action, rule, pause in steps:
        fact = teller.facts.get(_id(rule, episode[rule]))
        if action in ("fire", "graver"):
            if fact is not None and fact.over:
                episode[rule] += 1
                fact = None
            severity = (
                "critical"
                if action == "graver" or (fact and fact.alert.severity == "critical")
                else "warning"
            )
            teller.hear(facts_of(rule, severity, episode=episode[rule], acked=bool(fact and fact.acked)))
        elif fact is not None and action == "over" and not fact.over:
            teller.hear(over(fact))
        elif fact is not None and action == "ack":
            teller.facts[fact.alert.id] = replace(fact, acked=True)
        elif action == "silence":
            teller.marks[_id(rule, episode[rule])] = MUTED
        elif action == "loud":
            teller.marks.clear()
        elif action == "restart" and teller.group:
            teller.group = replace(teller.group, members=dict(teller.group.members))
        teller.wait(pause)
    teller.marks.clear()
    teller.wait(1000)
    new = [key for _, batch in teller.told for key in batch.new]
    resolved = [key for _, batch in teller.told for key in batch.resolved]
    assert all(new.count(one) <= 2 for one in new), "once as a warning, once as critical"
    assert len(resolved) == len(set(resolved))
    assert set(resolved) <= set(new)
    for key, fact in teller.facts.items():
        if fact.alert.severity == "critical" and not fact.over and not fact.acked:
            assert key in new


def _id(rule: str, episode: int) -> str:
    return f"r1.f-{rule}.{episode}"


def failure(make_facts: Make, severity: str = "critical", run_id: str = "r1") -> AlertFacts:
    """A run that failed now."""
    fact: AlertFacts = make_facts("failed", severity, run_id=run_id, updated_ns=NOW)
    return replace(fact, failure={"type": "OutOfMemoryError"})


def test_a_failure_is_told_once_and_never_repeated(make_facts: Make) -> None:
    """After five seconds; a day later nobody was called again, and the group is over."""
    teller = Teller()
    teller.hear(failure(make_facts))
    teller.wait(86_400)
    assert teller.reasons == [(5.0, "failed")]
    assert teller.group is None


def test_a_failure_after_its_alert_is_the_groups_next_news(make_facts: Make) -> None:
    """A critical alert was told a moment ago: no second page, and both are in what comes."""
    teller = Teller()
    teller.hear(make_facts("nonfinite-loss", "critical"))
    teller.wait(10)
    teller.hear(failure(make_facts))
    teller.wait(120)
    assert teller.reasons == [(5.0, "new"), (65.0, "failed")]
    assert len(teller.told[1][1].firing) == 2


def test_a_failure_graver_than_what_was_told_does_not_wait(make_facts: Make) -> None:
    """A warning was told a moment ago: the failure is told after five seconds."""
    teller = Teller()
    teller.hear(make_facts("plateau", "warning"))
    teller.wait(31)
    teller.hear(failure(make_facts))
    teller.wait(120)
    assert teller.reasons == [(30.0, "new"), (36.0, "failed")]


def test_a_run_that_goes_on_before_its_failure_was_told_is_told_nobody(make_facts: Make) -> None:
    """One that goes on after it is told so once, whenever within the hour."""
    quick, slow = Teller(), Teller()
    quick.hear(failure(make_facts, "warning"))
    quick.wait(20)
    quick.facts = {key: over(fact) for key, fact in quick.facts.items()}
    quick.wait(3600)
    assert quick.reasons == []
    slow.hear(failure(make_facts))
    slow.wait(1800)
    slow.facts = {key: over(fact) for key, fact in slow.facts.items()}
    slow.wait(3600)
    assert [reason for _, reason in slow.reasons] == ["failed", "resolved"]


def test_a_silenced_failure_is_held_back_while_the_silence_lasts(make_facts: Make) -> None:
    """And told when it ends."""
    teller = Teller()
    fact = failure(make_facts)
    teller.marks = {fact.alert.id: MUTED}
    teller.hear(fact)
    teller.wait(600)
    assert teller.reasons == []
    teller.marks = {}
    teller.wait(120)
    assert [reason for _, reason in teller.reasons] == ["failed"]
