"""Score a backtest: count the alerts of the tested rule and the healthy steps of its runs. Pure code.

A step is *healthy* if no other rule has an open alert of at least warning. An alert of the tested rule
counts as a false alarm if it fired on a healthy step and no alert of another rule began within the next
``LEAD_RECORDS`` records: being the first rule to detect a real problem is not a false alarm.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin_server.core.errors import FieldError
from tocsin_server.core.models import Alert, RecordBatch, Severity
from tocsin_server.detect.custom.settings_changes import with_changes
from tocsin_server.detect.interface.description import RuleSettings
from tocsin_server.detect.rules.catalog import catalogue, settings_types

LEAD_RECORDS = 50
TRAINING = ("loss", "grad_norm")
"""Series that make a record a training record."""


def settings_of(rule: str, changes: Mapping[str, Any]) -> RuleSettings:
    """Return the settings of ``rule`` with ``changes``, which are numbers or numeric strings.

    Raises:
        FieldError: The rule or a setting is unknown, or a value is invalid.
    """
    kinds = settings_types()
    if rule not in kinds:
        known = [info.id for info in catalogue()]
        if rule in known:
            raise FieldError("rule", "one that checks records, not the server's clock", rule)
        near = get_close_matches(rule, kinds, n=3, cutoff=0.5)
        raise FieldError("rule", f"the id of a built-in rule{_guess(near)}", rule)
    return with_changes(rule, kinds[rule], changes)


def _guess(near: Sequence[str]) -> str:
    return f" (perhaps {' or '.join(near)})" if near else ""


@dataclass(frozen=True, slots=True)
class Firing:
    """An alert that the rule would have fired."""

    run: str
    subject: str
    severity: Severity
    onset_step: int | None
    step: int | None
    resolved_step: int | None
    summary: str
    cause: str
    healthy: bool
    """Whether it fired on healthy steps, which makes it a false alarm."""


@dataclass
class Tested:
    """The backtest of one run. ``steps`` counts the training records of its lowest rank."""

    run: str
    steps: int = 0
    healthy_steps: int = 0
    firings: list[Firing] = field(default_factory=list)
    left_out: int = 0
    """Number of alerts of any rule beyond the limit per run."""
    cut: str = ""
    """Why the run was not tested to its end; empty if it was."""

    def add(self, other: Tested) -> None:
        """Add the counts of another part of the same run."""
        self.steps += other.steps
        self.healthy_steps += other.healthy_steps
        self.firings += other.firings
        self.left_out += other.left_out


class Tally:
    """The steps of the training records of a run's lowest rank; eight bytes each."""

    def __init__(self) -> None:
        self._steps = array("q")
        self._who: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self._steps)

    def take(self, batch: RecordBatch) -> None:
        """Count the training records of a batch; higher ranks are skipped, as they have the same steps."""
        who = (batch.writer.rank, batch.writer.attempt_no)
        if self._who is None or who[0] < self._who[0]:
            self._who = who
        if who[0] != self._who[0]:
            return
        rows = np.zeros(batch.n, dtype=bool)
        for name, column in batch.columns.items():
            if name.partition("/")[0] in TRAINING:
                rows[slice(None) if column.at is None else column.at] = True
        self._steps.extend(batch.step[rows].tolist())

    def result(self, run: str, rule: str, alerts: Sequence[Alert]) -> Tested:
        """Return the alerts of ``rule`` among ``alerts``, and the number of healthy steps."""
        steps = np.array(self._steps, dtype=np.int64)
        others = [alert for alert in alerts if alert.rule != rule and alert.severity is not Severity.INFO]
        sick, before = steps_with_alerts(steps, others)
        firings = [_firing(run, alert, steps, sick | before) for alert in alerts if alert.rule == rule]
        return Tested(run, len(steps), int((~sick).sum()), firings)


def steps_with_alerts(
    steps: NDArray[np.int64], alerts: Sequence[Alert]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return two masks over the records: another alert is open; one begins within ``LEAD_RECORDS`` records.

    Args:
        steps: Steps of the records, i64[n].
        alerts: Alerts of the other rules.
    """
    sick, before = np.zeros(len(steps), dtype=bool), np.zeros(len(steps), dtype=bool)
    for alert in alerts:
        start = alert.onset_step if alert.onset_step is not None else alert.fired_step
        if start is None:
            continue
        inside = steps >= start
        if alert.resolved_step is not None:
            inside &= steps <= alert.resolved_step
        sick |= inside
        if inside.any():
            first = int(np.argmax(inside))
            before[max(0, first - LEAD_RECORDS) : first] = True
    return sick, before


def _firing(run: str, alert: Alert, steps: NDArray[np.int64], excused: NDArray[np.bool_]) -> Firing:
    marked = [step for step in (alert.onset_step, alert.fired_step) if step is not None]
    near = np.isin(steps, marked)
    return Firing(
        run=run,
        subject=alert.subject,
        severity=alert.severity,
        onset_step=alert.onset_step,
        step=alert.fired_step,
        resolved_step=alert.resolved_step,
        summary=alert.summary,
        cause=alert.diagnosis.cause,
        healthy=not bool((near & excused).any()),
    )


def per_thousand(tested: Sequence[Tested], least: Severity) -> float | None:
    """Return alerts of at least ``least`` per 1000 healthy steps, or None without healthy steps."""
    healthy = sum(run.healthy_steps for run in tested)
    false_alarms = sum(
        firing.healthy and firing.severity.level >= least.level for run in tested for firing in run.firings
    )
    return 1000 * false_alarms / healthy if healthy else None


def summary_of(rule: str, settings: RuleSettings, tested: Sequence[Tested]) -> dict[str, Any]:
    """Return the result as data, as described in docs/reference/http-api.md."""
    return {
        "rule": rule,
        "settings": {item.name: getattr(settings, item.name) for item in fields(settings)},
        "steps": sum(run.steps for run in tested),
        "healthy_steps": sum(run.healthy_steps for run in tested),
        "firings": sum(len(run.firings) for run in tested),
        "alerts_per_1000_healthy_steps": {
            severity.value: per_thousand(tested, severity) for severity in Severity
        },
        "runs": [_run_data(run) for run in tested],
    }


def _run_data(run: Tested) -> dict[str, Any]:
    return {
        "run": run.run,
        "steps": run.steps,
        "healthy_steps": run.healthy_steps,
        "alerts_left_out": run.left_out,
        "cut": run.cut,
        "firings": [
            {
                "severity": firing.severity.value,
                "subject": firing.subject,
                "onset_step": firing.onset_step,
                "step": firing.step,
                "resolved_step": firing.resolved_step,
                "summary": firing.summary,
                "cause": firing.cause,
                "healthy": firing.healthy,
            }
            for firing in run.firings
        ],
    }
