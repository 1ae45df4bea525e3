"""Merge the results of all ranks into one alert per episode of a rule and subject."""

from __future__ import annotations

import msgspec

from tocsin_server.core.models import Diagnosis, Severity
from tocsin_server.detect.interface.rule import FIRING, PENDING, RECOVERING, RESOLVED, RuleResult

_ORDER = {FIRING: 0, RECOVERING: 1, PENDING: 2}


class Subject(msgspec.Struct):
    """Results of all writers of a run for one rule and subject, and what was last reported."""

    rule: str
    name: str
    results: dict[int, RuleResult] = {}
    """The newest result of each writer that has an open episode."""
    reported: RuleResult | None = None
    """The merged result as last reported; None outside an episode."""
    diagnosis: Diagnosis | None = None
    """The diagnosis as last reported, to detect a change of its cause; None outside an episode."""

    def add(self, writer: int, result: RuleResult) -> RuleResult | None:
        """Add the result of one writer; return the merged result if it changed, else None."""
        if result.state == RESOLVED:
            self.results.pop(writer, None)
        else:
            self.results[writer] = result
        return self._joined(result)

    def carry_over(self, successor: int, from_writers: set[int]) -> int | None:
        """Move the most severe episode of the writers ``from_writers`` to ``successor``.

        Returns:
            The writer that had the episode, or None if there was none.
        """
        mine = {writer: result for writer, result in self.results.items() if writer in from_writers}
        if not mine:
            return None
        most_severe = min(mine, key=lambda writer: _urgency(mine[writer]))
        self.results = {writer: result for writer, result in self.results.items() if writer not in mine}
        self.results[successor] = mine[most_severe]
        return most_severe

    def _joined(self, latest: RuleResult) -> RuleResult | None:
        before = self.reported
        if not self.results:
            self.reported = None
            if before is None:
                return None
            return msgspec.structs.replace(
                before, state=RESOLVED, row=latest.row, step=latest.step, time_ns=latest.time_ns,
                summary=latest.summary, evidence=latest.evidence,
            )  # fmt: skip
        leading = min(self.results.values(), key=_urgency)
        joined = msgspec.structs.replace(
            leading,
            row=latest.row,
            step=latest.step,
            time_ns=latest.time_ns,
            onset_step=min(result.onset_step for result in self.results.values()),
            onset_ns=min(result.onset_ns for result in self.results.values()),
        )
        if before is not None and before.state != PENDING:
            joined.severity = max(joined.severity, before.severity)
            joined.onset_step = min(joined.onset_step, before.onset_step)
            joined.onset_ns = min(joined.onset_ns, before.onset_ns)
        self.reported = joined
        return joined if before is None or _differs(before, joined) else None


def _urgency(result: RuleResult) -> tuple[int, int, int, int]:
    return _ORDER[result.state], -result.severity, -result.level, result.onset_step


def _differs(before: RuleResult, after: RuleResult) -> bool:
    return (
        before.state != after.state
        or before.severity != after.severity
        or before.level != after.level
        or before.kind != after.kind
    )


def severity_of(result: RuleResult) -> Severity:
    """Return the severity of a result as :class:`Severity`."""
    return tuple(Severity)[result.severity]
