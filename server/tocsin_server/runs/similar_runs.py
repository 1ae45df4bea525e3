"""Similar runs of the same project, as facts for the rules: off the record path, every ten seconds.

Two runs are similar where they share their project and most of their configuration. What is told of
them enters a run by :meth:`Pipeline.tell` as an event of its own order, so that rules stay a
function of what is stored. Told at the run's first look, then at most every ten minutes, and
only where it changed.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tocsin_server.core.models import AlertState, RunState
from tocsin_server.detect.interface.similar_runs import KIND, MOST, Sibling, SiblingFacts
from tocsin_server.runs.pipeline import Pipeline
from tocsin_server.store.periodic_jobs import Round
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import RunFacts, SeriesLayer

POINTS = 64
"""Points of a loss curve."""
OVERLAP = 0.7
"""Share of the settings of both configurations that must be equal."""
AGAIN_NS = 600_000_000_000
"""After so long the facts of a run are looked at again."""
LEAVES = 1000
"""Settings of a configuration that are compared; later ones are not."""
FAILURES = ("nonfinite-loss", "nonfinite-grad-norm", "loss-divergence")
"""Rules whose open alert counts as a failure of a run that went on."""


def similar(one: RunFacts, other: RunFacts) -> bool:
    """Whether ``other`` may serve as a reference for ``one``."""
    if one.id == other.id or one.project != other.project or other.archived:
        return False
    mine, theirs = dict(leaves(one.config)), dict(leaves(other.config))
    if not mine or not theirs:
        return stem(one.name) == stem(other.name)
    equal = sum(1 for name, value in mine.items() if theirs.get(name) == value)
    return equal >= OVERLAP * len(mine.keys() | theirs.keys())


def leaves(config: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """(path, value) of the settings of a configuration, at most ``LEAVES``; lists count as one value."""
    items = config.items() if isinstance(config, Mapping) else ()
    for at, (name, value) in enumerate(items):
        if at >= LEAVES:
            return
        if isinstance(value, Mapping):
            yield from leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", repr(value)


_BETWEEN = " _-.:/#+=()[]"
"""What stands between a name and the number of its repetition."""


def stem(name: str) -> str:
    """A run's name without the numbers that tell its repetitions apart."""
    bare = name.rstrip("0123456789")
    return name if bare == name else bare.rstrip(_BETWEEN)


def sibling_of(facts: RunFacts, series: Mapping[str, Sequence[SeriesLayer]], failure: Any = None) -> Sibling:
    """What is told of one run: its loss curve, peak rate, pace, and where it failed."""
    steps, losses = curve(_primary(series.get("loss", ())))
    failed_step, reason = _failure(facts, failure)
    return Sibling(
        run_id=facts.id,
        name=facts.name,
        state=facts.state.value,
        steps=steps,
        losses=losses,
        peak_lr=_peak(_primary(series.get("lr", ()))),
        step_time_s=_middle(_primary(series.get("step_time", ()))),
        failed_step=failed_step,
        failure=reason,
    )


def curve(layer: SeriesLayer | None) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Steps, strictly rising, and the mean loss around each; what is not finite is left out."""
    if layer is None:
        return (), ()
    values = layer.first if layer.mean is None else layer.mean
    points: dict[int, float] = {}
    for step, value in zip(((layer.x + layer.x1) / 2).tolist(), values.tolist(), strict=True):
        if math.isfinite(value):
            points[int(step)] = value
    chosen = sorted(points)[:POINTS]
    return tuple(chosen), tuple(points[step] for step in chosen)


def _primary(layers: Sequence[SeriesLayer]) -> SeriesLayer | None:
    """The newest attempt's lowest rank: what the run was in the end."""
    return next(iter(layers), None)


def _peak(layer: SeriesLayer | None) -> float | None:
    values = None if layer is None else layer.first if layer.max is None else layer.max
    finite = [] if values is None else values[np.isfinite(values)].tolist()
    return max(finite, default=None)


