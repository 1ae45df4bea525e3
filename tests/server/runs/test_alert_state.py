"""Alert state: one alert per episode, nothing notified twice, nothing lost at a restart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.models import (
    RUN_FAILED,
    Alert,
    AlertState,
    Diagnosis,
    Finding,
    Severity,
    Transition,
)
from tocsin_server.runs.alert_state import LATE_NS, RunAlerts, fingerprint_of

NOW = 10**18


def finding(state: str, severity: str = "warning", **change: Any) -> Finding:
    facts: dict[str, Any] = {
        "rule": "loss-spike",
        "severity": Severity(severity),
        "state": AlertState(state),
        "subject": "loss",
        "onset_step": 100,
        "step": 102,
        "time_ns": NOW,
        "summary": "Loss spiked",
        "diagnosis": Diagnosis(cause="a batch"),
        "onset_ns": NOW - 5,
    }
    return Finding(**{**facts, **change})


def apply_all(tracker: RunAlerts, *findings: Finding) -> list[Transition]:
    return [transition for item in findings for transition in tracker.apply(item, NOW)]


def test_a_life() -> None:
    """Pending, firing, recovering, resolved: four transitions of one alert, with their times."""
    tracker = RunAlerts("r_1")
    reported = apply_all(tracker, *(finding(state, step=step) for step, state in enumerate(
        ["pending", "firing", "recovering", "resolved"], 102)))  # fmt: skip
    assert [transition.alert.state for transition in reported] == [
        "pending",
        "firing",
        "recovering",
        "resolved",
    ]
    assert [transition.previous for transition in reported] == [None, "pending", "firing", "recovering"]
    last = reported[-1].alert
    assert (last.onset_step, last.fired_step, last.resolved_step) == (100, 103, 105)
    assert last.id == f"r_1.{fingerprint_of('loss-spike', 'loss', {})}.1"


def test_a_repeated_finding_changes_nothing() -> None:
    """A repeated finding is not a transition."""
    tracker = RunAlerts("r_1")
    assert len(apply_all(tracker, finding("firing"), finding("firing"), finding("firing"))) == 1


def test_severity_only_rises_within_an_episode() -> None:
    """Warning, critical, warning: it stays critical."""
    tracker = RunAlerts("r_1")
    reported = apply_all(
        tracker, finding("firing"), finding("firing", "critical"), finding("firing", "warning", step=110)
    )
    assert [transition.alert.severity for transition in reported] == ["warning", "critical"]
    assert all(transition.first for transition in reported)


def test_firing_again_after_recovering_is_not_sent_twice() -> None:
    """A recovering alert that fires again updates its row without another notification."""
    tracker = RunAlerts("r_1")
    reported = apply_all(
        tracker, finding("firing"), finding("recovering"), finding("firing"), finding("recovering")
    )
    assert [transition.first for transition in reported] == [True, True, False, False]
    assert {transition.alert.episode for transition in reported} == {1}


def test_new_evidence_updates_the_row() -> None:
    """A new summary in the same state is stored without a notification."""
    tracker = RunAlerts("r_1")
    (transition,) = apply_all(tracker, finding("firing"), finding("firing", summary="Loss spiked further"))[
        1:
    ]
    assert (transition.first, transition.alert.summary) == (False, "Loss spiked further")


def test_after_resolved_comes_the_next_episode() -> None:
    """If the rule fires again later, it is a new alert with the same fingerprint."""
    tracker = RunAlerts("r_1")
    reported = apply_all(tracker, finding("firing"), finding("resolved"), finding("firing"))
    assert [transition.alert.episode for transition in reported] == [1, 1, 2]
    assert reported[-1].first
    assert reported[0].alert.fingerprint == reported[-1].alert.fingerprint


def test_an_end_without_a_beginning_is_nothing() -> None:
    """Resolved or recovering without an alert is ignored."""
    assert apply_all(RunAlerts("r_1"), finding("resolved"), finding("recovering")) == []


def test_firing_never_goes_back_to_pending() -> None:
    """A later pending finding adds to the firing alert."""
    tracker = RunAlerts("r_1")
    apply_all(tracker, finding("firing"), finding("pending", onset_step=90))
    (alert,) = tracker.open()
    assert (alert.state, alert.onset_step) == ("firing", 90)


def test_a_restart_of_the_server_continues_the_same_alert() -> None:
    """After it is restored from stored alerts, neither the firing is repeated nor the numbering restarted."""
    before = RunAlerts("r_1")
    stored = [
        transition.alert
        for transition in apply_all(before, finding("firing"), finding("resolved"), finding("firing"))
    ]
    tracker = RunAlerts.restore("r_1", stored)
    assert apply_all(tracker, finding("firing")) == []
    reported = apply_all(tracker, finding("resolved"), finding("firing"))
    assert [transition.alert.episode for transition in reported] == [2, 3]


def test_records_from_a_spool_are_late() -> None:
    """More than ten minutes old at arrival is late."""
    late = apply_all(RunAlerts("r_1"), finding("firing", time_ns=NOW - LATE_NS - 1))[0]
    live = apply_all(RunAlerts("r_1"), finding("firing", time_ns=NOW - LATE_NS))[0]
    assert (late.alert.late, live.alert.late) == (True, False)


def test_fingerprints_distinguish_labels_in_any_order() -> None:
    """The same labels in another order are the same alert; another value is another."""
    one = fingerprint_of("r", "loss", {"a": "1", "b": "2"})
    assert one == fingerprint_of("r", "loss", {"b": "2", "a": "1"})
    assert one != fingerprint_of("r", "loss", {"a": "1", "b": "3"})


findings = st.lists(
    st.builds(
        finding,
        st.sampled_from([state.value for state in AlertState]),
        st.sampled_from([severity.value for severity in Severity]),
        subject=st.sampled_from(["loss", "loss/D"]),
        step=st.integers(0, 5),
        onset_step=st.integers(0, 5),
    ),
    max_size=40,
)


@given(findings)
def test_each_state_is_reported_once_per_episode(items: Any) -> None:
    """(fingerprint, episode, state, severity) is notified at most once, in the order of states."""
    tracker, reported, begun = RunAlerts("r_1"), set(), set()
    for transition in apply_all(tracker, *items):
        alert = transition.alert
        key = (alert.fingerprint, alert.episode, alert.state, alert.severity)
        assert transition.first == (key not in reported)
        reported.add(key)
        assert (transition.previous is None) == (key[:2] not in begun)
        begun.add(key[:2])
        assert transition.previous is not AlertState.RESOLVED


@given(findings, st.integers(0, 40))
def test_a_restart_anywhere_ends_in_the_same_alerts(items: Any, at: Any) -> None:
    """If state is restored from stored alerts after any finding, the final alerts are the same."""
    stored: dict[str, Alert] = {}
    straight, tracker = RunAlerts("r_1"), RunAlerts("r_1")
    for index, item in enumerate(items):
        if index == at:
            tracker = RunAlerts.restore("r_1", stored.values())
        apply_all(straight, item)
        for transition in apply_all(tracker, item):
            stored[transition.alert.id] = transition.alert
    assert sorted(map(repr, tracker.open())) == sorted(map(repr, straight.open()))


def test_the_end_of_a_run_closes_what_is_open() -> None:
    """A firing alert is ended, because nothing recovered. Pending and recovering alerts are resolved."""
    tracker = RunAlerts("r_1")
    lives = {"a": ["pending"], "b": ["firing"], "c": ["firing", "recovering"], "d": ["firing", "resolved"]}
    apply_all(tracker, *(finding(state, subject=name) for name, life in lives.items() for state in life))
    closed = tracker.end("Run ended: finished", 120, NOW + 5, ())
    assert {t.alert.subject: t.alert.state for t in closed} == {
        "a": "resolved",
        "b": "ended",
        "c": "resolved",
    }
    assert {transition.reason for transition in closed} == {"Run ended: finished"}
    assert {(t.alert.resolved_step, t.alert.resolved_ns, t.first) for t in closed} == {(120, NOW + 5, True)}
    assert (tracker.open(), [alert.subject for alert in tracker.ended()]) == ([], ["b"])
    assert tracker.end("again", 121, NOW + 6, ()) == []


def test_rules_about_the_process_resolve_at_its_end() -> None:
    """That a process is silent is no longer a problem once it has ended."""
    tracker = RunAlerts("r_1")
    apply_all(tracker, finding("firing"), replace(finding("firing", subject=""), rule="trainer-lost"))
    closed = tracker.end("Run ended: failed", 120, NOW, {"trainer-lost"})
    assert {t.alert.rule: t.alert.state for t in closed} == {
        "trainer-lost": "resolved",
        "loss-spike": "ended",
    }


def test_another_attempt_supersedes_the_end_of_the_one_before() -> None:
    """The failure resolves, ended alerts are recovering; a finding that still fires is left alone."""
    tracker = RunAlerts("r_1")
    apply_all(tracker, finding("firing"))
    tracker.end("Run ended: failed", 120, NOW, ())
    apply_all(
        tracker, replace(finding("firing", subject=""), rule="run-failed"), finding("firing", subject="norm")
    )
    resumed = tracker.resume("Attempt 2 began", 121, NOW)
    assert {(t.alert.rule, t.alert.subject): t.alert.state for t in resumed} == {
        ("loss-spike", "loss"): "recovering",
        ("run-failed", ""): "resolved",
    }
    assert (tracker.has_past, [alert.subject for alert in tracker.open()]) == (False, ["norm", "loss"])


def resumed() -> RunAlerts:
    """Return the alerts of a run that ended while the loss was broken, and of which another attempt began."""
    tracker = RunAlerts("r_1")
    apply_all(tracker, finding("firing", "critical"))
    tracker.end("Run ended: finished", 120, NOW, ())
    tracker.resume("Attempt 2 began", 121, NOW)
    return tracker


def test_inherited_alerts_resolve_after_a_hundred_healthy_records() -> None:
    tracker = resumed()
    assert tracker.count(60, "healthy", NOW) + tracker.count(39, "healthy", NOW) == []
    assert [alert.is_inherited for alert in tracker.open()] == [True]
    (done,) = tracker.count(1, "healthy", NOW + 9)
    assert (done.alert.state, done.reason, done.first, done.alert.resolved_ns) == (
        "resolved",
        "healthy",
        True,
        NOW,
    )
    assert (tracker.open(), tracker.inherits) == ([], False)


@pytest.mark.parametrize(
    ("state", "about", "left"),
    [
        ("firing", {"rule": "grad-explosion"}, 1),
        ("pending", {}, 1),
        ("firing", {"rule": "data-bound"}, 0),
        ("firing", {"rule": "duplicate-steps", "severity": Severity.WARNING}, 0),
    ],
)
def test_records_are_not_healthy_while_the_problem_may_be_back(
    state: str, about: dict[str, Any], left: int
) -> None:
    """An alert as severe of the same chain, or of the same rule. A slow data loader is another problem."""
    tracker = resumed()
    apply_all(tracker, replace(finding(state), **({"severity": Severity.CRITICAL} | about)))
    tracker.count(500, "healthy", NOW)
    assert sum(alert.is_inherited for alert in tracker.open()) == left


def test_an_inherited_alert_that_fires_again_is_news_of_its_incident() -> None:
    """It is the next episode, so it is notified; restarts of the server do not change that."""
    tracker = resumed()
    (inherited,) = tracker.open()
    tracker = RunAlerts.restore("r_1", [inherited])
    over, again = apply_all(tracker, finding("firing", onset_step=150))
    assert (over.alert.state, over.reason) == ("resolved", "Recurred in the next attempt")
    assert (again.alert.state, again.alert.episode, again.first) == ("firing", 2, True)
    assert again.alert.incident == inherited.incident


def test_an_attempt_that_ends_too_early_leaves_its_inherited_alerts_ended() -> None:
    """The end was notified before, also if the server restarted since."""
    tracker = resumed()
    tracker.count(99, "healthy", NOW)
    tracker = RunAlerts.restore("r_1", tracker.open())
    (ended,) = tracker.end("Run ended: finished", 220, NOW + 9, ())
    assert (ended.alert.state, ended.alert.resolved_step, ended.first) == ("ended", 120, False)


@given(st.lists(st.one_of(st.integers(1, 60), st.sampled_from(["pending", "firing", "end", "restart"]))))
def test_a_resumed_run_looks_healthy_only_after_a_hundred_records_in_a_row(events: list[Any]) -> None:
    """Whatever else happens. A firing alert is resolved by its rule only, which does not do so here."""
    tracker, healthy, fires, broken = resumed(), 0, False, True
    for event in events:
        healthy = healthy + event if isinstance(event, int) and not fires else 0
        broken = event == "firing" or (broken and healthy < 100)
        if isinstance(event, int):
            tracker.count(event, "healthy", NOW)
        elif event == "end":
            tracker.end("Run ended: failed", 1, NOW, ())
            assert tracker.ended() or not broken
            tracker.resume("Attempt 3 began", 2, NOW)
        elif event == "restart":
            tracker = RunAlerts.restore("r_1", [*tracker.open(), *tracker.ended()])
        else:
            apply_all(tracker, finding(event, "critical"))
        fires = event == "firing" or (fires and event != "end")
        shown = [alert for alert in tracker.open() if alert.state is not AlertState.PENDING]
        assert shown or not broken


def test_a_later_attempt_begins_the_next_episode() -> None:
    """After the run's end, a rule that fires is a new alert with the same fingerprint."""
    tracker = RunAlerts("r_1")
    apply_all(tracker, finding("firing"))
    tracker.end("Run ended: failed", 120, NOW, ())
    (again,) = apply_all(tracker, finding("recovering"), finding("resolved"), finding("firing"))
    assert (again.alert.episode, again.first) == (2, True)


