"""Rules of people over batches: which of them watch which series, of one process or of the whole run.

Pure, like all of ``detect``: a function of the records in their order, however they are cut. A run without
such rules has no watch and pays nothing. Bound: ``MOST`` pairs of rule and series a process; later ones are
not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from tocsin_server.core.models import Column, RecordBatch
from tocsin_server.detect.custom import glob
from tocsin_server.detect.custom.series_evaluator import Watcher, gap
from tocsin_server.detect.custom.span import Moment
from tocsin_server.detect.custom.threshold import COMPARISONS, UserRule
from tocsin_server.detect.interface.rule import Episode, RuleInfo, Verdict
from tocsin_server.detect.interface.view import split_name

MOST = 1000
Key = tuple[str, str]
"""Rule and series."""
SCOPE, RUN_SCOPE = "watch", "watch-run"


@dataclass(frozen=True, slots=True)
class Voice:
    """Who says a verdict, as the engine knows rules: its ``info`` and the series it is about."""

    info: RuleInfo
    subject: str


def voice_of(rule: UserRule, series: str) -> Voice:
    """The voice of a rule about a series."""
    scope = RUN_SCOPE if rule.is_absence else SCOPE
    return Voice(RuleInfo(rule.id, rule.title or rule.id, rule.severity, scope=scope), series)


Spoken = tuple[Voice, Verdict]


class SavedWatch(msgspec.Struct):
    """A watch in a snapshot."""

    watchers: list[tuple[Key, Watcher]] = []
    heirlooms: list[tuple[Key, Episode]] = []


class Watch:
    """The rules on the series of one process. Steps and times of a batch are shared by all of them."""

    def __init__(self, rules: Sequence[UserRule]) -> None:
        self.rules = [rule for rule in rules if not rule.is_absence]
        self.watchers: dict[Key, Watcher] = {}
        self.heirlooms: dict[Key, Episode] = {}
        """Open episodes of the attempt before, for series that are yet to come."""
        self._meant: dict[str, list[UserRule]] = {}

    def take(self, batch: RecordBatch) -> list[Spoken]:
        """What the rules say of a batch, series by series."""
        spoken: list[Spoken] = []
        moments: list[Moment] = []
        for name, column in batch.columns.items():
            for rule in self._rules_on(name):
                watcher = self._watcher(rule, name)
                if watcher is None or _quiet(rule, watcher, column):
                    continue
                moments = moments or list(zip(batch.step.tolist(), batch.time_ns.tolist(), strict=True))
                for row, value in _values(column):
                    verdict = watcher.take(rule, name, row, moments[row], value)
                    if verdict is not None:
                        spoken.append((voice_of(rule, name), verdict))
        return spoken

    def _rules_on(self, name: str) -> list[UserRule]:
        found = self._meant.get(name)
        if found is None:
            found = [rule for rule in self.rules if glob.matches(rule.series, name)]
            if len(self._meant) < MOST:
                self._meant[name] = found
        return found

    def _watcher(self, rule: UserRule, name: str) -> Watcher | None:
        key = rule.id, name
        known = self.watchers.get(key)
        if known is None and len(self.watchers) < MOST:
            known = self.watchers[key] = Watcher()
            known.episode = self.heirlooms.pop(key, known.episode)
        return known

    def change(self, rules: Sequence[UserRule], anew: frozenset[str]) -> None:
        """Other rules from here on; those of ``anew``, and those that are gone, forget what they know."""
        self.rules = [rule for rule in rules if not rule.is_absence]
        self._meant = {}
        kept = {rule.id for rule in self.rules} - anew
        self.watchers = {key: watcher for key, watcher in self.watchers.items() if key[0] in kept}
        self.heirlooms = {key: episode for key, episode in self.heirlooms.items() if key[0] in kept}

    def let_go(self, key: Key) -> Episode | None:
        """Gives away an open episode; None where there is none."""
        known = self.watchers.get(key)
        return known.let_go() if known is not None and known.episode.state else self.heirlooms.pop(key, None)

    def close(self) -> None:
        """The run has ended: nothing is open any more."""
        for watcher in self.watchers.values():
            watcher.let_go()
        self.heirlooms = {}

    def save(self) -> SavedWatch:
        """All that is remembered."""
        return SavedWatch(list(self.watchers.items()), list(self.heirlooms.items()))

    def load(self, saved: SavedWatch) -> None:
        """Goes on from a snapshot."""
        known = {rule.id for rule in self.rules}
        self.watchers = {key: watcher for key, watcher in saved.watchers if key[0] in known}
        self.heirlooms = {key: episode for key, episode in saved.heirlooms if key[0] in known}


def _quiet(rule: UserRule, watcher: Watcher, column: Column) -> bool:
    """Whether no value of the column can change anything: nothing is under way, and none of them holds.

    Only where the newest value is all that is looked at (NaN holds nowhere, as in the watcher itself), and
    where non-finite values are counted, there are none in the window, and none came.
    """
    if not watcher.idle():
        return False
    if rule.reducer == "nonfinite":
        clean = watcher.window is None or not watcher.window.bad
        return clean and not rule.holds(0.0) and bool(np.isfinite(column.v).all())
    if rule.reducer != "value":
        return False
    if rule.comparison in ("==", "!="):
        held = column.v == rule.limit if rule.comparison == "==" else column.v != rule.limit
    else:
        held = COMPARISONS[rule.comparison](column.v, rule.limit)
    # Steps that went back would be a seam: of an idle rule without a window nothing is lost by not seeing it.
    return not bool(np.any(held))


def _values(column: Column) -> Iterator[tuple[int, float]]:
    rows = range(column.v.size) if column.at is None else column.at.tolist()
    return zip(rows, column.v.tolist(), strict=True)


class Absence(msgspec.Struct):
    """Since when no value has come of one rule's series, over all processes."""

    seen: Moment
    watcher: Watcher = msgspec.field(default_factory=Watcher)


