"""Manage the alerts of one run: findings in, transitions out. Pure; the clock is an argument.

An episode begins with the first finding of a fingerprint. It ends with ``resolved`` if the condition
recovered, or with ``ended`` if the run ended while the alert was firing. Within an episode, the severity
only rises. A transition to a state and severity that the episode has already been in has ``first`` set to
False and is not notified again.

If another attempt follows, the ended alerts are recovering: they are inherited. They resolve after
``ENOUGH`` healthy records, end again if the attempt ends before, and begin the next episode of the same
incident, which is notified, if a rule reports them again.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from tocsin_server.core.causal_order import chain_of
from tocsin_server.core.incidents import Member, incident_for
from tocsin_server.core.models import RUN_FAILED, Alert, AlertState, Finding, Severity, Transition

LATE_NS = 600 * 10**9
"""Findings about records that arrive later than this (e.g. from a spool) are late and not notified."""

ENOUGH = 100
"""Number of healthy records of a new attempt after which the alerts of the attempt before resolve."""

RECURRED = "Recurred in the next attempt"
"""Why an inherited alert is over that fired again."""

Reported = set[tuple[AlertState, Severity]]
Join = Callable[[Alert, int], str]
"""Returns the incident of an alert that would open one: its own, or that of another run."""


def fingerprint_of(rule: str, subject: str, labels: Mapping[str, str]) -> str:
    """Return 16 hex digits that identify (rule, subject, labels) across episodes."""
    parts = [rule, subject, *(f"{name}={labels[name]}" for name in sorted(labels))]
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:16]


class RunAlerts:
    """The newest episode of every fingerprint of one run; bounded by rules x series."""

    def __init__(self, run_id: str, join: Join | None = None) -> None:
        self.run_id = run_id
        self._join = join
        self._alerts: dict[str, Alert] = {}
        self._reported: dict[str, Reported] = {}
        self._members: Counter[Member] = Counter()
        """Alerts that belong to an incident."""
        self._healthy: dict[str, int] = {}
        """Inherited alerts -> number of healthy records in a row. It starts at 0 after a restart."""
        self._doubtful: set[str] = set()
        """Inherited alerts that a rule reports as pending again."""

    @classmethod
    def restore(cls, run_id: str, alerts: Iterable[Alert], join: Join | None = None) -> RunAlerts:
        """Restore the tracker from the newest stored episode of each fingerprint, open or over."""
        tracker = cls(run_id, join)
        for alert in alerts:
            known = tracker._alerts.get(alert.fingerprint)
            if known is None or known.episode < alert.episode:
                tracker._remember(alert)
                tracker._reported[alert.fingerprint] = _reported_of(alert)
        return tracker

    def open(self) -> list[Alert]:
        """Return the alerts that are firing or recovering."""
        return [alert for alert in self._alerts.values() if alert.is_open]

    def ended(self) -> list[Alert]:
        """Return the alerts that were firing when the run ended."""
        return [alert for alert in self._alerts.values() if alert.state is AlertState.ENDED]

    def labels(self, rule: str, name: str) -> set[str]:
        """Return the values of a label for which a rule has or had an alert."""
        mine = (alert.labels for alert in self._alerts.values() if alert.rule == rule)
        return {labels[name] for labels in mine if name in labels}

    @property
    def unsettled(self) -> bool:
        """Whether any alert is not over, including pending ones."""
        return any(not alert.is_over for alert in self._alerts.values())

    def apply(self, finding: Finding, now_ns: int) -> list[Transition]:
        """Apply a finding; return its transition, or nothing if the finding does not change the alert."""
        fingerprint = fingerprint_of(finding.rule, finding.subject, finding.labels)
        known = self._alerts.get(fingerprint)
        if known is not None and known.is_inherited:
            return self._again(known, finding, now_ns)
        if known is None or known.is_over:
            if finding.state in (AlertState.RESOLVED, AlertState.RECOVERING):
                return []
            alert = self._begin(fingerprint, finding, 1 if known is None else known.episode + 1, now_ns)
            self._reported[fingerprint] = set()
            return [self._keep(alert, None, now_ns)]
        alert = _advance(known, finding, now_ns)
        if replace(alert, updated_ns=known.updated_ns) == known:
            return []
        return [self._keep(alert, known.state, now_ns)]

    def end(
        self, reason: str, step: int | None, now_ns: int, process_rules: Collection[str]
    ) -> list[Transition]:
        """Close all alerts of a run that ended.

        A firing alert is ``ended``, because its condition never recovered, and an inherited one ends again.
        Pending and recovering alerts are resolved. Findings of a later attempt start the next episode of the
        same fingerprint.

        Args:
            reason: How the run ended; shown in the history instead of the summary.
            step: The last step.
            now_ns: The server's time.
            process_rules: Rules about the process that ended (for example that it is silent). Their alerts
                are resolved.
        """
        closed = self.resolve(reason, step, now_ns, process_rules)
        for alert in [alert for alert in self._alerts.values() if not alert.is_over]:
            if alert.is_inherited:
                closed.append(self._move(alert, AlertState.ENDED, reason, now_ns))
                continue
            firing = alert.state is AlertState.FIRING
            state = AlertState.ENDED if firing else AlertState.RESOLVED
            closed.append(self._close(alert, state, reason, step, now_ns))
        return closed

    def resolve(self, reason: str, step: int | None, now_ns: int, rules: Collection[str]) -> list[Transition]:
        """Resolve the alerts of ``rules``; ``reason`` is shown in the history instead of the summary."""
        mine = [alert for alert in self._alerts.values() if alert.rule in rules and not alert.is_over]
        return [self._close(alert, AlertState.RESOLVED, reason, step, now_ns) for alert in mine]

    def resume(self, reason: str, step: int | None, now_ns: int) -> list[Transition]:
        """Resolve the failure of a run that continues in another attempt; its ended alerts are recovering.

        See :meth:`count`.
        """
        self._healthy.clear()
        self._doubtful.clear()
        found = []
        for alert in [alert for alert in self._alerts.values() if _is_past(alert)]:
            if alert.state is AlertState.ENDED and alert.rule != RUN_FAILED:
                found.append(self._move(alert, AlertState.RECOVERING, reason, now_ns))
            else:
                found.append(self._close(alert, AlertState.RESOLVED, reason, step, now_ns))
        return found

    def count(self, records: int, reason: str, now_ns: int) -> list[Transition]:
        """Count healthy records of the new attempt; resolve the inherited alerts that have had enough.

        A record is not healthy for an alert while an alert of the same rule fires that is as severe, or a
        critical one of the same chain, or while its own rule reports it as pending.
        """
        levels: dict[str, int] = {}
        for alert in self._alerts.values():
            if alert.state is AlertState.FIRING:
                chain = chain_of(alert.rule) if alert.severity is Severity.CRITICAL else ""
                for name in (alert.rule, chain):
                    levels[name] = max(alert.severity.level, levels.get(name, -1))
        found = []
        for alert in [alert for alert in self._alerts.values() if alert.is_inherited]:
            chain = chain_of(alert.rule) or alert.rule
            level = max(levels.get(alert.rule, -1), levels.get(chain, -1))
            healthy = level < alert.severity.level and alert.fingerprint not in self._doubtful
            count = self._healthy.get(alert.fingerprint, 0) + records if healthy else 0
            self._healthy[alert.fingerprint] = count
            if count >= ENOUGH:
                found.append(self._move(alert, AlertState.RESOLVED, reason, now_ns))
        return found

    def restart_count(self) -> None:
        """Start counting again, because another attempt began."""
        self._healthy.clear()

    @property
    def inherits(self) -> bool:
        """Whether any alert is inherited, so that :meth:`count` has something to do."""
        return any(alert.is_inherited for alert in self._alerts.values())

    @property
    def has_past(self) -> bool:
        """Whether :meth:`resume` has anything to resolve."""
        return any(_is_past(alert) for alert in self._alerts.values())

    def _again(self, known: Alert, finding: Finding, now_ns: int) -> list[Transition]:
        """Apply a finding to an inherited alert: if it fires again, the next episode joins its incident."""
        self._healthy.pop(known.fingerprint, None)
        self._doubtful.discard(known.fingerprint)
        if finding.state is AlertState.PENDING:
            self._doubtful.add(known.fingerprint)
        if finding.state is not AlertState.FIRING:
            return []
        over = self._move(known, AlertState.RESOLVED, RECURRED, now_ns)
        alert = self._begin(known.fingerprint, finding, known.episode + 1, now_ns)
        self._reported[known.fingerprint] = set()
        return [over, self._keep(replace(alert, incident=known.incident), None, now_ns)]

    def _move(self, alert: Alert, state: AlertState, reason: str, now_ns: int) -> Transition:
        """Return the transition of an ended or inherited alert, which keeps the time of its end."""
        moved = replace(alert, state=state, updated_ns=now_ns)
        return replace(self._keep(moved, alert.state, now_ns), reason=reason)

    def _close(
        self, alert: Alert, state: AlertState, reason: str, step: int | None, now_ns: int
    ) -> Transition:
        closed = replace(alert, state=state, resolved_step=step, resolved_ns=now_ns, updated_ns=now_ns)
        return replace(self._keep(closed, alert.state, now_ns), reason=reason)

    def _begin(self, fingerprint: str, finding: Finding, episode: int, now_ns: int) -> Alert:
        blank = Alert(
            run_id=self.run_id,
            fingerprint=fingerprint,
            episode=episode,
            rule=finding.rule,
            subject=finding.subject,
            severity=finding.severity,
            state=finding.state,
            onset_step=finding.onset_step,
            onset_ns=finding.onset_ns if finding.onset_ns is not None else finding.time_ns,
            pending_ns=None,
            fired_step=None,
            fired_ns=None,
            resolved_step=None,
            resolved_ns=None,
            summary=finding.summary,
            diagnosis=finding.diagnosis,
            labels=dict(finding.labels),
            late=now_ns - finding.time_ns > LATE_NS,
            updated_ns=now_ns,
        )
        return _dated(blank, finding)

    def _keep(self, alert: Alert, previous: AlertState | None, now_ns: int) -> Transition:
        if alert.state is AlertState.FIRING and not alert.incident:
            self._forget(alert.fingerprint)
            alert = replace(alert, incident=self._incident_of(alert, now_ns))
        reported = self._reported.setdefault(alert.fingerprint, set())
        first = (alert.state, alert.severity) not in reported
        reported.add((alert.state, alert.severity))
        self._remember(alert)
        return Transition(alert, previous, now_ns, first)

    def _incident_of(self, alert: Alert, now_ns: int) -> str:
        """Return the incident that an alert joins or opens; it may be that of another run."""
        incident = incident_for(alert, self._members)
        if incident != alert.key or self._join is None:
            return incident
        return self._join(alert, now_ns)

    def _remember(self, alert: Alert) -> None:
        """Replace the known state of a fingerprint by this one."""
        self._forget(alert.fingerprint)
        self._alerts[alert.fingerprint] = alert
        if alert.incident:
            self._members[Member.of(alert)] += 1

    def _forget(self, fingerprint: str) -> None:
        known = self._alerts.pop(fingerprint, None)
        if known is not None and known.incident:
            member = Member.of(known)
            self._members[member] -= 1
            if not self._members[member]:
                del self._members[member]


def _is_past(alert: Alert) -> bool:
    """Return whether an alert is about the end of an attempt, which another attempt supersedes."""
    return alert.state is AlertState.ENDED or (alert.rule == RUN_FAILED and not alert.is_over)


def _advance(alert: Alert, finding: Finding, now_ns: int) -> Alert:
    """Return the alert after another finding of its episode. A firing alert never returns to pending."""
    back = finding.state is AlertState.PENDING and alert.state is not AlertState.PENDING
    never_fired = finding.state is AlertState.RECOVERING and alert.state is AlertState.PENDING
    state = alert.state if back or never_fired else finding.state
    advanced = replace(
        alert,
        state=state,
        severity=max(alert.severity, finding.severity, key=lambda severity: severity.level),
        onset_step=_earlier(alert.onset_step, finding.onset_step),
        onset_ns=min(alert.onset_ns, finding.onset_ns if finding.onset_ns is not None else alert.onset_ns),
        summary=finding.summary,
        diagnosis=finding.diagnosis,
        late=alert.late and now_ns - finding.time_ns > LATE_NS,
        updated_ns=now_ns,
    )
    return _dated(advanced, finding)


def _dated(alert: Alert, finding: Finding) -> Alert:
    """Return the alert with the time at which it first reached its current state."""
    if alert.state is AlertState.PENDING and alert.pending_ns is None:
        return replace(alert, pending_ns=finding.time_ns)
    if alert.state is AlertState.FIRING and alert.fired_ns is None:
        return replace(alert, fired_step=finding.step, fired_ns=finding.time_ns)
    if alert.state is AlertState.RESOLVED:
        return replace(alert, resolved_step=finding.step, resolved_ns=finding.time_ns)
    return alert


def _earlier(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def _reported_of(alert: Alert) -> Reported:
    """Return the states that were certainly reported for a stored episode: the current and dated ones."""
    reported = {(alert.state, alert.severity)}
    if alert.is_inherited:
        reported.add((AlertState.ENDED, alert.severity))
    if alert.fired_ns is not None:
        reported.add((AlertState.FIRING, alert.severity))
    if alert.pending_ns is not None and alert.state is AlertState.PENDING:
        reported.add((AlertState.PENDING, alert.severity))
    return reported
