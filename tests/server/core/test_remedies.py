"""What was changed after an incident, and whether the problem recurred."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.incidents import Incident
from tocsin_server.core.models import Alert, AlertState, Diagnosis, Severity
from tocsin_server.core.remedies import (
    Attempt,
    Curve,
    Outcome,
    applied_remedies,
    applied_remedy,
    as_it_began,
    ledger,
    says_it_continues,
    stretch_of,
)

ONSET, DETECTED, LAST = 1000, 1020, 1120


def fired(rule: str = "loss-divergence", onset: int = ONSET, at_ns: int = 10, **given: Any) -> Alert:
    values: dict[str, Any] = {
        "run_id": "r", "fingerprint": rule, "episode": 1, "subject": "", "pending_ns": None,
        "severity": Severity.CRITICAL, "state": AlertState.ENDED, "onset_ns": at_ns, "fired_ns": at_ns,
        "fired_step": onset + DETECTED - ONSET, "resolved_step": None, "resolved_ns": at_ns + 1,
        "summary": "s", "diagnosis": Diagnosis(f"cause of {rule}"), "incident": f"{rule}.1",
    } | given  # fmt: skip
    return Alert(rule=rule, onset_step=onset, **values)


INCIDENT = Incident("r.loss-divergence.1", (fired(),))
BEFORE = Attempt("r", "mine", 1, 0, 100, 0, 1050, over=True, alerts=INCIDENT.alerts)
AFTER = Attempt("r", "mine", 2, 100, None, 901, 3000, alerts=INCIDENT.alerts)
steps = st.integers(0, 5000)


def outcome(after: Attempt, before: Attempt = BEFORE) -> Outcome:
    return applied_remedy(INCIDENT, before, after).outcome


def test_the_stretch_ends_after_the_detection_delay_and_a_margin() -> None:
    stretch = stretch_of(INCIDENT)
    assert stretch is not None
    assert (stretch.onset, stretch.detected, stretch.last) == (ONSET, DETECTED, LAST)


@given(steps, st.booleans(), st.booleans())
def test_an_attempt_recovers_only_beyond_the_stretch(last: int, over: bool, finished: bool) -> None:
    """Or if it finished after the step at which the problem was detected before."""
    found = outcome(replace(AFTER, last_step=max(901, last), over=over or finished, finished=finished))
    recovers = last >= LAST or (finished and last > DETECTED)
    assert found is (Outcome.RECOVERED if recovers else Outcome.TOO_EARLY)


@given(st.integers(901, LAST), st.integers(0, 3000))
def test_the_same_alert_up_to_the_end_of_the_stretch_is_a_recurrence(onset: int, more: int) -> None:
    again = fired(onset=onset, at_ns=200, episode=2, state=AlertState.FIRING, resolved_ns=None)
    after = replace(AFTER, last_step=onset + more, alerts=[*INCIDENT.alerts, again])
    remedy = applied_remedy(INCIDENT, BEFORE, after)
    assert (remedy.outcome, remedy.step) == (Outcome.RECURRED, onset)


@pytest.mark.parametrize(
    ("alert", "recurs"),
    [
        (fired("grad-explosion", at_ns=200), True),
        (fired("grad-explosion", at_ns=200, severity=Severity.WARNING), False),
        (fired("grad-explosion", at_ns=50), False),
        (fired("data-bound", at_ns=200), False),
        (fired("my-rule", at_ns=200, diagnosis=Diagnosis("cause of loss-divergence")), True),
        (fired(at_ns=200, state=AlertState.RESOLVED, summary="Withdrawn: late"), False),
        (fired(onset=950, at_ns=200, state=AlertState.RESOLVED, resolved_step=970), False),
        (fired(onset=2000, at_ns=200), False),
    ],
)
def test_only_the_same_problem_in_the_stretch_is_a_recurrence(alert: Alert, recurs: bool) -> None:
    found = outcome(replace(AFTER, alerts=[*INCIDENT.alerts, alert]))
    assert found is (Outcome.RECURRED if recurs else Outcome.RECOVERED)


def test_a_problem_that_begins_again_later_is_mentioned() -> None:
    later = fired(onset=2000, at_ns=200)
    remedy = applied_remedy(INCIDENT, BEFORE, replace(AFTER, alerts=[later]))
    text = "Recovered: no such alert from step 1000 to step 1120; a similar alert began later, at step 2000."
    assert remedy.text == text


def test_a_loss_that_stays_nan_has_not_recovered() -> None:
    """Whatever the alerts say: the rule may be muted."""
    loss = Curve(range(1000, 1121), [1.0] * 21 + [math.nan] * 100)
    remedy = applied_remedy(INCIDENT, BEFORE, replace(AFTER, loss=loss))
    assert (remedy.outcome, remedy.step) == (Outcome.RECURRED, 1021)


def test_an_alert_that_never_stopped_has_not_recovered() -> None:
    """The process was lost and came back, so that the alert of the first attempt still fires."""
    incident = Incident(INCIDENT.id, (fired(state=AlertState.FIRING, resolved_ns=None),))
    assert applied_remedy(incident, BEFORE, AFTER).outcome is Outcome.TOO_EARLY
    ended = applied_remedy(incident, BEFORE, replace(AFTER, over=True))
    assert ended.outcome is Outcome.RECURRED


@given(st.floats(1e-8, 1.0), st.integers(2, 1000))
def test_a_recorded_rate_gives_the_factor(rate: float, factor: int) -> None:
    def trained(attempt: Attempt, value: float) -> Attempt:
        return replace(attempt, rates={"lr": Curve([900.0, 1000.0], [value, value])})

    remedy = applied_remedy(INCIDENT, trained(BEFORE, rate), trained(AFTER, rate / factor))
    words = "halved" if factor == 2 else f"divided by {factor}"
    assert remedy.changed == f"Continues from step 900 with lr {words}."
    assert remedy.label == "lr lowered"


def configured(attempt: Attempt, **config: str) -> Attempt:
    return replace(attempt, setup={"config": config})


@pytest.mark.parametrize(
    ("old", "new", "changed", "label"),
    [
        ({"lr": "0.1"}, {"lr": "0.04"}, "lr lowered from 0.1 to 0.04", "lr lowered"),
        ({"warmup": "100"}, {"warmup": "500"}, "warmup multiplied by 5", "warm-up lengthened"),
        ({"o.grad_clip": "1.0"}, {"o.grad_clip": "0.5"}, "o.grad_clip halved", "max_grad_norm lowered"),
        ({"amp": "fp16"}, {"amp": "bf16"}, "amp changed from fp16 to bf16", "amp changed"),
        ({"a": "1"}, {"a": "1", "max_grad_norm": "1.0"}, "max_grad_norm added (1.0)", "max_grad_norm added"),
    ],
)  # fmt: skip
def test_a_changed_setting_is_named(
    old: dict[str, str], new: dict[str, str], changed: str, label: str
) -> None:
    remedy = applied_remedy(INCIDENT, configured(BEFORE, **old), configured(AFTER, **new))
    assert (remedy.changed, remedy.label) == (f"Continues from step 900 with {changed}.", label)


def test_where_to_resume_is_no_change() -> None:
    old, new = configured(BEFORE, data="a"), configured(AFTER, data="a", resume="x", init="/c/1.pt")
    assert applied_remedy(INCIDENT, old, new, ["/c/1.pt"]).label == "resumed unchanged"


def test_a_rate_that_was_changed_without_effect_is_named() -> None:
    """A checkpoint of the optimizer that is loaded restores the old learning rate."""
    same = {"lr": Curve([1000.0], [0.1])}
    old = replace(configured(BEFORE, lr="0.1"), rates=same)
    remedy = applied_remedy(INCIDENT, old, replace(configured(AFTER, lr="0.05"), rates=same))
    assert remedy.label == "lr changed without effect"
    assert "lr halved in the configuration, but the recorded learning rate is the same" in remedy.changed


def test_what_is_unknown_is_not_called_unchanged() -> None:
    assert applied_remedy(INCIDENT, BEFORE, AFTER).label == "resumed, change unknown"


later = st.builds(
    lambda at, own, last, first: replace(
        AFTER,
        run_id="r" if own else f"r{at}",
        attempt=at,
        began_ns=at,
        until_ns=at + 1,
        first_step=first,
        last_step=first + last,
        over=True,
    ),
    st.integers(100, 200),
    st.booleans(),
    steps,
    st.integers(0, 2000),
)


@given(st.lists(later, unique_by=lambda each: each.attempt))
def test_what_follows_a_recovery_is_no_remedy(found: list[Attempt]) -> None:
    remedies = applied_remedies(INCIDENT, BEFORE, found)
    assert [each.began_ns for each in remedies] == sorted(each.began_ns for each in remedies)
    assert all(each.first_step <= ONSET for each in remedies)
    held = [each.outcome is Outcome.RECOVERED for each in remedies]
    after = remedies[held.index(True) + 1 :] if True in held else []
    assert all(each.run_id == "r" for each in after)
    assert sum(each.run_id == "r" for each, holds in zip(remedies, held, strict=True) if holds) <= 1


@given(st.lists(later, unique_by=lambda each: each.attempt))
def test_the_ledger_counts_every_case_once(found: list[Attempt]) -> None:
    remedies = [applied_remedy(INCIDENT, BEFORE, each) for each in found]
    rows = ledger((INCIDENT, remedy) for remedy in remedies)
    assert sum(row.count(outcome) for row in rows for outcome in Outcome) == len(remedies)
    assert len({(row.cause, row.label) for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("config", "notes", "continues"),
    [
        ({"resume": "/c/ckpt_1.pt"}, "", True),
        ({"resume": "/other/ckpt_1.pt"}, "", False),
        ({"from": "runs/r_7/last"}, "", True),
        ({}, "Continues r_7, with half the rate.", True),
        ({}, "Continues r_77.", False),
        ({}, "", False),
    ],
)
def test_a_run_says_that_it_continues_another(config: dict[str, str], notes: str, continues: bool) -> None:
    assert says_it_continues({"config": config}, notes, "r_7", ["/c/ckpt_1.pt"]) is continues


def test_alerts_that_joined_in_a_later_attempt_do_not_move_the_onset() -> None:
    """A warning about steps that repeat is the nearest to the cause, but it came with the remedy."""
    joined = fired("duplicate-steps", onset=901, at_ns=200, severity=Severity.WARNING)
    found = as_it_began(Incident(INCIDENT.id, (*INCIDENT.alerts, joined)), replace(BEFORE, until_ns=100))
    assert (found.root.rule, found.onset_step) == ("loss-divergence", ONSET)