class SavedAbsences(msgspec.Struct):
    """The watch for what does not come, in a snapshot."""

    attempt: int = 0
    newest: dict[int, int] = {}
    absences: dict[str, Absence] = {}


class AbsenceWatch:
    """The rules about series that do not come: one instance a run, told of every record of any process."""

    def __init__(self, rules: Sequence[UserRule]) -> None:
        self.rules = [rule for rule in rules if rule.is_absence]
        self.attempt = 0
        self.newest: dict[int, int] = {}
        """The newest step of each process of the newest attempt: where it goes back, waiting begins anew."""
        self.absences: dict[str, Absence] = {}

    def take(self, batch: RecordBatch) -> list[Spoken]:
        """What is missing as the records of ``batch`` pass."""
        if not self.rules or batch.writer.attempt_no < self.attempt:
            return []
        moments = list(zip(batch.step.tolist(), batch.time_ns.tolist(), strict=True))
        if batch.writer.attempt_no > self.attempt:
            self._begin(batch.writer.attempt_no, moments[0])
        anew = self._rewinds(batch, [step for step, _ in moments])
        spoken: list[Spoken] = []
        for rule in self.rules:
            spoken += self._of(rule, batch, moments, anew)
        return spoken

    def _begin(self, attempt: int, at: Moment) -> None:
        self.attempt, self.newest = attempt, {}
        for absence in self.absences.values():
            absence.seen = at
            absence.watcher.seam()

    def _rewinds(self, batch: RecordBatch, steps: list[int]) -> set[int]:
        """Rows at which the training of this process goes back. Evaluations may come late: no rewind."""
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
        self, rule: UserRule, batch: RecordBatch, moments: list[Moment], anew: set[int]
    ) -> Iterator[Spoken]:
        absence = self.absences.get(rule.id)
        if absence is None:
            absence = self.absences[rule.id] = Absence(moments[0])
        there = _rows_with(rule, batch)
        for row, now in enumerate(moments):
            if row in anew:
                absence.watcher.seam()
            if row in anew or row in there:
                absence.seen = now
            value = 1.0 if gap(rule.window, absence.seen, now) else 0.0
            verdict = absence.watcher.judge(rule, rule.series, row, now, value)
            if verdict is not None:
                yield voice_of(rule, rule.series), verdict

    def change(self, rules: Sequence[UserRule], anew: frozenset[str]) -> None:
        """Other rules from here on, as :meth:`Watch.change`."""
        self.rules = [rule for rule in rules if rule.is_absence]
        kept = {rule.id for rule in self.rules} - anew
        self.absences = {key: absence for key, absence in self.absences.items() if key in kept}

    def close(self) -> None:
        """The run has ended."""
        for absence in self.absences.values():
            absence.watcher.let_go()

    def save(self) -> SavedAbsences:
        """All that is remembered."""
        return SavedAbsences(self.attempt, self.newest, self.absences)

    def load(self, saved: SavedAbsences) -> None:
        """Goes on from a snapshot."""
        known = {rule.id for rule in self.rules}
        self.attempt, self.newest = saved.attempt, saved.newest
        self.absences = {key: absence for key, absence in saved.absences.items() if key in known}


def _rows_with(rule: UserRule, batch: RecordBatch) -> set[int]:
    """Rows of a batch that have a value of the rule's series, NaN included."""
    return _rows_of(batch, [name for name in batch.columns if glob.matches(rule.series, name)])


def _training_rows(batch: RecordBatch) -> set[int]:
    """Rows of a batch that have a signal of an optimizer."""
    return _rows_of(batch, [name for name in batch.columns if split_name(name) is not None])


def _rows_of(batch: RecordBatch, names: list[str]) -> set[int]:
    rows: set[int] = set()
    for name in names:
        at = batch.columns[name].at
        rows.update(range(batch.n) if at is None else at.tolist())
    return rows
