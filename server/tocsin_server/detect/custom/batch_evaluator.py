"""Evaluate custom rules on batches, for the series of one process or of the whole run.

Results depend only on the records in their order, not on how they are split into batches. A run without
custom rules has no overhead. At most ``MOST`` pairs of rule and series are evaluated per process;
further ones are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from tocsin_server.core.models import Column, RecordBatch
from tocsin_server.detect.custom import glob
from tocsin_server.detect.custom.series_evaluator import SeriesEvaluator, gap
from tocsin_server.detect.custom.span import Moment
from tocsin_server.detect.custom.threshold import COMPARISONS, CustomRule
from tocsin_server.detect.interface.description import RuleInfo
from tocsin_server.detect.interface.rule import Episode, RuleResult
from tocsin_server.detect.interface.view import split_name

MOST = 1000
Key = tuple[str, str]
"""Rule and series."""
SCOPE, RUN_SCOPE = "watch", "watch-run"


@dataclass(frozen=True, slots=True)
class RuleRef:
    """The rule that a result belongs to: its ``info`` and the series it is about."""

    info: RuleInfo
    subject: str


def rule_ref_of(rule: CustomRule, series: str) -> RuleRef:
    """Return the reference of a rule for a series."""
    scope = RUN_SCOPE if rule.is_absence else SCOPE
    return RuleRef(RuleInfo(rule.id, rule.title or rule.id, rule.severity, scope=scope), series)


Emission = tuple[RuleRef, RuleResult]


class SavedBatchEvaluator(msgspec.Struct):
    """The evaluators of one process, in a snapshot."""

    evaluators: list[tuple[Key, SeriesEvaluator]] = []
    inherited_episodes: list[tuple[Key, Episode]] = []


class BatchEvaluator:
    """Evaluates the custom rules on the series of one process."""

    def __init__(self, rules: Sequence[CustomRule]) -> None:
        self.rules = [rule for rule in rules if not rule.is_absence]
        self.evaluators: dict[Key, SeriesEvaluator] = {}
        self.inherited_episodes: dict[Key, Episode] = {}
        """Open episodes of the previous attempt, for series that do not exist yet."""
        self._meant: dict[str, list[CustomRule]] = {}

    def take(self, batch: RecordBatch) -> list[Emission]:
        """Evaluate a batch and return the new results, series by series."""
        emitted: list[Emission] = []
        moments: list[Moment] = []
        for name, column in batch.columns.items():
            for rule in self._rules_on(name):
                evaluator = self._evaluator(rule, name)
                if evaluator is None or _calm(rule, evaluator, column):
                    continue
                moments = moments or list(zip(batch.step.tolist(), batch.time_ns.tolist(), strict=True))
                for row, value in _values(column):
                    result = evaluator.take(rule, name, row, moments[row], value)
                    if result is not None:
                        emitted.append((rule_ref_of(rule, name), result))
        return emitted

    def _rules_on(self, name: str) -> list[CustomRule]:
        found = self._meant.get(name)
        if found is None:
            found = [rule for rule in self.rules if glob.matches(rule.series, name)]
            if len(self._meant) < MOST:
                self._meant[name] = found
        return found

    def _evaluator(self, rule: CustomRule, name: str) -> SeriesEvaluator | None:
        key = rule.id, name
        known = self.evaluators.get(key)
        if known is None and len(self.evaluators) < MOST:
            known = self.evaluators[key] = SeriesEvaluator()
            known.episode = self.inherited_episodes.pop(key, known.episode)
        return known

    def change(self, rules: Sequence[CustomRule], reset: frozenset[str]) -> None:
        """Apply other rules from here on; rules in ``reset`` and removed ones lose their state."""
        self.rules = [rule for rule in rules if not rule.is_absence]
        self._meant = {}
        kept = {rule.id for rule in self.rules} - reset
        self.evaluators = {key: evaluator for key, evaluator in self.evaluators.items() if key[0] in kept}
        self.inherited_episodes = {
            key: episode for key, episode in self.inherited_episodes.items() if key[0] in kept
        }

    def let_go(self, key: Key) -> Episode | None:
        """Remove and return an open episode, or None if there is none."""
        known = self.evaluators.get(key)
        return (
            known.let_go()
            if known is not None and known.episode.state
            else self.inherited_episodes.pop(key, None)
        )

    def close(self) -> None:
        """Drop all open episodes at the end of the run."""
        for evaluator in self.evaluators.values():
            evaluator.let_go()
        self.inherited_episodes = {}

    def save(self) -> SavedBatchEvaluator:
        """Return the state for a snapshot."""
        return SavedBatchEvaluator(list(self.evaluators.items()), list(self.inherited_episodes.items()))

    def load(self, saved: SavedBatchEvaluator) -> None:
        """Restore the state from a snapshot."""
        known = {rule.id for rule in self.rules}
        self.evaluators = {key: evaluator for key, evaluator in saved.evaluators if key[0] in known}
        self.inherited_episodes = {
            key: episode for key, episode in saved.inherited_episodes if key[0] in known
        }


def _calm(rule: CustomRule, evaluator: SeriesEvaluator, column: Column) -> bool:
    """Return whether no value of the column can change the result: the evaluator is idle and nothing holds.

    This is only used if just the newest value counts (NaN never holds, as in :class:`SeriesEvaluator`),
    or if non-finite values are counted and neither the window nor the column has any.
    """
    if not evaluator.idle():
        return False
    if rule.reducer == "nonfinite":
        clean = evaluator.window is None or not evaluator.window.bad
        return clean and not rule.holds(0.0) and bool(np.isfinite(column.v).all())
    if rule.reducer != "value":
        return False
    if rule.comparison in ("==", "!="):
        held = column.v == rule.limit if rule.comparison == "==" else column.v != rule.limit
    else:
        held = COMPARISONS[rule.comparison](column.v, rule.limit)
    # A step that goes back is ignored here: an idle rule without a window has no state to reset.
    return not bool(np.any(held))


def _values(column: Column) -> Iterator[tuple[int, float]]:
    rows = range(column.v.size) if column.at is None else column.at.tolist()
    return zip(rows, column.v.tolist(), strict=True)


class Absence(msgspec.Struct):
    """How long a rule's series has had no value, over all processes."""

    seen: Moment
    evaluator: SeriesEvaluator = msgspec.field(default_factory=SeriesEvaluator)


