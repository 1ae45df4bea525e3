"""Compare the diagnosis of a scenario with its true cause."""

from __future__ import annotations

from dataclasses import dataclass

from tests.scenarios.causes.faults import Scenario
from tests.scenarios.evaluation import EvaluatedRun
from tocsin_server.core.incidents import incidents_of


@dataclass(frozen=True)
class Named:
    """What the most severe, oldest incident names.

    ``place`` is 1 if its likely cause is right, 2 if its first other explanation is, or if the likely cause
    names the right one beside one that the records cannot exclude; else 0.
    """

    place: int
    rule: str
    texts: tuple[str, ...]


def named(scenario: Scenario, run: EvaluatedRun) -> Named:
    """Return what the diagnosis of a run names, compared with the scenario's cause."""
    severe = {alert.incident_id for alert in run.severe}
    found = [incident for incident in incidents_of(run.alerts) if incident.id in severe]
    if not found:
        return Named(0, "no alert", ())
    first = min(found, key=lambda incident: (-incident.severity.level, incident.onset_ns))
    diagnosis = first.lead.diagnosis
    texts = (diagnosis.cause, *diagnosis.alternatives[:1])
    if has(texts[0], scenario.words) and scenario.either and has(texts[0], scenario.either):
        return Named(2, first.lead.rule, texts)
    right = [at for at, text in enumerate(texts, 1) if has(text, scenario.words)]
    return Named(right[0] if right else 0, first.lead.rule, texts)


def has(text: str, words: tuple[str, ...]) -> bool:
    """Return whether ``text`` has any of ``words``, in whatever case."""
    return any(word.lower() in text.lower() for word in words)
