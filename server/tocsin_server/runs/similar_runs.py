"""Provide similar runs of the same project to the rules; off the record path, every ten seconds.

Two runs are similar if they share their project and most of their configuration. The data of similar runs are
added to a run as a server event, so that rules remain a function of what is stored. They are added after the
run's first step, then at most every ten minutes and only if they changed.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from tocsin_server.core.models import AlertState, RunState
from tocsin_server.core.run_changes import stem, texts_of
from tocsin_server.detect.interface.similar_runs import KIND, MOST, SimilarRun, SimilarRuns
from tocsin_server.runs.pipeline import Pipeline
from tocsin_server.store.periodic_jobs import PeriodicJob
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import SeriesLayer, StoredRun

POINTS = 64
"""Number of points of a loss curve."""
OVERLAP = 0.7
"""Share of the settings in both configurations that must be equal."""
AGAIN_NS = 600_000_000_000
"""Interval after which the similar runs of a run are read again."""
FAILURES = ("nonfinite-loss", "nonfinite-grad-norm", "loss-divergence")
"""Rules whose open alert counts as a failure of a run that continued."""


def similar(
    one: StoredRun, other: StoredRun, texts: Callable[[StoredRun], Mapping[str, str]] | None = None
) -> bool:
    """Return whether ``other`` can serve as a reference for ``one``.

    Args:
        one: A run.
        other: Another run.
        texts: Returns the settings of a run as text; computed if None.
    """
    if one.id == other.id or one.project != other.project or other.archived:
        return False
    mine, theirs = map(texts or settings_of, (one, other))
    if not mine or not theirs:
        return stem(one.name) == stem(other.name)
    equal = sum(1 for name, value in mine.items() if theirs.get(name) == value)
    return equal >= OVERLAP * len(mine.keys() | theirs.keys())


def settings_of(stored: StoredRun) -> dict[str, str]:
    """Return the configuration of a run as text, by path."""
    return texts_of(stored.config)


def sibling_of(
    stored: StoredRun, series: Mapping[str, Sequence[SeriesLayer]], failure: Any = None
) -> SimilarRun:
    """Return the reference data of one run: loss curve, peak learning rate, step time, and its failure."""
    steps, losses = curve(_primary(series.get("loss", ())))
    failed_step, reason = _failure(stored, failure)
    return SimilarRun(
        run_id=stored.id,
        name=stored.name,
        state=stored.state.value,
        steps=steps,
        losses=losses,
        peak_lr=_peak(_primary(series.get("lr", ()))),
        step_time_s=_middle(_primary(series.get("step_time", ()))),
        failed_step=failed_step,
        failure=reason,
    )


def curve(layer: SeriesLayer | None) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return strictly increasing steps and the mean loss around each; non-finite means are left out."""
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
    """Return the layer of the newest attempt's lowest rank, or None."""
    return next(iter(layers), None)


def _peak(layer: SeriesLayer | None) -> float | None:
    values = None if layer is None else layer.first if layer.max is None else layer.max
    finite = [] if values is None else values[np.isfinite(values)].tolist()
    return max(finite, default=None)


