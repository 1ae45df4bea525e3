"""What a rule with other settings would have said: settings checked, alarms and healthy steps counted.

A step is *healthy* where no other rule has an alert of at least a warning open. An alarm of the rule under
test counts as one on healthy steps where it fired on such a step and none of the others began within
``LEAD_RECORDS`` after it: a rule that is the first to tell a true trouble is no false alarm.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin_server.core.models import Alert, RecordBatch, Severity
from tocsin_server.detect.custom.settings_changes import SettingError, with_changes
from tocsin_server.detect.interface.rule import RuleSettings
from tocsin_server.detect.rules.catalog import catalogue, settings_types

LEAD_RECORDS = 50
TRAINING = ("loss", "grad_norm")
"""Series that make a record one of training."""


def settings_of(rule: str, changes: Mapping[str, Any]) -> RuleSettings:
    """The settings of ``rule`` with ``changes``: numbers, or text that is one. Raises SettingError."""
    kinds = settings_types()
    if rule not in kinds:
        known = [info.id for info in catalogue()]
        if rule in known:
            raise SettingError("rule", "one that judges records, not the server's clock", rule)
        near = get_close_matches(rule, kinds, n=3, cutoff=0.5)
        raise SettingError("rule", f"the id of a built-in rule{_guess(near)}", rule)
    return with_changes(rule, kinds[rule], changes)


def _guess(near: Sequence[str]) -> str:
    return f" (perhaps {' or '.join(near)})" if near else ""


@dataclass(frozen=True, slots=True)
class Firing:
    """Where the rule would have fired."""

    run: str
    subject: str
    severity: Severity
    onset_step: int | None
    step: int | None
    resolved_step: int | None
    summary: str
    cause: str
    healthy: bool
    """Whether it fired on healthy steps: a false alarm, as far as the other rules can tell."""


@dataclass
class Tested:
    """One run under test. ``steps`` seen are training records of its lowest process."""

    run: str
    steps: int = 0
    healthy_steps: int = 0
    firings: list[Firing] = field(default_factory=list)
    left_out: int = 0
    """Alerts beyond the limit of one run, of any rule."""
    cut: str = ""
    """Why the run was not judged to its end, if it was not."""

    def add(self, other: Tested) -> None:
        """Counts another part of the same run in."""
        self.steps += other.steps
        self.healthy_steps += other.healthy_steps
        self.firings += other.firings
        self.left_out += other.left_out


class Tally:
    """The steps of the training records of a run's lowest process: eight bytes each."""

    def __init__(self) -> None:
        self._steps = array("q")
        self._who: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self._steps)

    def take(self, batch: RecordBatch) -> None:
        """Counts the training records of a batch; those of a higher process tell of the same steps."""
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

    def judged(self, run: str, rule: str, alerts: Sequence[Alert]) -> Tested:
        """What ``rule`` said among ``alerts``, and on how many healthy steps."""
        steps = np.array(self._steps, dtype=np.int64)
        others = [alert for alert in alerts if alert.rule != rule and alert.severity is not Severity.INFO]
        sick, before = troubled(steps, others)
        firings = [_firing(run, alert, steps, sick | before) for alert in alerts if alert.rule == rule]
        return Tested(run, len(steps), int((~sick).sum()), firings)


def troubled(
    steps: NDArray[np.int64], alerts: Sequence[Alert]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Masks over the records at ``steps`` i64[n]: an alert is open, or begins within ``LEAD_RECORDS``."""
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
    said = [step for step in (alert.onset_step, alert.fired_step) if step is not None]
    near = np.isin(steps, said)
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
    """Alarms of at least ``least`` per 1000 healthy steps; None where no healthy step was seen."""
    healthy = sum(run.healthy_steps for run in tested)
    alarms = sum(
        firing.healthy and firing.severity.level >= least.level for run in tested for firing in run.firings
    )
    return 1000 * alarms / healthy if healthy else None


def summary_of(rule: str, settings: RuleSettings, tested: Sequence[Tested]) -> dict[str, Any]:
    """The whole test as data, as docs/reference/http-api.md shows it."""
    return {
        "rule": rule,
        "settings": {item.name: getattr(settings, item.name) for item in fields(settings)},
        "steps": sum(run.steps for run in tested),
        "healthy_steps": sum(run.healthy_steps for run in tested),
        "firings": sum(len(run.firings) for run in tested),
        "alarms_per_1000_healthy_steps": {
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
