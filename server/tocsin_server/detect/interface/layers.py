"""Locate the layer in which a problem started, from the gradient norms in ``layers`` events.

A non-finite gradient propagates from where it first appears towards the input. Of the layers that have
one, the last in the model's order is nearest to the loss, so the problem started there. If all layers
become non-finite at once, it came from the loss and no layer is at fault.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

from tocsin_server.core.causal_order import in_order
from tocsin_server.core.models import Diagnosis, Evidence
from tocsin_server.detect.interface.formatting import count, number

NAMES, VECTORS = "layer-names", "layers"
"""Kinds of events."""
KEPT = 32
"""Number of vectors kept."""
TABLES, PLACES = 16, 1024
"""Number of name tables kept, and the maximum length of a vector; the rest is dropped."""
LONGEST = 256
"""Maximum number of characters kept of a name."""
USUAL = 3
"""Minimum number of vectors that define a layer's usual level."""
GREW, RISING = 4.0, 2.0
"""Multiples of the usual level: enough growth to report, and where rising starts."""
FACTS = ("layer", "layers not finite", "layer growth")
"""Names of the evidence created in this module."""
OPENING = "Gradients of "
"""Prefix of every sentence created in this module."""
LOCATED = frozenset(
    {"nonfinite-loss", "nonfinite-grad-norm", "scaler-overflow-burst", "scaler-collapse", "scaler-at-floor",
     "nonfinite-weights", "grad-explosion", "grad-precursor", "loss-spike", "loss-divergence"}
)  # fmt: skip
"""Rules whose diagnosis names a layer."""


@dataclass(frozen=True, slots=True)
class LayerVector:
    """Gradient norms by layer at one step of the optimizer ``series`` (``""``: the primary one).

    A negative norm means that the layer has no gradient.
    """

    series: str
    table: int
    step: int
    norms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LayerNorms:
    """The newest vectors of a run, and the layer names by (series, table)."""

    names: Mapping[tuple[str, int], tuple[str, ...]]
    vectors: tuple[LayerVector, ...]

    def learn(self, kind: str, step: int | None, data: Mapping[str, Any]) -> LayerNorms:
        """Return the norms including those of an event; malformed events change nothing.

        Args:
            kind: Kind of the event: ``layer-names`` or ``layers``.
            step: Step of the event, or None.
            data: Data of the event (docs/internals/protocol.md).
        """
        key = (str(data.get("series", ""))[:LONGEST], _whole(data.get("table")))
        if kind == NAMES:
            return self._named(key, data.get("names"))
        norms = norms_of(data.get("norms"))
        if step is None or norms is None or len(norms) != len(self.names.get(key, ())):
            return self
        vector = LayerVector(*key, step, norms)
        return replace(self, vectors=(*self.vectors, vector)[-KEPT:])

    def _named(self, key: tuple[str, int], names: Any) -> LayerNorms:
        if not isinstance(names, (list, tuple)) or not 0 < len(names) <= PLACES:
            return self
        others = {known: reported for known, reported in self.names.items() if known != key}
        kept = tuple(str(name)[:LONGEST] for name in names)
        names_by_key = dict(list(others.items())[1 - TABLES :]) | {key: kept}
        vectors = tuple(one for one in self.vectors if (one.series, one.table) != key)
        return LayerNorms(names_by_key, vectors)

    def plain(self) -> dict[str, Any]:
        """Return plain data for a snapshot."""
        return {
            "names": [[*key, list(names)] for key, names in self.names.items()],
            "vectors": [
                [one.series, one.table, one.step, np.array(one.norms, "<f4").tobytes()]
                for one in self.vectors
            ],
        }

    @classmethod
    def from_plain(cls, saved: Mapping[str, Any]) -> LayerNorms:
        """Return the norms from the data that ``plain`` returned; empty data give no norms."""
        names = {(series, table): tuple(reported) for series, table, reported in saved.get("names", ())}
        vectors = tuple(
            LayerVector(series, table, step, _floats(norms))
            for series, table, step, norms in saved.get("vectors", ())
        )
        return cls(names, vectors)


def norms_of(packed: Any) -> tuple[float, ...] | None:
    """Decode ``{"dtype": "f4", "bdata": base64}``, little-endian; return None for anything else."""
    if not isinstance(packed, Mapping) or packed.get("dtype") != "f4":
        return None
    try:
        body = base64.b64decode(str(packed.get("bdata", "")), validate=True)
    except (binascii.Error, ValueError):
        return None
    return _floats(body) if len(body) % 4 == 0 and len(body) <= 4 * PLACES else None


def _floats(body: bytes) -> tuple[float, ...]:
    return tuple(np.frombuffer(body, "<f4").astype(np.float64).tolist())


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


@dataclass(frozen=True, slots=True)
class Origin:
    """Evidence and timeline rows about the layers of an episode."""

    timeline: tuple[tuple[int, str, str], ...]
    evidence: tuple[Evidence, ...]


