"""Detect a training process that has disappeared.

A warning after 30 s without a connection and without the end of the run, critical after 10 minutes. It
resolves when the process reconnects or the run ends. Times are measured by the server's clock, at the
earliest from the start of the server.

Signals:
    connections, the end of the run
Warm-up:
    30 s after the start of the server
Does not fire on:
    - a paused host or a network outage, which usually end within minutes; the process buffers its records
      meanwhile
Likely causes:
    - killed for memory or by the scheduler
    - the machine is gone
    - a network outage
First action:
    Read the last lines of the job and the kernel log, then resume from the newest checkpoint under the same
    run id.
Source:
    Six missed heartbeats of 5 s each.
"""

from __future__ import annotations

from tocsin_server.core.models import AlertState, Diagnosis, Evidence, Finding, Remedy, Severity
from tocsin_server.detect.interface.description import RuleInfo, RuleSettings, describe, setting
from tocsin_server.detect.interface.liveness import Liveness, over, seconds, span


class Settings(RuleSettings):
    """Thresholds: six missed heartbeats; the ten minutes were measured (docs/internals/detection.md)."""

    warning_s: float = setting(30.0, "seconds", "Time without a connection that is a warning")
    critical_s: float = setting(600.0, "seconds", "Time without a connection that is critical")


DEFAULTS = Settings()
INFO = RuleInfo(
    id="trainer-lost",
    title="Training process is lost",
    severity=Severity.CRITICAL,
    clock="time",
    settings=describe(Settings),
)

_REMEDIES = (
    Remedy(
        "Check the last lines of the job's output and the kernel log for the out-of-memory killer.",
        'dmesg --ctime | grep -iE "killed process|out of memory"',
    ),
    Remedy(
        "If it was preempted, resume from the newest checkpoint under the same run id.",
        "TOCSIN_RUN_ID=<run id> python train.py --resume",
    ),
)


def check(liveness: Liveness, now_ns: int, settings: Settings = DEFAULTS) -> list[Finding]:
    """Return a finding while the training process is lost, one that resolves it afterwards, or none.

    Args:
        liveness: Activity of the run.
        now_ns: Unix time by the server's clock, ns.
        settings: Thresholds.
    """
    if liveness.ended:
        return over(INFO.id, liveness, now_ns, "The run ended")
    if liveness.connected:
        return over(INFO.id, liveness, now_ns, "The training process reconnected")
    last_ns = liveness.silent_since_ns or liveness.last_record_ns or liveness.opened_ns
    since_ns = max(last_ns, liveness.server_started_ns)
    silence_s = seconds(now_ns - since_ns)
    if silence_s <= settings.warning_s:
        return []
    return [_finding(liveness, now_ns, last_ns, silence_s, settings)]


def _finding(liveness: Liveness, now_ns: int, last_ns: int, silence_s: float, settings: Settings) -> Finding:
    place = "before its first step" if liveness.last_step is None else f"after step {liveness.last_step}"
    critical_s = max(settings.warning_s, settings.critical_s)
    severity = Severity.CRITICAL if silence_s > critical_s else Severity.WARNING
    passed_s = critical_s if severity is Severity.CRITICAL else settings.warning_s
    return Finding(
        rule=INFO.id,
        severity=severity,
        state=AlertState.FIRING,
        subject="",
        onset_step=liveness.last_step,
        step=liveness.last_step,
        time_ns=now_ns,
        summary=f"The training process has been disconnected for more than {span(passed_s)}, {place}",
        onset_ns=last_ns,
        diagnosis=Diagnosis(
            cause="The process was killed, its machine is gone, or the network is down.",
            evidence=(
                Evidence(
                    "last step", float(liveness.last_step) if liveness.last_step is not None else "none"
                ),
            ),
            alternatives=(
                "The process was killed for memory, or by the scheduler at its time limit.",
                "The network is down; the process continues, buffers its records and delivers them later.",
            ),
            remedies=_REMEDIES,
            how_to_confirm="Check the job: its process no longer runs.",
            timeline=((liveness.last_step or 0, f"Last record, {place}", INFO.id),),
        ),
    )
