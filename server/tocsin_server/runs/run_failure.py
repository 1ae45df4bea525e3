"""Describe a run that failed as a finding, so that it is an alert like any other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tocsin_server.core.causal_order import by_cause
from tocsin_server.core.models import (
    RUN_FAILED,
    TRACEBACK,
    Alert,
    AlertState,
    Diagnosis,
    Evidence,
    Finding,
    Remedy,
    Severity,
)

BY_HAND, BY_SIGNAL = "KeyboardInterrupt", "SIGTERM"
LONGEST_SUMMARY = 400
LONGEST_LINE = 400
LAST_LINES = 12
"""Lines of the traceback that the alert shows."""
MEMORY = "out of memory"
"""Part of the message or type of every error of a GPU or host without memory."""


def failure_finding(
    error: Mapping[str, Any],
    *,
    step: int | None,
    time_ns: int,
    firing: Iterable[Alert],
    checkpoint: tuple[int, str] | None,
) -> Finding:
    """Return the finding for a run that failed.

    The severity is critical by default, warning after SIGTERM (a person or a scheduler stopped the run and
    may restart it), and info after Ctrl-C (the user stopped it).

    Args:
        error: ``type``, ``message`` and traceback ``lines`` of the error, if known.
        step: The last step; None before the first.
        time_ns: When the run failed.
        firing: The alerts that were firing then.
        checkpoint: Step and path of the newest checkpoint, if one is known.
    """
    kind = str(error.get("type") or "")
    severity = {BY_HAND: Severity.INFO, BY_SIGNAL: Severity.WARNING}.get(kind, Severity.CRITICAL)
    before = by_cause(alert for alert in firing if alert.severity is not Severity.INFO)
    return Finding(
        rule=RUN_FAILED,
        severity=severity,
        state=AlertState.FIRING,
        subject="",
        onset_step=step,
        onset_ns=time_ns,
        step=step,
        time_ns=time_ns,
        summary=_summary(error),
        diagnosis=Diagnosis(
            cause=_cause(error, before),
            evidence=_evidence(error, step),
            remedies=_remedies(error, before, checkpoint),
            timeline=tuple(sorted((alert.onset_step or 0, alert.summary, alert.rule) for alert in before)),
        ),
    )


def _summary(error: Mapping[str, Any]) -> str:
    parts = (str(error.get(name) or "") for name in ("type", "message"))
    return (": ".join(part for part in parts if part) or "The run failed without an error")[:LONGEST_SUMMARY]


def _out_of_memory(error: Mapping[str, Any]) -> bool:
    text = f"{error.get('type')} {error.get('message')}".lower()
    return MEMORY in text or "outofmemory" in text


def _cause(error: Mapping[str, Any], before: Sequence[Alert]) -> str:
    kind = error.get("type")
    if kind == BY_HAND:
        return "The run was stopped with Ctrl-C."
    if kind == BY_SIGNAL:
        return "The run was stopped with SIGTERM, by a person or by the scheduler."
    if _out_of_memory(error):
        return "The process needed more memory than was free."
    if before:
        return f"The run was unstable before it failed: {before[0].summary} ({before[0].rule})."
    return "The script raised an exception. No alert was firing before it."


def _evidence(error: Mapping[str, Any], step: int | None) -> tuple[Evidence, ...]:
    lines = error.get("lines")
    last = [str(line)[:LONGEST_LINE] for line in lines[-LAST_LINES:]] if isinstance(lines, list) else []
    found = [Evidence("last step", float(step))] if step is not None else []
    return (*found, *([Evidence(TRACEBACK, "\n".join(last))] if last else ()))


def _remedies(
    error: Mapping[str, Any], before: Sequence[Alert], checkpoint: tuple[int, str] | None
) -> tuple[Remedy, ...]:
    back = Remedy("Resume from the last checkpoint.")
    if checkpoint is not None:
        back = Remedy(f"Resume from the checkpoint of step {checkpoint[0]}.", checkpoint[1])
    if error.get("type") in (BY_HAND, BY_SIGNAL):
        return (back,)
    if _out_of_memory(error):
        less = "Reduce the batch size or the sequence length, or use gradient accumulation or checkpointing."
        return (Remedy(less), back)
    if before and before[0].diagnosis.remedies:
        return (*before[0].diagnosis.remedies[:2], back)
    return (Remedy("Fix the error at the end of the traceback."), back)