def located(diagnosis: Diagnosis, origin: Origin | None) -> Diagnosis:
    """Return the diagnosis extended with the evidence and timeline rows of ``origin``."""
    if origin is None:
        return diagnosis
    timeline = sorted({*diagnosis.timeline, *origin.timeline}, key=in_order)
    return replace(diagnosis, evidence=diagnosis.evidence + origin.evidence, timeline=tuple(timeline))


def is_located(diagnosis: Diagnosis) -> bool:
    """Return whether the diagnosis names where the problem started."""
    return any(item.name in FACTS for item in diagnosis.evidence)


def origin_in(diagnosis: Diagnosis | None) -> Origin | None:
    """Return the layer evidence of a diagnosis, or None.

    It is kept after the vectors that it was derived from have been dropped.
    """
    if diagnosis is None or not is_located(diagnosis):
        return None
    timeline = tuple(row for row in diagnosis.timeline if not row[2] and row[1].startswith(OPENING))
    return Origin(timeline, tuple(item for item in diagnosis.evidence if item.name in FACTS))


def origin(norms: LayerNorms, rule: str, subject: str, onset: int) -> Origin | None:
    """Return the layer in which an episode originated, or None if unknown.

    Args:
        norms: The newest gradient norms by layer.
        rule: Identifier of the rule that fired.
        subject: Series that the alert is about, such as ``loss/D``.
        onset: First step of the episode.
    """
    if rule not in LOCATED:
        return None
    suffix = subject.partition("/")[2]
    mine = [one for one in norms.vectors if one.series == suffix] or [
        one for one in norms.vectors if not one.series
    ]
    mine.sort(key=lambda one: one.step)
    first = next((one for one in mine if one.step >= onset and _bad(one)), None)
    newest = first or next((one for one in mine if one.step >= onset), None)
    if newest is None:
        return None
    names = norms.names[newest.series, newest.table]
    alike = [one for one in mine if one.table == newest.table and one.step <= newest.step and not _bad(one)]
    begun = _nonfinite(first, names) if first is not None else None
    return _together(begun, _growth(alike, names, begun))


def _bad(vector: LayerVector) -> bool:
    return not all(map(math.isfinite, vector.norms))


@dataclass(frozen=True, slots=True)
class _Origin:
    step: int
    sentence: str
    evidence: tuple[Evidence, ...]
    place: int | None = None


def _nonfinite(vector: LayerVector, names: Sequence[str]) -> _Origin:
    """Return the layers that are non-finite, and the one of them that is nearest to the loss."""
    bad = [place for place, norm in enumerate(vector.norms) if not math.isfinite(norm)]
    total = sum(not norm < 0 for norm in vector.norms)
    share = Evidence("layers not finite", float(len(bad)), f"of {total}", vector.step)
    if len(bad) == total:
        text = f"{OPENING}all {count(total, 'layer')} become non-finite at once, so the loss is the origin"
        return _Origin(vector.step, text, (share,))
    name = names[bad[-1]]
    text = (
        f"{OPENING}{name} become non-finite first ({number(vector.norms[bad[-1]])}), with "
        f"{len(bad) - 1} of the {count(bad[-1], 'layer')} before it; those nearer to the loss "
        "are finite"
    )
    return _Origin(vector.step, text, (Evidence("layer", name, "", vector.step), share), bad[-1])


def _growth(vectors: Sequence[LayerVector], names: Sequence[str], begun: _Origin | None) -> _Origin | None:
    """Return the layer whose gradients grew most, and since when; prefer the layer of ``begun``."""
    if len(vectors) <= USUAL:
        return None
    early = vectors[: max(USUAL, len(vectors) // 2)]
    usual = [_usual(norms) for norms in zip(*(vector.norms for vector in early), strict=True)]
    ratios = [
        last / level if level and last > 0 else 0.0
        for level, last in zip(usual, vectors[-1].norms, strict=True)
    ]
    place = max(range(len(ratios)), key=lambda at: (ratios[at], -at))
    if begun is not None and begun.place is not None and ratios[begun.place] >= GREW:
        place = begun.place
    level = usual[place]
    if ratios[place] < GREW:
        return None
    since = vectors[-1].step
    for vector in reversed(vectors):
        if vector.norms[place] < RISING * level:
            break
        since = vector.step
    times, last = number(round(ratios[place], 1)), vectors[-1].norms[place]
    text = f"{OPENING}{names[place]} grow {times}x, {number(level)} → {number(last)}"
    facts = (Evidence("layer growth", ratios[place], "times", since),)
    named = begun is not None and begun.place == place
    return _Origin(since, text, facts if named else (Evidence("layer", names[place], "", since), *facts))


def _usual(norms: Sequence[float]) -> float:
    """Return the median of the norms above 0, or 0 if there are none."""
    above = [norm for norm in norms if norm > 0]
    return median(above) if above else 0.0


def _together(begun: _Origin | None, grown: _Origin | None) -> Origin | None:
    origins = [one for one in (begun, grown) if one is not None]
    if not origins:
        return None
    environment: dict[str, Evidence] = {}
    for one in origins:
        for fact in one.evidence:
            environment.setdefault(fact.name, fact)
    return Origin(tuple((one.step, one.sentence, "") for one in origins), tuple(environment.values()))