def _middle(layer: SeriesLayer | None) -> float | None:
    values = None if layer is None else layer.first if layer.mean is None else layer.mean
    finite = [] if values is None else sorted(values[np.isfinite(values)].tolist())
    return finite[len(finite) // 2] if finite else None


def _failure(stored: StoredRun, alert: Any) -> tuple[int | None, str]:
    if stored.state is RunState.FAILED:
        error = stored.error if isinstance(stored.error, Mapping) else {}
        return stored.last_step, str(error.get("type") or "failed")
    return (alert.onset_step, alert.rule) if alert is not None else (None, "")


@dataclass(frozen=True)
class Survey:
    """All stored runs, and the similar runs that were read during one look."""

    stored: Mapping[str, StoredRun]
    newest: Sequence[StoredRun]
    made: dict[str, SimilarRun] = field(default_factory=dict)
    _texts: dict[str, dict[str, str]] = field(default_factory=dict)

    def similar_to(self, mine: StoredRun) -> Iterator[StoredRun]:
        """Yield the runs that are similar to one, newest first."""
        return (other for other in self.newest if similar(mine, other, self._settings))

    def _settings(self, stored: StoredRun) -> Mapping[str, str]:
        """Return :func:`settings_of`, computed once per look: it is compared with that of every other run."""
        found = self._texts.get(stored.id)
        if found is None:
            found = self._texts[stored.id] = settings_of(stored)
        return found


class SimilarRunFinder:
    """Keep the runs in memory updated about similar runs."""

    def __init__(
        self,
        pipeline: Pipeline,
        reader: StoreReader,
        *,
        work: PeriodicJob | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.work = work or PeriodicJob("siblings")
        self._pipeline = pipeline
        self._reader = reader
        self._clock = clock
        self._published: dict[str, tuple[int, SimilarRuns]] = {}
        """Run id -> when it was updated last, and with what."""

    async def look(self) -> None:
        """Update every run that is due if its similar runs changed."""
        active = self._pipeline.registry.active
        self._published = {
            run_id: reported for run_id, reported in self._published.items() if run_id in active
        }
        due = [run_id for run_id, run in active.items() if not run.state.ended and self._is_due(run_id, run)]
        if not due:
            return
        survey = await asyncio.to_thread(self._survey)
        for run_id in due:
            with self.work.isolated(f"run {run_id}"):
                self._publish(run_id, await asyncio.to_thread(self._collect, run_id, survey))

    def _publish(self, run_id: str, similar_runs: SimilarRuns) -> None:
        before = self._published.get(run_id, (0, SimilarRuns()))[1]
        self._published[run_id] = (self._clock(), similar_runs)
        if similar_runs != before:
            self._pipeline.changes.add_event(run_id, KIND, similar_runs.plain())

    def _is_due(self, run_id: str, run: Any) -> bool:
        if self.work.rests(f"run {run_id}"):
            return False
        reported = self._published.get(run_id)
        return run.summary.last_step is not None and (
            reported is None or self._clock() - reported[0] >= AGAIN_NS
        )

    def _survey(self) -> Survey:
        stored = {stored_run.id: stored_run for stored_run in self._reader.runs()}
        return Survey(
            stored, sorted(stored.values(), key=lambda stored_run: (-stored_run.created_ns, stored_run.id))
        )

    def _collect(self, run_id: str, survey: Survey) -> SimilarRuns:
        """Read the similar runs of a run in a thread, newest first.

        Runs that cannot be read are left out.
        """
        mine = survey.stored.get(run_id)
        alike = [] if mine is None else list(islice(survey.similar_to(mine), MOST))
        for other in alike:
            subject = f"run {other.id} as a similar run"
            if other.id not in survey.made and not self.work.rests(subject):
                with self.work.isolated(subject):
                    survey.made[other.id] = self._read(other)
        return SimilarRuns(tuple(survey.made[other.id] for other in alike if other.id in survey.made))

    def _read(self, stored_run: StoredRun) -> SimilarRun:
        answer = self._reader.series(stored_run.id, ["loss", "lr", "step_time"], buckets=POINTS)
        open_alerts = self._reader.alerts(stored_run.id, (AlertState.FIRING,), limit=100)
        failed = [stored.alert for stored in open_alerts if stored.alert.rule in FAILURES]
        return sibling_of(
            stored_run, answer.series, min(failed, key=lambda alert: alert.onset_ns, default=None)
        )


async def poll_similar_runs(siblings: SimilarRunFinder, *, interval_s: float = 10.0) -> None:
    """Look for similar runs every ``interval_s`` until cancelled."""
    await siblings.work.keep(siblings.look, interval_s)