def _middle(layer: SeriesLayer | None) -> float | None:
    values = None if layer is None else layer.first if layer.mean is None else layer.mean
    finite = [] if values is None else sorted(values[np.isfinite(values)].tolist())
    return finite[len(finite) // 2] if finite else None


def _failure(facts: RunFacts, alert: Any) -> tuple[int | None, str]:
    if facts.state is RunState.FAILED:
        error = facts.error if isinstance(facts.error, Mapping) else {}
        return facts.last_step, str(error.get("type") or "failed")
    return (alert.onset_step, alert.rule) if alert is not None else (None, "")


@dataclass(frozen=True)
class Survey:
    """Every run as it is stored, and the siblings that one look has read so far."""

    stored: Mapping[str, RunFacts]
    newest: Sequence[RunFacts]
    made: dict[str, Sibling] = field(default_factory=dict)


class Siblings:
    """Keeps the runs in memory told of similar runs."""

    def __init__(
        self,
        pipeline: Pipeline,
        reader: StoreReader,
        *,
        work: Round | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.work = work or Round("siblings")
        self._pipeline = pipeline
        self._reader = reader
        self._clock = clock
        self._told: dict[str, tuple[int, SiblingFacts]] = {}
        """By run in memory: when it was looked at, and what it was told."""

    async def look(self) -> None:
        """Tells every run that is due what has changed of its siblings."""
        active = self._pipeline.roster.active
        self._told = {run_id: told for run_id, told in self._told.items() if run_id in active}
        due = [run_id for run_id, run in active.items() if not run.state.ended and self._is_due(run_id, run)]
        if not due:
            return
        survey = await asyncio.to_thread(self._survey)
        for run_id in due:
            with self.work.isolated(f"run {run_id}"):
                self._tell(run_id, await asyncio.to_thread(self._gather, run_id, survey))

    def _tell(self, run_id: str, facts: SiblingFacts) -> None:
        before = self._told.get(run_id, (0, SiblingFacts()))[1]
        self._told[run_id] = (self._clock(), facts)
        if facts != before:
            self._pipeline.tell(run_id, KIND, facts.plain())

    def _is_due(self, run_id: str, run: Any) -> bool:
        if self.work.rests(f"run {run_id}"):
            return False
        told = self._told.get(run_id)
        return run.board.last_step is not None and (told is None or self._clock() - told[0] >= AGAIN_NS)

    def _survey(self) -> Survey:
        stored = {facts.id: facts for facts in self._reader.runs()}
        return Survey(stored, sorted(stored.values(), key=lambda facts: (-facts.created_ns, facts.id)))

    def _gather(self, run_id: str, survey: Survey) -> SiblingFacts:
        """Reads, in a thread, what is to be told of a run's siblings, the newest first.

        A sibling that cannot be read is no reference.
        """
        mine = survey.stored.get(run_id)
        alike = [other for other in survey.newest if mine is not None and similar(mine, other)][:MOST]
        for other in alike:
            subject = f"run {other.id} as a sibling"
            if other.id not in survey.made and not self.work.rests(subject):
                with self.work.isolated(subject):
                    survey.made[other.id] = self._read(other)
        return SiblingFacts(tuple(survey.made[other.id] for other in alike if other.id in survey.made))

    def _read(self, facts: RunFacts) -> Sibling:
        answer = self._reader.series(facts.id, ["loss", "lr", "step_time"], buckets=POINTS)
        open_alerts = self._reader.alerts(facts.id, (AlertState.FIRING,), limit=100)
        failed = [stored.alert for stored in open_alerts if stored.alert.rule in FAILURES]
        return sibling_of(facts, answer.series, min(failed, key=lambda alert: alert.onset_ns, default=None))


async def watch_siblings(siblings: Siblings, *, interval_s: float = 10.0) -> None:
    """Looks every ``interval_s`` until it is cancelled."""
    await siblings.work.keep(siblings.look, interval_s)