RULES = ("lr-jump", "nonfinite-loss", "loss-spike", "overfitting", "data-bound", "my-rule", RUN_FAILED)
REPORTED = st.tuples(
    st.sampled_from(RULES), st.sampled_from(["pending", "firing", "recovering", "resolved"]),
    st.sampled_from(["info", "warning", "critical"]), st.integers(0, 600),
)  # fmt: skip


def incidents(reported: list[tuple[str, str, str, int]], restarts: set[int]) -> dict[str, str]:
    """Return the incident of each alert that these findings cause, with restarts before some of them."""
    tracker, stored = RunAlerts("r_1"), dict[str, Alert]()
    for number, (rule, state, severity, step) in enumerate(reported):
        if number in restarts:
            tracker = RunAlerts.restore("r_1", list(stored.values()))
        now = finding(state, severity, rule=rule, onset_step=step, diagnosis=Diagnosis(rule))
        for transition in tracker.apply(now, NOW):
            stored[transition.alert.id] = transition.alert
    return {name: alert.incident for name, alert in stored.items()}


@given(st.lists(REPORTED, max_size=40), st.sets(st.integers(0, 40)))
def test_restarts_do_not_change_incidents(
    reported: list[tuple[str, str, str, int]], restarts: set[int]
) -> None:
    assert incidents(reported, restarts) == incidents(reported, set())


@given(st.lists(REPORTED, max_size=40))
def test_an_alert_keeps_its_incident_and_that_one_exists(reported: list[tuple[str, str, str, int]]) -> None:
    """The alert that opened an incident belongs to it."""
    found = incidents(reported, set())
    opened = {name for name in found.values() if name}
    assert all(found[f"r_1.{name}"] == name for name in opened)
    for cut in range(len(reported)):
        before = incidents(reported[:cut], set())
        assert all(found[name] == incident for name, incident in before.items() if incident)
