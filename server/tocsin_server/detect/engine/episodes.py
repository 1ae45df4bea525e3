"""The open episodes of a run: one for each rule and subject, with its diagnosis, and their findings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec

from tocsin_server.core.models import WITHDRAWN, AlertState, Diagnosis, Finding
from tocsin_server.detect.diagnosis.case import BASELINE, DiagnosisContext
from tocsin_server.detect.engine.deduplication import Subject, severity_of
from tocsin_server.detect.engine.diagnosis import UNKNOWN, explain, kept, with_layers
from tocsin_server.detect.engine.plan import Plan, explained
from tocsin_server.detect.engine.stream import Stream
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.interface.formatting import number as short
from tocsin_server.detect.interface.rule import FIRING, PENDING, RESOLVED, RuleResult

Key = tuple[str, str]
"""Identifier of a rule and name of its subject."""


class Episodes:
    """Joins the results of all writers and says what to report.

    Args:
        context: Metadata of the run.
        plan: Severities, labels and texts of the rules.
        failed: Receives the exception of a diagnosis that raises, with an empty rule name.
    """

    def __init__(self, context: RunContext, plan: Plan, failed: Callable[[str, Exception], None]) -> None:
        self.context = context
        self.plan = plan
        self._failed = failed
        self._subjects: dict[Key, Subject] = {}

    def subjects(self) -> list[Subject]:
        """Return all subjects, also those without an open episode."""
        return list(self._subjects.values())

    def load(self, subjects: Collection[Subject]) -> None:
        """Replace all subjects by those of a snapshot."""
        self._subjects = {(subject.rule, subject.name): subject for subject in subjects}

    def clear(self) -> None:
        """Close all episodes without a report."""
        self._subjects.clear()

    def subject(self, rule: str, name: str) -> Subject:
        """Return the subject, which is made if it is new."""
        return self._subjects.setdefault((rule, name), Subject(rule, name))

    def inhibits(self, rules: Collection[str]) -> bool:
        """Return whether one of these rules is firing."""
        return any(
            subject.rule in rules and subject.reported is not None and subject.reported.state == FIRING
            for subject in self._subjects.values()
        )

    # Findings

    def changed(self, stream: Stream, number: int, subject: Subject, joined: RuleResult) -> Iterator[Finding]:
        """Yield the finding of a changed subject, then those of open alerts whose cause it changes.

        Args:
            stream: The records to use for the diagnosis.
            number: Number of the newest record to use.
            subject: What changed.
            joined: The joined result of its writers.
        """
        yield self._finding(stream, number, subject, joined)
        if joined.state == FIRING:
            yield from self._updated_causes(stream, number, joined, subject)

    def end(self, reasons: Mapping[str, str], time_ns: int, step: int) -> list[Finding]:
        """Resolve the alerts of rules that were changed or removed.

        Args:
            reasons: The rules, and what to say of each.
            time_ns: When the rules were changed.
            step: The newest step of the run.
        """
        keys = [key for key in self._subjects if key[0] in reasons]
        found = [self._ended(key, reasons[key[0]], time_ns, step) for key in keys]
        return [finding for finding in found if finding is not None]

    def withdraw(
        self, rules: Collection[str], series: str, quantum: float, time_ns: int, step: int
    ) -> list[Finding]:
        """Withdraw the alerts of rules that assumed exact values of ``series``, which is printed rounded.

        Args:
            rules: Identifiers of the rules.
            series: Name of the series.
            quantum: The smallest difference that the log shows, in units of the series.
            time_ns: When that was noticed.
            step: The newest step of the run.
        """
        printed = f"the log prints {series} in steps of {short(quantum)}"
        reason = f"{WITHDRAWN}{printed}, so zeros and equal values may be rounded"
        keys = sorted((rule, series) for rule in rules)
        found = [self._ended(key, reason, time_ns, step) for key in keys if key in self._subjects]
        return [finding for finding in found if finding is not None]

    def with_new_severity(self, before: Plan, time_ns: int) -> list[Finding]:
        """Report the open alerts whose severity is another one than with the plan ``before``."""
        return [
            self._report(
                subject, msgspec.structs.replace(subject.reported, time_ns=time_ns), subject.diagnosis
            )
            for subject in self._subjects.values()
            if before.severity(subject.rule) != self.plan.severity(subject.rule)
            and subject.reported is not None
            and subject.diagnosis is not None
        ]

    def locate(self, stream: Stream, number: int, time_ns: int) -> Iterator[Finding]:
        """Update open alerts whose layer norms arrived late, as norms copied from a GPU do."""
        for subject in self.subjects():
            result, reported = subject.reported, subject.diagnosis
            if result is None or reported is None or result.state != FIRING:
                continue
            subject.diagnosis = with_layers(reported, self._case(stream, number, subject, result))
            if subject.diagnosis is not reported:
                now = msgspec.structs.replace(result, time_ns=time_ns)
                yield self._report(subject, now, subject.diagnosis)

    def _ended(self, key: Key, reason: str, time_ns: int, step: int) -> Finding | None:
        subject = self._subjects.pop(key)
        if subject.reported is None:
            return None
        result = msgspec.structs.replace(
            subject.reported, state=RESOLVED, step=step, time_ns=time_ns, summary=reason
        )
        return self._report(subject, result, subject.diagnosis or Diagnosis(cause=reason))

    def _finding(self, stream: Stream, number: int, subject: Subject, result: RuleResult) -> Finding:
        case = self._case(stream, number, subject, result)
        try:
            diagnosis = explain(case, subject.diagnosis)
        except Exception as error:  # noqa: BLE001 - an alert without a cause is better than none
            self._failed("", error)
            diagnosis = subject.diagnosis or Diagnosis(UNKNOWN.text)
        if subject.diagnosis is not None and stream.history.forgot(case.onset, BASELINE, upto=number):
            diagnosis = kept(subject.diagnosis, case)
        elif (custom := self.plan.by_id.get(subject.rule)) is not None:
            diagnosis = explained(custom, diagnosis, subject.name)
        subject.diagnosis = None if result.state == RESOLVED else diagnosis
        return self._report(subject, result, diagnosis)

    def _case(self, stream: Stream, number: int, subject: Subject, result: RuleResult) -> DiagnosisContext:
        return DiagnosisContext(
            rule=subject.rule,
            subject=subject.name,
            result=result,
            others=self._others(subject),
            history=stream.history,
            upto=number,
            context=self.context,
        )

    def _others(self, subject: Subject) -> list[tuple[str, str, RuleResult]]:
        """Return the open results of other rules, earliest onset first."""
        others = [
            (other.rule, other.name, other.reported)
            for other in self._subjects.values()
            if other is not subject and other.reported is not None and other.reported.state != PENDING
        ]
        return sorted(others, key=lambda other: (other[2].onset_step, other[0], other[1]))

    def _updated_causes(
        self, stream: Stream, number: int, latest: RuleResult, besides: Subject
    ) -> Iterator[Finding]:
        """Yield updates of open alerts whose cause changed because another rule fired."""
        for subject in self.subjects():
            if subject is besides or subject.reported is None or subject.reported.state == PENDING:
                continue
            before = subject.diagnosis.cause if subject.diagnosis is not None else ""
            result = msgspec.structs.replace(
                subject.reported, row=latest.row, step=latest.step, time_ns=latest.time_ns
            )
            finding = self._finding(stream, number, subject, result)
            if finding.diagnosis.cause != before:
                yield finding

    def _report(self, subject: Subject, result: RuleResult, diagnosis: Diagnosis) -> Finding:
        return Finding(
            rule=subject.rule,
            severity=self.plan.severity(subject.rule) or severity_of(result),
            state=AlertState(result.state),
            subject=subject.name,
            onset_step=result.onset_step,
            onset_ns=result.onset_ns,
            step=result.step,
            time_ns=result.time_ns,
            summary=result.summary,
            diagnosis=diagnosis,
            labels=self.plan.labels(subject.rule),
        )
