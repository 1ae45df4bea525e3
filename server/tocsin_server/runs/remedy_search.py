"""Find what was tried after an incident: later attempts of the run, and later runs of the project."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tocsin_server.core.incidents import Incident
from tocsin_server.core.models import Alert, AlertState, RunState, Severity
from tocsin_server.core.remedies import (
    FEW,
    LR,
    AppliedRemedy,
    Attempt,
    Curve,
    LedgerRow,
    Stretch,
    applied_remedies,
    as_it_began,
    ledger,
    says_it_continues,
    setting_changes,
    stretch_of,
)
from tocsin_server.core.run_changes import Setup, setup_of
from tocsin_server.store.checkpoints import checkpoints_of
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import SeriesLayer, StoredIncident, StoredRun
from tocsin_server.store.run_setups import attempt_setups
from tocsin_server.store.series_window import NS_PER_MS

MOST_RUNS = 20
"""Maximum number of later runs that are compared with an incident; the first ones are chosen."""
MOST_MEMBERS = 8
"""Maximum number of runs of one incident for which remedies are searched."""
MOST_ALERTS = 1000
MOST_INCIDENTS = 100
"""Newest incidents that the ledger of a project counts."""
MOST_RATES = 8
"""Maximum number of learning rates of a run that are compared."""
POINTS = 2000
"""Values of one series that are read; the steps before the onset are as many."""


class TriedRemedies(NamedTuple):
    """What was tried after an incident, oldest first, and the steps that are compared (None if unknown).

    ``incident`` has only the alerts of the attempt in which it began.
    """

    incident: Incident
    stretch: Stretch | None
    items: list[AppliedRemedy]


@dataclass
class RemedySearch:
    """Searches for remedies; what was read of a run is kept for its other incidents.

    Attributes:
        reader: Reads the store.
        runs: All stored runs.
    """

    reader: StoreReader
    runs: Sequence[StoredRun]
    _runs: dict[str, StoredRun | None] = field(default_factory=dict)
    _setups: dict[str, dict[int, Setup]] = field(default_factory=dict)
    _alerts: dict[str, list[Alert]] = field(default_factory=dict)
    _paths: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def remedies_of(self, incident: Incident) -> list[AppliedRemedy]:
        """Return what was tried after an incident, oldest first."""
        return self.tried_after(incident).items

    def tried_after(self, incident: Incident) -> TriedRemedies:
        """Return what was tried after an incident in any of its runs, and the steps of the lead's run."""
        runs = dict.fromkeys(alert.run_id for alert in incident.alerts)
        first, *others = (self._tried_in(_part_of(incident, run_id)) for run_id in list(runs)[:MOST_MEMBERS])
        items = {(each.run_id, each.attempt): each for tried in (*others, first) for each in tried.items}
        ordered = sorted(items.values(), key=lambda each: (each.began_ns, each.run_id))
        return first._replace(items=ordered)

    def _tried_in(self, incident: Incident) -> TriedRemedies:
        """Return what was tried after an incident with alerts of one run."""
        stored = self._run(incident.lead.run_id)
        attempts = [] if stored is None else self._attempts(stored)
        if stored is None or not attempts:
            return TriedRemedies(incident, None, [])
        began = [each for each in attempts if each.began_ns <= incident.onset_ns]
        before = max(began, key=lambda each: each.began_ns, default=attempts[0])
        incident = as_it_began(incident, before)
        stretch = stretch_of(incident)
        if stretch is None:
            return TriedRemedies(incident, None, [])
        later = [each for each in attempts if each.began_ns > before.began_ns]
        others = self._later_runs(stored, before, incident)
        chosen = [each for each in (*later, *others) if each.first_step <= stretch.onset]
        if not chosen:
            return TriedRemedies(incident, stretch, [])
        found = applied_remedies(
            incident,
            self._with_series(before, stretch.onset, stretch.last),
            [self._with_series(each, stretch.onset, stretch.last) for each in chosen],
            self._checkpoints(stored.id),
        )
        return TriedRemedies(incident, stretch, found)

    def ledger(self, incidents: Iterable[StoredIncident]) -> list[LedgerRow]:
        """Return how often which remedy helped against which cause."""
        severe = [each.incident for each in incidents if each.incident.severity is not Severity.INFO]
        return ledger(
            (tried.incident, remedy) for tried in map(self.tried_after, severe) for remedy in tried.items
        )

    def _later_runs(self, stored: StoredRun, before: Attempt, incident: Incident) -> list[Attempt]:
        """Return later runs that continue this one, or repeat it with few settings changed."""
        since = sorted(
            (
                other
                for other in self.runs
                if other.project == stored.project and other.id != stored.id and not other.archived
                if other.created_ns > incident.onset_ns
            ),
            key=lambda other: (other.created_ns, other.id),
        )
        found: list[Attempt] = []
        for other in since:
            setup = setup_of(other.config, other.environment)
            continues = says_it_continues(setup, other.notes, stored.id, self._checkpoints(stored.id))
            if not continues and not _is_repetition(before.setup, setup):
                continue
            after = self._whole(other.id)
            if after is not None and (continues or after.first_step <= before.first_step):
                found.append(after)
            if len(found) >= MOST_RUNS:
                break
        return found

    def _attempts(self, stored: StoredRun) -> list[Attempt]:
        """Return the attempts of a run that have records, oldest first."""
        newest = max((each.attempt for each in stored.attempts_list), default=0)
        first_ns = self._first_record_ns(stored)
        began = sorted(
            (min(each.started_ns, first_ns.get(each.attempt, each.started_ns)), each.attempt)
            for each in stored.attempts_list
        )
        until = {number: began[at + 1][0] for at, (_, number) in enumerate(began[:-1])}
        starts = {number: at_ns for at_ns, number in began}
        setups = self._setups_of(stored)
        found = []
        for each in stored.attempts_list:
            if each.first_step is None or each.last_step is None:
                continue
            is_newest = each.attempt == newest
            found.append(
                Attempt(
                    stored.id,
                    stored.name,
                    each.attempt,
                    starts[each.attempt],
                    until.get(each.attempt),
                    each.first_step,
                    each.last_step,
                    finished=is_newest and _is_finished(stored),
                    over=not is_newest or stored.state.ended,
                    setup=setups.get(each.attempt, {}),
                    alerts=self._alerts_of(stored.id),
                )
            )
        return sorted(found, key=lambda each: (each.began_ns, each.attempt))

    def _whole(self, run_id: str) -> Attempt | None:
        """Return a run with all its attempts as one, or None if it has no records."""
        stored = self._run(run_id)
        attempts = [] if stored is None else self._attempts(stored)
        if stored is None or not attempts:
            return None
        newest = max(attempts, key=lambda each: each.attempt)
        return Attempt(
            stored.id,
            stored.name,
            newest.attempt,
            attempts[0].began_ns,
            None,
            min(each.first_step for each in attempts),
            max(each.last_step for each in attempts),
            whole=True,
            finished=_is_finished(stored),
            over=stored.state.ended,
            setup=newest.setup,
            alerts=newest.alerts,
        )

    def _first_record_ns(self, stored: StoredRun) -> dict[int, int]:
        """Return when the first record of each attempt was made. It may be before the handshake."""
        names = [each.name for each in stored.series[:1]]
        if len(stored.attempts_list) < 2 or not names:
            return {}
        found: dict[int, int] = {}
        for layer in self.reader.series(stored.id, names, buckets=1).series[names[0]]:
            if len(layer.t):
                at_ns = int(layer.t[0]) * NS_PER_MS  # rounded down: not after the record
                found[layer.attempt] = min(at_ns, found.get(layer.attempt, at_ns))
        return found

    def _with_series(self, attempt: Attempt, onset: int, last: int) -> Attempt:
        """Return an attempt with its loss over the stretch and its learning rates before it."""
        stored = self._run(attempt.run_id)
        rates = [each.name for each in stored.series if _is_rate(each.name)][:MOST_RATES] if stored else []
        begin = min(onset, attempt.last_step) - POINTS
        answer = self.reader.series(
            attempt.run_id, ["loss", *rates], start=begin, stop=last, buckets=2 * POINTS
        )
        curves = {name: _curve(layers, attempt) for name, layers in answer.series.items()}
        loss = curves.pop("loss", Curve())
        rates_known = {name: curve for name, curve in curves.items() if curve.steps}
        return replace(attempt, loss=loss, rates=rates_known)

    def _run(self, run_id: str) -> StoredRun | None:
        if run_id not in self._runs:
            self._runs[run_id] = self.reader.run(run_id)
        return self._runs[run_id]

    def _setups_of(self, stored: StoredRun) -> dict[int, Setup]:
        if stored.id not in self._setups:
            with self.reader.consistent() as connection:
                self._setups[stored.id] = attempt_setups(connection, stored)
        return self._setups[stored.id]

    def _alerts_of(self, run_id: str) -> list[Alert]:
        if run_id not in self._alerts:
            found = self.reader.alerts(run_id, list(AlertState), limit=MOST_ALERTS)
            self._alerts[run_id] = [stored.alert for stored in found]
        return self._alerts[run_id]

    def _checkpoints(self, run_id: str) -> tuple[str, ...]:
        if run_id not in self._paths:
            self._paths[run_id] = tuple(each.path for each in checkpoints_of(self.reader, run_id))
        return self._paths[run_id]


