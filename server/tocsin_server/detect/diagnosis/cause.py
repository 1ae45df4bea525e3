"""A candidate cause of an episode, and how far up in the order of belief it stands.

The order is that of the catalogue, section 4. A rule file may bring its own candidates:
``CAUSES = ((DATA, function), ...)``, each a function of the case that says what speaks for it, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tocsin_server.core.models import Evidence, Remedy
from tocsin_server.detect.diagnosis.case import DiagnosisContext

MEASUREMENT, DATA, RATE, SCALER, RUNAWAY, FORWARD, GRADIENT, OPTIMISATION, SYSTEM, HARDWARE = range(10)
"""Ranks of belief: instrumentation, data, learning rate, scaler, training that ran away before the numbers
went wrong, forward overflow, gradients, optimisation, the machine around it, hardware faults."""


@dataclass(frozen=True)
class Cause:
    """One candidate: a sentence, what speaks for it, what to do, what would disprove it."""

    name: str
    text: str
    short: str
    """As one of the alternatives of another cause."""
    remedies: tuple[Remedy, ...]
    how_to_confirm: str
    evidence: tuple[Evidence, ...] = ()
    onset: tuple[int, str] | None = None
    """A step of the story that no rule tells: step and sentence."""


Candidate = Callable[[DiagnosisContext], Cause | None]
Ranked = tuple[int, Candidate]
