"""Compute what an incident cost: steps and process time from the onset until it was over. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tocsin_server.core.checkpoints import Checkpoint
from tocsin_server.core.incidents import Incident, IncidentState
from tocsin_server.report.words import counted, span
from tocsin_server.store.results import StoredIncident, StoredRun

SHORT_S = 3600
"""Process time below which it is given in minutes or seconds."""
STATES = {
    IncidentState.OPEN: "open",
    IncidentState.MITIGATED: "mitigated: no alert fires, but not all have resolved",
    IncidentState.ENDED: "unresolved when the run ended",
    IncidentState.RESOLVED: "resolved",
}
_UNTIL = {
    IncidentState.OPEN: "until now",
    IncidentState.MITIGATED: "until now",
    IncidentState.ENDED: "until the run ended",
    IncidentState.RESOLVED: "until all alerts resolved",
}


@dataclass(frozen=True, slots=True)
class Impact:
    """What an incident cost.

    Attributes:
        seconds: From the onset until the incident was over, or until the newest message of the run, without
            the time in which no process ran.
        steps: Steps in that time; None if the incident has no step.
        processes: Training processes of the run.
        has_gpus: Whether PyTorch was a CUDA build in the run.
        until: How the time ended, for a sentence.
        repeated_steps: Healthy steps after the checkpoint to resume from, which are lost too; None if no
            checkpoint is known.
        repeated_seconds: The time from that checkpoint to the onset; None if unknown.
    """

    seconds: float
    steps: int | None
    processes: int
    has_gpus: bool
    until: str
    repeated_steps: int | None = None
    repeated_seconds: float | None = None

    def process_time(self, seconds: float) -> str:
        """Return the time of all processes together in a stretch of time, such as ``3.1 GPU hours``."""
        kind, total = "GPU" if self.has_gpus else "process", seconds * self.processes
        return f"{total / 3600:.1f} {kind} hours" if total >= SHORT_S else f"{span(total)} of {kind} time"

    def sentences(self) -> list[str]:
        """Return the impact as sentences."""
        steps = "" if self.steps is None else f"{counted(self.steps, 'step')} and "
        each = f" ({self.processes} processes, {span(self.seconds)})" if self.processes > 1 else ""
        found = [f"{steps}{self.process_time(self.seconds)}{each} from the onset {self.until}."]
        if self.repeated_steps:
            cost = "" if self.repeated_seconds is None else f" ({self.process_time(self.repeated_seconds)})"
            healthy = counted(self.repeated_steps, "healthy step")
            found.append(f"Resuming from the last good checkpoint repeats {healthy} before the onset{cost}.")
        return found


def impact_of(incident: Incident, state: IncidentState, run: StoredRun, resume: Checkpoint | None) -> Impact:
    """Return what an incident cost.

    Args:
        incident: The incident.
        state: Its state, which counts alerts that are not loaded too.
        run: Its run.
        resume: The last good checkpoint before it, or None.
    """
    over = state in (IncidentState.ENDED, IncidentState.RESOLVED)
    ends_ns = [alert.resolved_ns for alert in incident.alerts if alert.resolved_ns]
    last_steps = [alert.resolved_step for alert in incident.alerts if alert.resolved_step is not None]
    end_ns = max(ends_ns) if over and ends_ns else _newest_ns(run)
    if state is IncidentState.ENDED and run.ended_ns is not None:
        end_ns = min(end_ns, max(run.ended_ns, incident.onset_ns))  # before the grace period of a failed run
    end_step = max(last_steps) if over and last_steps else run.last_step
    onset = incident.onset_step
    versions = run.environment.get("versions")
    known = resume is not None and onset is not None
    return Impact(
        seconds=max(0, end_ns - incident.onset_ns - _idle_ns(run, incident.onset_ns, end_ns)) / 1e9,
        steps=None if onset is None or end_step is None else max(0, end_step - onset),
        processes=max(1, run.world_size),
        has_gpus=isinstance(versions, dict) and bool(versions.get("cuda")),
        until=_UNTIL[state],
        repeated_steps=max(0, onset - resume.step) if resume and onset is not None else None,
        repeated_seconds=(
            max(0, incident.onset_ns - resume.time_ns) / 1e9 if known and resume and resume.time_ns else None
        ),
    )


def impact_lines(
    stored: StoredIncident, runs: Sequence[StoredRun], resume: Checkpoint | None
) -> list[tuple[str, str]]:
    """Return what an incident cost as sentences, each with the name of its run if several failed together.

    Args:
        stored: The incident.
        runs: Its runs, that of its lead first; perhaps not all of them.
        resume: The last good checkpoint of the first run before the incident, or None.
    """
    if len(stored.runs) <= 1:
        impact = impact_of(stored.incident, stored.state, runs[0], resume)
        return [("", sentence) for sentence in impact.sentences()]
    found, left = [], len(stored.runs)
    for run in runs:
        own = tuple(alert for alert in stored.incident.alerts if alert.run_id == run.id)
        if own:
            part = Incident(stored.incident.id, own)
            impact = impact_of(part, part.state, run, resume if run is runs[0] else None)
            left -= 1
            found += [(run.name, sentence) for sentence in impact.sentences()]
    return [*found, ("", f"{counted(left, 'more run')} not counted.")] if left > 0 else found


def _idle_ns(run: StoredRun, start_ns: int, end_ns: int) -> int:
    """Return the time between attempts, in which no process ran, in a stretch of time."""
    idle = 0
    ran_until_ns = None
    for attempt in sorted(run.attempts_list, key=lambda each: each.started_ns):
        if ran_until_ns is not None:
            idle += max(0, min(attempt.started_ns, end_ns) - max(ran_until_ns, start_ns))
        if attempt.last_ns is not None:
            ran_until_ns = max(ran_until_ns or 0, attempt.last_ns)
    return idle


def _newest_ns(run: StoredRun) -> int:
    """Return when the run was last active; the time in its row is only updated now and then."""
    return max([run.last_seen_ns, *(each.last_ns for each in run.attempts_list if each.last_ns is not None)])
