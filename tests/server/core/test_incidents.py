"""Which alerts of a run are one incident."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from tocsin_server.core.incidents import IncidentState, Member, incident_for, incidents_of
from tocsin_server.core.models import RUN_FAILED, Alert, AlertState, Diagnosis, Severity

Make = Callable[..., Alert]


def joined(alert: Alert, others: list[Alert]) -> str:
    """Return the incident that ``alert`` joins or opens beside these others."""
    return incident_for(alert, [Member.of(other) for other in others])


@pytest.fixture
def alert() -> Make:
    """``alert("nonfinite-loss", 100)``: a critical alert of run r that fires since step 100."""

    def make(rule: str, onset: int | None, **given: Any) -> Alert:
        cause = given.pop("cause", f"because of {rule}")
        values: dict[str, Any] = {
            "run_id": "r", "fingerprint": rule, "episode": 1, "subject": "", "pending_ns": None,
            "severity": Severity.CRITICAL, "state": AlertState.FIRING, "onset_ns": (onset or 0) * 10**9,
            "fired_step": onset, "fired_ns": (onset or 0) * 10**9, "resolved_step": None,
            "resolved_ns": None, "summary": "s", "diagnosis": Diagnosis(cause), "incident": f"{rule}.1",
        } | given  # fmt: skip
        return Alert(rule=rule, onset_step=onset, **values)

    return make


def test_consequences_join_the_incident_of_their_cause(alert: Make) -> None:
    """However much later, as long as the cause still fires."""
    cause = alert("lr-jump", 100, severity=Severity.WARNING)
    assert joined(alert("nonfinite-loss", 5000), [cause]) == "lr-jump.1"


def test_an_unrelated_alert_opens_its_own_incident(alert: Make) -> None:
    """A slow data loader explains no NaN, and overfitting none either."""
    others = [alert("data-bound", 4990), alert("overfitting", 100, severity=Severity.WARNING)]
    assert joined(alert("nonfinite-loss", 5000), others) == "nonfinite-loss.1"


@pytest.mark.parametrize("onset", [120, 5000])
def test_information_does_not_attract_a_more_severe_alert(alert: Make, onset: int) -> None:
    info = alert("clip-always-active", 100, severity=Severity.INFO)
    assert joined(alert("nonfinite-loss", onset), [info]) == "nonfinite-loss.1"


def test_an_incident_of_several_runs_began_when_the_run_of_its_lead_broke(alert: Make) -> None:
    other = alert(
        "nonfinite-loss", 4998, run_id="s", incident="r.nonfinite-loss.1", severity=Severity.WARNING
    )
    assert incidents_of([other, alert("nonfinite-loss", 5000)])[0].onset_step == 5000


def test_an_incident_began_with_its_lead_not_with_an_older_warning(alert: Make) -> None:
    older = alert("lr-out-of-range", 100, severity=Severity.WARNING)
    loss = alert("nonfinite-loss", 5000, incident=older.incident)
    assert incidents_of([older, loss])[0].onset_step == 5000


def test_an_alert_of_steps_that_are_trained_again_does_not_move_the_beginning(alert: Make) -> None:
    loss = alert("nonfinite-loss", 150)
    repeated = alert(
        "duplicate-steps",
        101,
        severity=Severity.WARNING,
        incident=loss.incident,
        onset_ns=loss.onset_ns + 10**9,
    )
    assert incidents_of([loss, repeated])[0].onset_step == 150


@pytest.mark.parametrize(
    ("state", "joins"),
    [(AlertState.RECOVERING, True), (AlertState.ENDED, True), (AlertState.RESOLVED, False)],
)
def test_only_an_incident_that_is_not_resolved_is_joined(alert: Make, state: AlertState, joins: bool) -> None:
    before = alert("loss-spike", 990, state=state)
    assert (joined(alert("grad-explosion", 1000), [before]) == before.incident) is joins


def test_a_resolved_alert_of_an_open_incident_attracts_too(alert: Make) -> None:
    """The gradient norm recovered, the loss did not: a custom rule near the norm belongs to both."""
    norm = alert("grad-explosion", 1000, state=AlertState.RESOLVED)
    loss = alert("loss-divergence", 1200, incident=norm.incident)
    assert joined(alert("my-rule", 1010), [norm, loss]) == norm.incident


def test_of_two_incidents_the_nearest_is_joined(alert: Make) -> None:
    others = [alert("overfitting", 1000), alert("loss-drift", 1090)]
    assert joined(alert("my-rule", 1080), others) == "loss-drift.1"


def test_the_same_cause_joins(alert: Make) -> None:
    """Numbers in the sentence differ."""
    other = alert("plateau", 10, severity=Severity.WARNING, cause="Likely a learning rate of 0.1")
    assert joined(alert("loss-drift", 9000, cause="Likely a learning rate of 0.2"), [other]) == "plateau.1"


@pytest.mark.parametrize(
    ("rule", "severity", "joins"),
    [
        ("nonfinite-loss", Severity.CRITICAL, True),
        ("loss-drift", Severity.WARNING, False),
        ("overfitting", Severity.CRITICAL, False),
        ("stalled", Severity.WARNING, True),
    ],
)
def test_a_crash_joins_what_can_explain_it(alert: Make, rule: str, severity: Severity, joins: bool) -> None:
    before = alert(rule, 900, severity=severity)
    assert (joined(alert(RUN_FAILED, 910), [before]) == before.incident) is joins


def test_the_most_severe_alert_leads_and_the_earliest_cause_is_the_root(alert: Make) -> None:
    jump = alert("lr-jump", 95, severity=Severity.WARNING)
    loss = alert("nonfinite-loss", 100, incident=jump.incident)
    incident = incidents_of([loss, jump])[0]
    assert (incident.id, incident.lead, incident.root) == ("r.lr-jump.1", loss, jump)
    assert incident.onset_step == 95


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["firing", "resolved"], IncidentState.OPEN),
        (["firing", "recovering"], IncidentState.OPEN),
        (["recovering", "resolved"], IncidentState.MITIGATED),
        (["ended", "resolved"], IncidentState.ENDED),
        (["resolved", "resolved"], IncidentState.RESOLVED),
    ],
)
def test_an_incident_is_resolved_when_every_alert_is(
    alert: Make, states: list[str], expected: IncidentState
) -> None:
    alerts = [
        alert(f"rule-{no}", 100, state=AlertState(state), incident="i.1") for no, state in enumerate(states)
    ]
    assert [incident.state for incident in incidents_of(alerts)] == [expected]


def test_pending_alerts_have_no_incident(alert: Make) -> None:
    assert incidents_of([alert("loss-spike", 1, state=AlertState.PENDING, incident="")]) == []


def test_an_incident_keeps_its_id_when_its_cause_arrives_last(alert: Make) -> None:
    """In any order of arrival: the id is that of the first alert, the root the earliest cause."""
    for names in permutations(["lr-jump", "nonfinite-grad-norm", "nonfinite-loss"]):
        known: list[Alert] = []
        for name in names:
            new = alert(name, 95 if name == "lr-jump" else 100)
            known.append(replace(new, incident=joined(new, known)))
        (incident,) = incidents_of(known)
        assert (incident.id, incident.root.rule) == (f"r.{names[0]}.1", "lr-jump")
