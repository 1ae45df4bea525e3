"""The pure part of a backtest: settings are checked, healthy steps and false alerts counted."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from tocsin_server.core.errors import FieldError
from tocsin_server.core.models import Alert, AlertState, Column, Diagnosis, RecordBatch, Severity, Writer
from tocsin_server.detect.rules.catalog import settings_types
from tocsin_server.offline.backtest_score import Tally, per_thousand, settings_of, steps_with_alerts


def alert_of(
    rule: str, onset: int, resolved: int | None = None, severity: Severity = Severity.WARNING
) -> Alert:
    return Alert(
        "r", rule, 1, rule, "loss", severity, AlertState.FIRING, onset, 0, None, onset + 2, 1, resolved, None,
        "message", Diagnosis("why"),
    )  # fmt: skip


def batch_of(steps: list[int], rank: int = 0, name: str = "loss", at: list[int] | None = None) -> RecordBatch:
    rows = None if at is None else np.array(at, dtype=np.uint32)
    column = Column(np.ones(len(steps) if at is None else len(at)), rows)
    step = np.array(steps, dtype=np.int64)
    return RecordBatch(Writer("r", 1, 1, rank), 0, 0, len(steps), step, step, {name: column})


@pytest.mark.parametrize(
    ("rule", "changes", "message"),
    [
        ("loss-spikes", {}, r"rule: expected the id of a built-in rule \(perhaps loss-spike"),
        ("stalled", {}, "rule: expected one that checks records"),
        ("loss-spike", {"sigma": 3}, "loss-spike: sigma: expected one of"),
        ("loss-spike", {"window": 2.5}, "window: expected a whole number"),
        ("loss-spike", {"window": 0}, "window: expected a whole number above 0"),
        ("loss-spike", {"recover_updates": -1}, "recover_updates: expected a whole number of at least 0"),
        ("loss-spike", {"deviations": "nan"}, "deviations: expected a finite number"),
        ("loss-spike", {"deviations": True}, "deviations: expected a finite number"),
        ("loss-spike", {"window": 10**12}, "window: expected at most"),
        ("loss-spike", {"window": "many"}, "window: expected a whole number"),
    ],
)
def test_invalid_settings_are_rejected_by_name(rule: str, changes: dict[str, Any], message: str) -> None:
    """The error has the field, what was expected and what was given."""
    with pytest.raises(FieldError, match=message):
        settings_of(rule, changes)


@pytest.mark.parametrize("rule", sorted(settings_types()))
def test_every_rule_accepts_its_defaults(rule: str) -> None:
    """As numbers and as text."""
    defaults = settings_types()[rule]()
    reported = {item.name: getattr(defaults, item.name) for item in fields(defaults)}
    assert (
        settings_of(rule, reported)
        == settings_of(rule, {name: str(value) for name, value in reported.items()})
        == defaults
    )


def test_steps_are_training_records_of_the_lowest_process() -> None:
    """Evaluations and other ranks add no steps."""
    tally = Tally()
    tally.take(batch_of([0, 1, 2], at=[0, 2]))
    tally.take(batch_of([0, 1, 2], rank=1))
    tally.take(batch_of([3], name="val/loss"))
    assert len(tally) == 2


def test_steps_under_an_alert_are_not_healthy() -> None:
    """From its onset to its end, or without an end if it stays open."""
    steps = np.arange(100)
    sick, before = steps_with_alerts(steps, [alert_of("a", 70, 80), alert_of("b", 95)])
    assert np.flatnonzero(sick).tolist() == [*range(70, 81), *range(95, 100)]
    assert np.flatnonzero(before).tolist()[0] == 20


def test_an_alert_is_false_if_no_other_rule_fired() -> None:
    """One far from other alerts counts; one just before or under them does not, nor does one of info."""
    tally = Tally()
    tally.take(batch_of(list(range(1000))))
    alerts = [
        alert_of("mine", 100),
        replace(alert_of("mine", 480), episode=2),
        replace(alert_of("mine", 505), episode=3),
        alert_of("other", 500, 520),
        alert_of("whisper", 90, 200, Severity.INFO),
    ]
    tested = tally.result("r", "mine", alerts)
    assert [firing.healthy for firing in tested.firings] == [True, False, False]
    assert (tested.steps, tested.healthy_steps) == (1000, 979)
    assert per_thousand([tested], Severity.WARNING) == pytest.approx(1000 / 979)
    assert per_thousand([tested], Severity.CRITICAL) == 0
    assert per_thousand([Tally().result("r", "mine", [])], Severity.INFO) is None
