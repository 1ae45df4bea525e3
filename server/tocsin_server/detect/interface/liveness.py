"""What the server's clock knows of a run: the facts that ``stalled`` and ``trainer-lost`` judge."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin_server.core.models import AlertState, Diagnosis, Finding, Severity


@dataclass(frozen=True, slots=True)
class Liveness:
    """All times are Unix ns on the server's clock, of arrivals, never of the trainer."""

    opened_ns: int
    """When the run (or its newest attempt) first said hello."""
    last_record_ns: int | None
    """Arrival of the newest record of the newest attempt; None before the first."""
    last_step: int | None
    intervals_s: tuple[float, ...]
    """The last 100 intervals between arrivals of records, in seconds."""
    phase: str
    """The declared phase under way (eval, checkpoint), else empty."""
    phase_since_ns: int | None
    connected: bool
    silent_since_ns: int | None
    """When the last connection ended; None while there is one, or where there was none since the start."""
    server_started_ns: int
    ended: bool
    """``finish`` came, or the run was closed."""
    longest_pause_s: float = 0.0
    """The longest interval of this attempt so far."""
    open: frozenset[str] = frozenset()
    """Identifiers of rules of this kind whose alert is open."""


def seconds(ns: int) -> float:
    """Nanoseconds as seconds."""
    return ns / 1e9


def span(value_s: float) -> str:
    """``45 s``, ``12 min``, ``3.5 h``."""
    if value_s < 120:
        return f"{value_s:.0f} s"
    return f"{value_s / 60:.0f} min" if value_s < 7200 else f"{value_s / 3600:.1f} h"


def over(rule: str, liveness: Liveness, now_ns: int, summary: str) -> list[Finding]:
    """The end of an episode, said where an alert of ``rule`` is open."""
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