def tried_after(reader: StoreReader, incident: Incident) -> TriedRemedies:
    """Return what was tried after an incident, and the steps that are compared."""
    return RemedySearch(reader, reader.runs()).tried_after(incident)


def remedies_of(reader: StoreReader, incident: Incident) -> list[AppliedRemedy]:
    """Return what was tried after an incident, oldest first."""
    return RemedySearch(reader, reader.runs()).remedies_of(incident)


def project_ledger(reader: StoreReader, project: str) -> list[LedgerRow]:
    """Return how often which remedy helped against which cause in a project."""
    incidents = reader.incidents(limit=MOST_INCIDENTS, project=project)
    return RemedySearch(reader, reader.runs()).ledger(incidents[:MOST_INCIDENTS])


def _part_of(incident: Incident, run_id: str) -> Incident:
    """Return an incident with only its alerts of one run."""
    return replace(incident, alerts=tuple(each for each in incident.alerts if each.run_id == run_id))


def _is_repetition(before: Setup, after: Setup) -> bool:
    """Return whether a run has the same configuration as another except a few settings, fewer than half."""
    old, new = before.get("config"), after.get("config")
    if not old or not new:
        return False
    changed = len(setting_changes({"config": old}, {"config": new}))
    equal = sum(1 for name, value in old.items() if new.get(name) == value)
    return changed <= FEW and equal >= max(1, changed)


def _is_finished(stored: StoredRun) -> bool:
    """Return whether a run ended by itself: without an error, and not stopped by a signal."""
    return stored.state is RunState.FINISHED and stored.error is None


def _is_rate(name: str) -> bool:
    return name == LR or name.startswith(f"{LR}/")


def _curve(layers: Sequence[SeriesLayer], attempt: Attempt) -> Curve:
    """Return a series of one attempt, or of all attempts of a run, of which newer ones count.

    ``layers`` are ordered: the newest attempt first, then by rank. The lowest rank counts.
    """
    of_attempt: dict[int, SeriesLayer] = {}
    for layer in layers:
        if len(layer.x) and (attempt.whole or layer.attempt == attempt.attempt):
            of_attempt.setdefault(layer.attempt, layer)
    points: dict[float, float] = {}
    for layer in reversed(of_attempt.values()):
        values = layer.first if layer.mean is None else layer.mean
        points |= dict(zip(layer.x1.tolist(), values.tolist(), strict=True))
    steps = sorted(points)
    return Curve(steps, [points[step] for step in steps])
