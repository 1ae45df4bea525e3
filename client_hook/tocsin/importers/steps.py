"""Assign rows to steps, and detect where a new run begins within one file. Pure."""

from __future__ import annotations

from .items import Row


class StepCount:
    """Count the steps of one file.

    A step of the whole run is used as it is. An iteration within an epoch is added to the epochs before it;
    the length of an epoch is given, or known from the previous epoch. If there is only an epoch, it is the
    step, unless the first epoch has several rows: then the rows are numbered. A step back to the first step
    of the run, or a repeated header, starts a new attempt. A smaller step back (a rewind to a checkpoint)
    stays in the attempt, so that rules can see it.
    """

    def __init__(self) -> None:
        self.attempt = 0
        self.newest: int | None = None
        """The newest training step of this attempt."""
        self.went_back = 0
        """How often a step was below the previous one, within an attempt."""
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
        """Whether an epoch has several rows without a step, so that the rows are numbered: epochs are
        fractional (0.02, 0.04, ... 1.0), or the first one was repeated."""
        self._ends: tuple[float, float] | None = None
        """First and newest epoch, if the rows are numbered."""
        self._names: set[str] = set()
        """What the rows of the newest epoch have reported."""

    def restart(self) -> None:
        """Start a new attempt if the current one has records, because a header is repeated."""
        if self._rows:
            self.attempt += 1
            self._begin()

    def place(self, row: Row) -> int:
        """Return the step of ``row``."""
        if row.between:
            self._between = max(self._between, 1) if row.again else self._between + 1
            self._rows += 1
            return (-1 if self.newest is None else self.newest) + self._between
        began_anew = self._is_behind(row)
        step = self._step(row)
        if row.evaluation or self.is_summary(row):
            return step
        if began_anew or self._starts_again(step):
            self.attempt += 1
            self._begin()
            self._names = set(row.values)
            step = self._step(row)
        self._first = step if self._first is None else self._first
        self.went_back += self.newest is not None and step < self.newest
        self.newest = step
        self._rows += 1
        self._between = 0
        return step

    def _starts_again(self, step: int) -> bool:
        if self.newest is None or self._first is None:
            return False
        return step < self.newest and step <= self._first

    def _is_behind(self, row: Row) -> bool:
        """Return whether the epoch of numbered rows is back at the first one, so that a new run begins."""
        if row.epoch is None or row.step is not None or row.iteration is not None or row.evaluation:
            return False
        self._part = self._part or not float(row.epoch).is_integer() or self._repeats(row)
        first, newest = self._ends or (row.epoch, row.epoch)
        self._ends = (first, row.epoch)
        return self._part and row.epoch < newest and row.epoch <= first

    def _repeats(self, row: Row) -> bool:
        """Return whether the first epoch reports something again, so that an epoch has several steps."""
        first = self._rows > 0 and self._first == self.newest == row.epoch
        repeats = first and not self._names.isdisjoint(row.values)
        self._names = {*self._names, *row.values} if first else set(row.values)
        return repeats

    def is_summary(self, row: Row) -> bool:
        """Return whether ``row`` summarizes an epoch in a file that also contains its steps."""
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
