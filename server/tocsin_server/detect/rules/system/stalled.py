"""Detect a run that is connected but takes no steps.

A warning if no record arrives for more than 5 times the longest of the last 100 intervals, twice the longest
pause of the attempt so far, and 120 s. Critical at three times that and at least 30 minutes. The next record
resolves it. Times are measured by the server's clock, at the earliest from the start of the server.

Signals:
    arrival times of records, declared phases
Warm-up:
    20 minutes for the first record, and for each step until three intervals are known
Does not fire on:
    - declared phases (`with run.phase("eval")`, and evaluation loops that call `model.eval()`), which may
      last an hour
    - notebooks and IPython between two cells
    - runs that have ended
Likely causes:
    - a collective that waits for a lost rank
    - a data loader without data
    - a deadlock
    - an evaluation or a checkpoint that was not declared
First action:
    Run `py-spy dump --pid PID` on every process, and wrap long pauses in `with run.phase(...)`.
Source:
    NVIDIA NeMo fault tolerance (5 times the longest interval); SageMaker StalledTraining (1800 s) and
    MaxInitializationTime (20 min).
"""

from __future__ import annotations

from tocsin.protocol import BETWEEN_CELLS
from tocsin_server.core.models import AlertState, Diagnosis, Evidence, Finding, Remedy, Severity
from tocsin_server.detect.interface.description import RuleInfo, RuleSettings, describe, setting
from tocsin_server.detect.interface.liveness import Liveness, over, seconds, span


class Settings(RuleSettings):
    """Thresholds: NeMo's factor and SageMaker's MaxInitializationTime."""

    warning_s: float = setting(120.0, "seconds", "Shortest time without a record that is a warning")
    interval_ratio: float = setting(5.0, "x longest interval", "Time without a record that is a warning")
    pause_ratio: float = setting(
        2.0, "x longest pause", "Time without a record that is a warning, after earlier pauses"
    )
    min_intervals: int = setting(3, "intervals", "Intervals needed before the length of a step is known")
    critical_ratio: float = setting(3.0, "x warning limit", "Time without a record that is critical")
    critical_s: float = setting(1800.0, "seconds", "Shortest time without a record that is critical")
    first_step_s: float = setting(1200.0, "seconds", "Time that is allowed until a few intervals are known")
    phase_s: float = setting(3600.0, "seconds", "Time that is allowed without records in a declared phase")


DEFAULTS = Settings()
INFO = RuleInfo(
    id="stalled",
    title="Steps have stopped",
    severity=Severity.CRITICAL,
    clock="time",
    inhibited_by=("trainer-lost",),
    settings=describe(Settings),
)

_REMEDIES = (
    Remedy(
        "Dump the stack of every process; a rank that waits in a collective waits for another rank.",
        "py-spy dump --pid PID",
    ),
    Remedy(
        "Declare long pauses, so that they are not reported as stalls.", 'with run.phase("eval"):\n    ...'
    ),
)


def check(liveness: Liveness, now_ns: int, settings: Settings = DEFAULTS) -> list[Finding]:
    """Return a finding while the run is stalled, one that resolves it afterwards, or none.

    Args:
        liveness: Activity of the run.
        now_ns: Unix time by the server's clock, ns.
        settings: Thresholds.
    """
    if liveness.ended or not liveness.connected:
        return over(INFO.id, liveness, now_ns, "The run ended or lost its training process")
    if liveness.phase == BETWEEN_CELLS:
        return over(INFO.id, liveness, now_ns, "The notebook waits for its next cell")
    since_ns, limit_s = _limit(liveness, settings)
    silence_s = seconds(now_ns - since_ns)
    if silence_s <= limit_s:
        return over(INFO.id, liveness, now_ns, f"Steps continue at step {liveness.last_step}")
    critical = silence_s > _critical_s(limit_s, settings)
    severity = Severity.CRITICAL if critical else Severity.WARNING
    return [_finding(liveness, now_ns, since_ns, limit_s, severity, settings)]


def _critical_s(limit_s: float, settings: Settings) -> float:
    return max(settings.critical_ratio * limit_s, settings.critical_s)


def _limit(liveness: Liveness, settings: Settings) -> tuple[int, float]:
    """Return since when the run has been silent (Unix ns), and how long it may be (s)."""
    if liveness.last_record_ns is None:
        return max(liveness.opened_ns, liveness.server_started_ns), settings.first_step_s
    since_ns = max(liveness.last_record_ns, liveness.server_started_ns)
    longest_s = max(liveness.intervals_s, default=0.0)
    limit_s = max(
        settings.warning_s,
        settings.interval_ratio * longest_s,
        settings.pause_ratio * liveness.longest_pause_s,
    )
    if len(liveness.intervals_s) < settings.min_intervals:
        limit_s = max(limit_s, settings.first_step_s)
    if liveness.phase:
        begun_ns = liveness.phase_since_ns if liveness.phase_since_ns is not None else since_ns
        return max(since_ns, begun_ns), max(limit_s, settings.phase_s)
    return since_ns, limit_s


def _finding(
    liveness: Liveness, now_ns: int, since_ns: int, limit_s: float, severity: Severity, settings: Settings
) -> Finding:
    silence_s = seconds(now_ns - since_ns)
    place = "before the first step" if liveness.last_step is None else f"after step {liveness.last_step}"
    passed_s = _critical_s(limit_s, settings) if severity is Severity.CRITICAL else limit_s
    evidence = (
        Evidence("limit", limit_s, "s"),
        Evidence("longest interval before", max(liveness.intervals_s, default=0.0), "s"),
        Evidence("phase", liveness.phase or "none"),
    )
    return Finding(
        rule=INFO.id,
        severity=severity,
        state=AlertState.FIRING,
        subject="",
        onset_step=liveness.last_step,
        step=liveness.last_step,
        time_ns=now_ns,
        summary=f"No record for more than {span(passed_s)} {place}",
        onset_ns=since_ns,
        diagnosis=Diagnosis(
            cause="The process is connected but takes no steps: a hang, a deadlock or a long pause.",
            evidence=evidence,
            alternatives=(
                "A collective waits for a rank that died (NCCL gives up after 10 min).",
                "The data loader waits for its workers or for storage.",
                "An evaluation or checkpoint that was not declared as a phase.",
            ),
            remedies=_REMEDIES,
            how_to_confirm=f"Wait {span(max(limit_s, silence_s))}: no record arrives.",
            timeline=((liveness.last_step or 0, f"Last record, {place}", INFO.id),),
        ),
    )
