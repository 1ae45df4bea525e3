"""Grouping of related alerts in a report."""

from __future__ import annotations

from dataclasses import replace

from tocsin_server.core.models import Alert, AlertState, Diagnosis, Severity
from tocsin_server.offline.grouping import cause_groups, launch_of


def alert(
    rule: str, onset: int, cause: str, severity: Severity = Severity.WARNING, *chain: tuple[int, str]
) -> Alert:
    """Return an alert whose timeline has the events of ``chain``: step and rule."""
    timeline = tuple((step, f"{name} began", name) for step, name in ((onset, rule), *chain))
    diagnosis = Diagnosis(cause=cause, timeline=timeline)
    return Alert(
        "log", rule, 1, rule, "loss", severity, AlertState.FIRING, onset, onset, None, onset, onset, None,
        None, rule, diagnosis,
    )  # fmt: skip


def test_an_alert_of_a_chain_belongs_to_its_most_severe() -> None:
    """The precursor is in the timeline of its consequence, with the same cause."""
    early = alert("grad-explosion", 71, "Nothing clips it.")
    late = alert("nonfinite-loss", 73, "The rate.", Severity.CRITICAL, (71, "grad-explosion"))
    (group,) = cause_groups([early, late])
    assert (group.head, group.others, group.other_causes) == (late, [early], [early])


def test_the_same_cause_is_reported_once() -> None:
    """Causes that differ only in numbers are equal: three spikes have one remedy."""
    spikes = [alert("loss-spike", step, f"Loss spiked {step / 7} times.") for step in (100, 200, 300)]
    (group,) = cause_groups(spikes)
    assert len(group.alerts) == 3
    assert group.other_causes == []


def test_troubles_of_their_own_have_stories_of_their_own() -> None:
    """Also for another launch at the same step; the more severe one comes first."""
    low, high = alert("plateau", 10, "A."), alert("zero-lr", 50, "B.", Severity.CRITICAL)
    elsewhere = replace(alert("plateau", 10, "C."), run_id="log#2")
    assert [group.head for group in cause_groups([low, high, elsewhere])] == [high, low, elsewhere]
    assert [launch_of(low), launch_of(elsewhere)] == [1, 2]
