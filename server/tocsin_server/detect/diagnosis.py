"""What is wrong, on which evidence, what else it could be, what to do, what would disprove it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tocsin_server.detect.context import RunContext
from tocsin_server.detect.history import History
from tocsin_server.detect.rule import Verdict
from tocsin_server.domain import Diagnosis, Evidence


@dataclass(frozen=True, slots=True)
class Case:
    """One alert to be explained: its verdict, what other rules have open, and the records before."""

    rule: str
    subject: str
    verdict: Verdict
    others: Sequence[tuple[str, str, Verdict]]
    history: History
    upto: int
    """Number of the newest record that may be looked at."""
    context: RunContext


def explain(case: Case) -> Diagnosis:
    """The diagnosis of an alert."""
    evidence = tuple(Evidence(*fact) for fact in case.verdict.evidence)
    return Diagnosis(cause=case.verdict.summary, evidence=evidence)