class SavedAbsences(msgspec.Struct):
    """The evaluators of absence rules, in a snapshot."""

    attempt: int = 0
    newest: dict[int, int] = {}
    absences: dict[str, Absence] = {}


class AbsenceEvaluator:
    """The rules about missing series: one instance per run, which sees the records of all processes."""

    def __init__(self, rules: Sequence[CustomRule]) -> None:
        self.rules = [rule for rule in rules if rule.is_absence]
        self.attempt = 0
        self.newest: dict[int, int] = {}
        """The newest step of each process of the newest attempt; if it goes back, the wait starts again."""
        self.absences: dict[str, Absence] = {}

    def take(self, batch: RecordBatch) -> list[Emission]:
        """Evaluate a batch and return the new results."""
        if not self.rules or batch.writer.attempt_no < self.attempt:
            return []
        moments = list(zip(batch.step.tolist(), batch.time_ns.tolist(), strict=True))
        if batch.writer.attempt_no > self.attempt:
            self._begin(batch.writer.attempt_no, moments[0])
        reset = self._rewinds(batch, [step for step, _ in moments])
        emitted: list[Emission] = []
        for rule in self.rules:
            emitted += self._of(rule, batch, moments, reset)
        return emitted

    def _begin(self, attempt: int, at: Moment) -> None:
        self.attempt, self.newest = attempt, {}
        for absence in self.absences.values():
            absence.seen = at
            absence.evaluator.discontinuity()

    def _rewinds(self, batch: RecordBatch, steps: list[int]) -> set[int]:
        """Return the rows at which training steps go back; late evaluations do not count."""
        rows = set[int]()
        newest = self.newest.get(batch.writer.writer_no)
        for row in sorted(_training_rows(batch)):
            if newest is not None and steps[row] < newest:
                rows.add(row)
            newest = steps[row]
        if newest is not None:
            self.newest[batch.writer.writer_no] = newest
        return rows

    def _of(
        self, rule: CustomRule, batch: RecordBatch, moments: list[Moment], reset: set[int]
    ) -> Iterator[Emission]:
        absence = self.absences.get(rule.id)
        if absence is None:
            absence = self.absences[rule.id] = Absence(moments[0])
        there = _rows_with(rule, batch)
        for row, now in enumerate(moments):
            if row in reset:
                absence.evaluator.discontinuity()
            if row in reset or row in there:
                absence.seen = now
            value = 1.0 if gap(rule.window, absence.seen, now) else 0.0
            result = absence.evaluator.evaluate(rule, rule.series, row, now, value)
            if result is not None:
                yield rule_ref_of(rule, rule.series), result

    def change(self, rules: Sequence[CustomRule], reset: frozenset[str]) -> None:
        """Apply other rules from here on; see :meth:`BatchEvaluator.change`."""
        self.rules = [rule for rule in rules if rule.is_absence]
        kept = {rule.id for rule in self.rules} - reset
        self.absences = {key: absence for key, absence in self.absences.items() if key in kept}

    def close(self) -> None:
        """Drop all open episodes at the end of the run."""
        for absence in self.absences.values():
            absence.evaluator.let_go()

    def save(self) -> SavedAbsences:
        """Return the state for a snapshot."""
        return SavedAbsences(self.attempt, self.newest, self.absences)

    def load(self, saved: SavedAbsences) -> None:
        """Restore the state from a snapshot."""
        known = {rule.id for rule in self.rules}
        self.attempt, self.newest = saved.attempt, saved.newest
        self.absences = {key: absence for key, absence in saved.absences.items() if key in known}


def _rows_with(rule: CustomRule, batch: RecordBatch) -> set[int]:
    """Return the rows of a batch that have a value of the rule's series, NaN included."""
    return _rows_of(batch, [name for name in batch.columns if glob.matches(rule.series, name)])


def _training_rows(batch: RecordBatch) -> set[int]:
    """Return the rows of a batch that have a signal of an optimizer."""
    return _rows_of(batch, [name for name in batch.columns if split_name(name) is not None])


def _rows_of(batch: RecordBatch, names: list[str]) -> set[int]:
    rows: set[int] = set()
    for name in names:
        at = batch.columns[name].at
        rows.update(range(batch.n) if at is None else at.tolist())
    return rows
