"""Activity of a run by the server's clock, as input of the rules ``stalled`` and ``trainer-lost``."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin_server.core.models import AlertState, Diagnosis, Finding, Severity


@dataclass(frozen=True, slots=True)
class Liveness:
    """Arrival times of a run, in Unix ns by the server's clock, not by that of the training process."""

    opened_ns: int
    """Time of the first handshake of the run, or of its newest attempt."""
    last_record_ns: int | None
    """Arrival of the newest record of the newest attempt; None before the first."""
    last_step: int | None
    intervals_s: tuple[float, ...]
    """The last 100 intervals between arrivals of records, in seconds."""
    phase: str
    """The declared phase in progress (eval, checkpoint), or empty."""
    phase_since_ns: int | None
    connected: bool
    silent_since_ns: int | None
    """When the last connection ended; None if connected, or if there was no connection since startup."""
    server_started_ns: int
    ended: bool
    """``finish`` was received, or the run was closed."""
    longest_pause_s: float = 0.0
    """The longest interval of this attempt so far."""
    open: frozenset[str] = frozenset()
    """Identifiers of the time-based rules that have an open alert."""


def seconds(ns: int) -> float:
    """Convert nanoseconds to seconds."""
    return ns / 1e9


def span(value_s: float) -> str:
    """Format a duration: ``45 s``, ``12 min``, ``3.5 h``."""
    if value_s < 120:
        return f"{value_s:.0f} s"
    return f"{value_s / 60:.0f} min" if value_s < 7200 else f"{value_s / 3600:.1f} h"


def over(rule: str, liveness: Liveness, now_ns: int, summary: str) -> list[Finding]:
    """Return a finding that resolves the open alert of ``rule``, if there is one.

    Args:
        rule: Identifier of the rule.
        liveness: Activity of the run.
        now_ns: Unix time by the server's clock, ns.
        summary: Why it is over.
    """
    if rule not in liveness.open:
        return []
    return [
        Finding(
            rule=rule,
            severity=Severity.INFO,
            state=AlertState.RESOLVED,
            subject="",
            onset_step=liveness.last_step,
            step=liveness.last_step,
            time_ns=now_ns,
            summary=summary,
            diagnosis=Diagnosis(cause=summary),
        )
    ]
