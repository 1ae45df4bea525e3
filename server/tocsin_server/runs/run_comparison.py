"""Compare a run with its last healthy attempt and with the most similar healthy run of its project."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tocsin_server.core.incidents import Incident
from tocsin_server.core.run_changes import (
    DIFF,
    Change,
    Setup,
    differences,
    likeness,
    not_recorded,
    ranked,
)
from tocsin_server.store.connection import Connection
from tocsin_server.store.results import StoredAttempt, StoredRun
from tocsin_server.store.run_setups import (
    ProjectRun,
    attempt_setups,
    attempt_starts,
    broken_onsets,
    project_runs,
)


@dataclass(frozen=True, slots=True)
class Reference:
    """An earlier attempt of the run, or another run, that was healthy."""

    run_id: str
    run_name: str
    text: str
    """Why it was chosen."""
    attempt: int | None = None
    """None for another run, whose ``setup`` is given."""
    setup: Setup = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs from one healthy attempt or run."""

    reference: Reference
    changes: Sequence[Change]
    not_recorded: Sequence[str]


@dataclass(frozen=True, slots=True)
class RunChanges:
    """The comparisons of one attempt, and over how many runs of the project its settings were counted."""

    attempt: int
    comparisons: Sequence[Comparison]
    failing: int
    healthy: int
    diff: str
    """Uncommitted changes of the attempt, if it reported them."""


def changes_of(
    connection: Connection,
    stored: StoredRun,
    *,
    earlier: int | None = None,
    at_ns: int | None = None,
    rules: Collection[str] = (),
    reached: int | None = None,
) -> RunChanges:
    """Compare an attempt of a run with the last healthy attempt and the most similar healthy run.

    Args:
        connection: A connection.
        stored: The run, with its attempts.
        earlier: Compare only with this attempt of the run, healthy or not.
        at_ns: Compare the attempt that was running then; None: the newest.
        rules: Rules whose alerts count as a failure, besides all critical alerts.
        reached: A run that still trains is healthy only if it came as far as this step.
    """
    began = attempt_starts(connection, [stored.id])[stored.id]
    attempts = sorted(stored.attempts_list, key=lambda each: began[each.attempt])
    starts = [began[each.attempt] for each in attempts]
    place = len(attempts) - 1 if at_ns is None else max(bisect_right(starts, at_ns) - 1, 0)
    number = attempts[place].attempt if attempts else 0
    setups = attempt_setups(connection, stored)
    mine = setups.get(number, {})
    runs = project_runs(connection, stored.project, rules)
    onsets = broken_onsets(connection, stored.id, rules)
    failing = [each.setup for each in runs if each.id != stored.id and each.is_failing]
    if onsets or any(each.id == stored.id and each.is_failing for each in runs):
        failing.append(mine)
    good = [each for each in runs if each.id != stored.id and each.is_healthy(reached)]
    healthy = [each.setup for each in good]
    found = []
    references = [
        _attempt_before(stored, attempts[:place], starts, onsets),
        _similar(stored, mine, good),
    ]
    if earlier is not None:
        references = [Reference(stored.id, stored.name, "an earlier attempt of this run", earlier)]
    for reference in references:
        if reference is not None:
            setup = setups.get(reference.attempt, {}) if reference.attempt is not None else reference.setup
            changes = ranked(differences(setup, mine), failing, healthy)
            found.append(Comparison(reference, changes, not_recorded(setup, mine)))
    diff = mine.get(DIFF, {}).get(DIFF, "")
    return RunChanges(number, found, len(failing), len(healthy), diff)


def changes_of_incident(connection: Connection, stored: StoredRun, incident: Incident) -> RunChanges:
    """Compare the attempt in which an incident began; alerts of its rules count as a failure too.

    Args:
        connection: A connection.
        stored: The run of the incident, with its attempts.
        incident: The incident.
    """
    rules = {alert.rule for alert in incident.alerts}
    return changes_of(connection, stored, at_ns=incident.onset_ns, rules=rules, reached=incident.onset_step)


def _attempt_before(
    stored: StoredRun, earlier: Sequence[StoredAttempt], starts: Sequence[int], onsets: Sequence[int]
) -> Reference | None:
    """Return the last of some attempts that took steps and during which no alert began."""
    for place in range(len(earlier) - 1, -1, -1):
        ends = starts[place + 1]
        broken = any(starts[place] <= onset < ends for onset in onsets)
        if earlier[place].last_step is not None and not broken:
            number = earlier[place].attempt
            text = "the last one without this problem"
            return Reference(stored.id, stored.name, text, number)
    return None


def _similar(stored: StoredRun, mine: Setup, healthy: Sequence[ProjectRun]) -> Reference | None:
    """Return the healthy run with the largest share of equal settings; of several, the newest."""

    def alike(run: ProjectRun) -> float:
        return likeness(mine, run.setup, (stored.name, run.name))

    run = max(healthy, key=lambda run: (alike(run), run.created_ns, run.id), default=None)
    if run is None or not alike(run):
        return None
    return Reference(run.id, run.name, _why(run, mine), setup=run.setup)


def _why(like: ProjectRun, mine: Setup) -> str:
    """Return why a run was chosen."""
    ours, theirs = mine.get("config") or {}, like.setup.get("config") or {}
    names = ours.keys() | theirs.keys()
    if not names:
        return "the newest healthy run with a similar name"
    equal = sum(1 for name in names if ours.get(name) == theirs.get(name))
    return f"the most similar healthy run ({equal} of {len(names)} settings are equal)"
