"""A candidate cause of an episode and its rank.

The file of a rule may define candidates: ``CAUSES = ((DATA, candidate), ...)``. A candidate is a
:class:`Cause`, or a function that takes a :class:`DiagnosisContext` and returns a :class:`Cause`, or None
without evidence. :func:`of_kind` limits it to results of one kind. They apply to alerts of that rule; those
in ``SHARED_CAUSES`` apply to any rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tocsin_server.core.models import Evidence, Remedy
from tocsin_server.detect.diagnosis.case import DiagnosisContext

MEASUREMENT, DATA, RATE, SCALER, RUNAWAY, FORWARD, GRADIENT, OPTIMISATION, SYSTEM, HARDWARE = range(10)
"""Ranks, most plausible first.

Instrumentation, data, learning rate, scaler, divergence before the values became non-finite, forward
overflow, gradients, optimization, system, hardware faults.
"""


@dataclass(frozen=True)
class Cause:
    """One candidate: a sentence, its evidence, remedies, and how to confirm it."""

    name: str
    text: str
    short: str
    """Text for the list of alternatives of another cause."""
    remedies: tuple[Remedy | None, ...]
    """None stands for a remedy that does not fit the episode."""
    how_to_confirm: str
    evidence: tuple[Evidence, ...] = ()
    onset: tuple[int, str] | None = None
    """Step and sentence of a timeline entry that no rule reports."""


Candidate = Callable[[DiagnosisContext], Cause | None]
Ranked = tuple[int, Candidate]


def own_cause(rule: str, cause: Cause | Candidate) -> Candidate:
    """Return ``cause`` as a candidate for alerts of ``rule`` only."""
    return _candidate(cause, lambda case: case.rule == rule)


def of_kind(kind: str, cause: Cause | Candidate) -> Candidate:
    """Return ``cause`` as a candidate for results of this kind only."""
    return _candidate(cause, lambda case: case.result.kind == kind)


def _candidate(cause: Cause | Candidate, applies: Callable[[DiagnosisContext], bool]) -> Candidate:
    def candidate(case: DiagnosisContext) -> Cause | None:
        if not applies(case):
            return None
        return cause if isinstance(cause, Cause) else cause(case)

    return candidate
