"""Build the diagnosis of an alert: likely cause, evidence, alternatives, remedies, how to confirm.

Deterministic: the same records give the same text. The findings of one episode are merged into one
timeline. The cause is the first candidate, of :mod:`causes` or of a rule's module, that has evidence.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache

from tocsin_server.core.causal_order import in_order
from tocsin_server.core.models import Diagnosis, Evidence
from tocsin_server.detect.diagnosis import abrupt_causes, measurement_causes
from tocsin_server.detect.diagnosis.case import DiagnosisContext
from tocsin_server.detect.diagnosis.cause import Candidate, Cause
from tocsin_server.detect.diagnosis.causes import CANDIDATES
from tocsin_server.detect.diagnosis.remedies import fitting
from tocsin_server.detect.interface.layers import is_located, located, origin, origin_in
from tocsin_server.detect.interface.rule import INFO
from tocsin_server.detect.rules.catalog import infos, rule_causes

UNKNOWN = Cause("unknown", "No cause stands out in the records.", "", (), "")


@lru_cache(maxsize=1)
def candidates() -> tuple[Candidate, ...]:
    """Return all candidates by rank; within a rank, shared candidates come first."""
    ranked = sorted(
        [*CANDIDATES, *measurement_causes.CANDIDATES, *abrupt_causes.CANDIDATES, *rule_causes()],
        key=lambda item: item[0],
    )
    return tuple(candidate for _, candidate in ranked)


def explain(case: DiagnosisContext, reported: Diagnosis | None = None) -> Diagnosis:
    """Return the diagnosis of an alert; ``reported`` is the previous diagnosis of this episode."""
    found = [cause for cause in (candidate(case) for candidate in candidates()) if cause is not None]
    cause = found[0] if found else UNKNOWN
    diagnosis = Diagnosis(
        cause=cause.text,
        evidence=_evidence(case, cause),
        alternatives=_alternatives(cause, found[1:]),
        remedies=fitting(case, cause.remedies),
        how_to_confirm=cause.how_to_confirm,
        timeline=_timeline(case, cause),
    )
    return with_layers(diagnosis, case, reported)


def with_layers(diagnosis: Diagnosis, case: DiagnosisContext, reported: Diagnosis | None = None) -> Diagnosis:
    """Add the layer in which the episode started, if gradient norms of layers are known.

    A layer that was reported once is kept.

    Args:
        diagnosis: The diagnosis to extend.
        case: The data of the alert.
        reported: The previous diagnosis of this episode, or None.
    """
    if is_located(diagnosis):
        return diagnosis
    if (begun := origin_in(reported)) is None:
        begun = origin(case.context.layers, case.rule, case.subject, case.onset)
    return located(diagnosis, begun)


def kept(reported: Diagnosis, case: DiagnosisContext) -> Diagnosis:
    """Return the earlier diagnosis, made while the records before the onset were available, with new numbers.

    Once those records are dropped, the remaining ones would suggest a different cause.
    """
    own = tuple(Evidence(*fact) for fact in case.result.evidence)
    names = {item.name for item in own}
    unruled = {row for row in reported.timeline if not row[2]}
    rows = unruled | set(_chain(case))
    renewed = replace(
        reported,
        evidence=own + tuple(item for item in reported.evidence if item.name not in names),
        timeline=tuple(sorted(rows, key=in_order)),
    )
    return with_layers(renewed, case)


def _chain(case: DiagnosisContext) -> list[tuple[int, str, str]]:
    """Return onset, summary and rule of the timeline entries of the episode.

    These are this alert, all others above info, and the info findings that can be related to it. If a
    rule reports several series, the summary names the series.
    """
    members = [
        member
        for member in case.episode
        if member[0] == case.rule or member[2].severity > INFO or _bears_on(member[0], case.rule)
    ]
    counts = Counter(rule for rule, _, _ in members)
    return [
        (result.onset_step, f"{result.summary} ({name})" if counts[rule] > 1 else result.summary, rule)
        for rule, name, result in members
    ]


def _bears_on(rule: str, other: str) -> bool:
    bears_on = described.bears_on if (described := infos().get(rule)) is not None else None
    return bears_on is None or other in bears_on


def _evidence(case: DiagnosisContext, cause: Cause) -> tuple[Evidence, ...]:
    own = tuple(Evidence(*fact) for fact in case.result.evidence)
    names = {item.name for item in own}
    return own + tuple(item for item in cause.evidence if item.name not in names)


def _alternatives(cause: Cause, others: list[Cause]) -> tuple[str, ...]:
    names = {cause.name}
    texts: list[str] = []
    for other in others:
        if other.name not in names and other.short:
            names.add(other.name)
            texts.append(other.short[0].upper() + other.short[1:] + ".")
    return tuple(texts)


def _timeline(case: DiagnosisContext, cause: Cause) -> tuple[tuple[int, str, str], ...]:
    reported = _chain(case)
    if cause.onset is not None:
        reported.append((*cause.onset, ""))
    return tuple(sorted(set(reported), key=in_order))
