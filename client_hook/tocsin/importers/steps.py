"""Which step of the run a row belongs to, and where a new run begins within one file. Pure."""

from __future__ import annotations

from .items import Row


class StepCount:
    """Counts the steps of one file.

    A step of the whole run is taken as it is. An iteration within an epoch is added to the epochs
    before it; the length of an epoch is told, or learned from the epoch that has just ended. A step
    back to the first step of the run or before it, or a header that comes again, begins a new attempt; a
    smaller step back (a rewind to a checkpoint) stays in it, for rules to see.
    """

    def __init__(self) -> None:
        self.attempt = 0
        self.newest: int | None = None
        """The newest training step of this attempt."""
        self.went_back = 0
        """How often a step was below the one before, within an attempt."""
        self._first: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._first = self.newest = None
        self._epoch: float | None = None
        self._first_epoch = self._base = self._in_epoch = self._longest = 0.0
        self._rows = 0
        self._between = 0
        self._fine = False
        self._part = False
        """Epochs come in parts (0.02, 0.04, ... 1.0): they say how far a run is, rows number its steps."""
        self._ends: tuple[float, float] | None = None
        """First and newest of these epochs."""

    def restart(self) -> None:
        """A header came again: a new attempt, where the present one has records."""
        if self._rows:
            self.attempt += 1
            self._begin()

    def place(self, row: Row) -> int:
        """The step of ``row``."""
        if row.between:
            self._between = max(self._between, 1) if row.again else self._between + 1
            self._rows += 1
            return (-1 if self.newest is None else self.newest) + self._between
        began_anew = self._is_behind(row)
        step = self._step(row)
        if row.evaluation or self.is_summary(row):
            return step
        if began_anew or self._is_anew(step):
            self.attempt += 1
            self._begin()
            step = self._step(row)
        self._first = step if self._first is None else self._first
        self.went_back += self.newest is not None and step < self.newest
        self.newest = step
        self._rows += 1
        self._between = 0
        return step

    def _is_anew(self, step: int) -> bool:
        if self.newest is None or self._first is None:
            return False
        return step < self.newest and step <= self._first

    def _is_behind(self, row: Row) -> bool:
        """Whether a row that has but a part of an epoch is not behind the first one: a new run begins."""
        if row.epoch is None or row.step is not None or row.iteration is not None or row.evaluation:
            return False
        self._part = self._part or not float(row.epoch).is_integer()
        first, newest = self._ends or (row.epoch, row.epoch)
        self._ends = (first, row.epoch)
        return self._part and row.epoch < newest and row.epoch <= first

    def is_summary(self, row: Row) -> bool:
        """Whether ``row`` says something of a whole epoch, in a file that also tells of its steps."""
        return self._fine and row.epoch is not None and row.step is None and row.iteration is None

    def _step(self, row: Row) -> int:
        if row.step is not None:
            self._fine = self._fine or not row.evaluation
            return int(row.step)
        if row.evaluation or self.is_summary(row):
            return self.newest if self.newest is not None else int(row.epoch or 0)
        if row.iteration is not None:
            self._fine = True
            return self._within(row)
        if row.epoch is not None and not self._part and float(row.epoch).is_integer():
            return int(row.epoch)
        return 0 if self.newest is None else self.newest + 1

    def _within(self, row: Row) -> int:
        iteration = float(row.iteration or 0)
        if row.per_epoch and row.epoch is not None:
            return int(row.epoch * row.per_epoch + iteration)
        if row.epoch is None or self._epoch is None:
            self._base += self._in_epoch if iteration < self._in_epoch else 0
        elif row.epoch > self._epoch and iteration <= self._in_epoch:
            self._longest = max(self._longest, self._in_epoch)
        if row.epoch is not None:
            self._first_epoch = row.epoch if self._epoch is None else self._first_epoch
            self._epoch = row.epoch
        self._in_epoch = iteration
        whole = 0.0 if self._epoch is None else (self._epoch - self._first_epoch) * self._longest
        return int(self._base + whole + iteration)
