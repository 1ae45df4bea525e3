"""Convert the rows of a format to records: names, steps, and the meaning of missing numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..protocol import MOST_STEP
from .copies import Copies
from .digits import KIND as PRECISION
from .digits import Precision
from .items import Fact, Item, LogRecord, Parsed, Restart, Row, Unread
from .names import Naming, goal_of
from .steps import StepCount
from .values import NAN

HEADER = "header"
"""Kind of the fact that contains the column names of a table. It is not passed on."""
MOST_RANKS = 4096
"""Maximum number of ranks per file, because each one takes memory and is a writer of the run."""
MOST_ATTEMPTS = 4096
"""Maximum number of attempts per file; later ones count as the last."""
EXPECTED_AFTER = 3
"""Number of rows with a number after which a null counts as NaN; see ``Assembly._forget``."""


class Assembly:
    """Convert a parser's output to items. One instance per file; its memory is bounded by names and ranks."""

    def __init__(self) -> None:
        self.names = Naming()
        self.steps = StepCount()
        self.by_rank: dict[int, StepCount] = {}
        self.copies = Copies()
        self.precision = Precision()
        self._primary: int | None = None
        self._on_reading: set[str] = set()
        self._dense: dict[str, int] = {}
        self._attempts: dict[int, int] = {}
        """Index of each attempt that the file numbers itself, in order of appearance."""

    def take(self, parsed: Iterable[Parsed]) -> Iterator[Item]:
        """Yield the records, facts and unread lines in order."""
        for item in parsed:
            if isinstance(item, Row):
                yield from self._row(item)
            elif isinstance(item, Restart):
                self._restart()
            elif isinstance(item, Fact) and item.kind == HEADER:
                self.names.pair_up(item.data["names"])
            else:
                yield item

    def _restart(self) -> None:
        for count in (self.steps, *self.by_rank.values()):
            count.restart()
        self.copies.forget()
        self._dense.clear()

    def _count(self, row: Row) -> StepCount | None:
        """Return the step count of the row's rank, or None if there are too many ranks. Rows without a rank
        belong to the first rank that was named.
        """
        if row.rank is None:
            row.rank = self._primary or 0
        elif self._primary is None:
            self._primary = row.rank
        if row.rank == (self._primary or 0):
            return self.steps
        if row.rank not in self.by_rank and len(self.by_rank) < MOST_RANKS - 1:
            self.by_rank[row.rank] = StepCount()
        return self.by_rank.get(row.rank)

    def _row(self, row: Row) -> Iterator[Item]:
        values = self._named(row)
        if not values:
            return
        if not _is_placed(row):
            yield Unread(row.line, f"a step of at most {MOST_STEP} was expected")
            return
        count = self._count(row)
        if count is None:
            yield Unread(row.line, f"at most {MOST_RANKS} ranks are read")
            return
        if count.is_summary(row):
            values = {name: value for name, value in values.items() if name.startswith("val/")}
            if not values:
                return
        only_metrics = all(name.startswith("val/") for name in values)
        row.evaluation = row.evaluation or (only_metrics and row.step is None)
        step = self._step(row, count)
        if not 0 <= step <= MOST_STEP:
            yield Unread(row.line, f"a step from 0 to {MOST_STEP} was expected, not {step}"[:100])
            return
        yield from self._run_info(row.line, values)
        attempt = count.attempt if row.attempt is None else self._attempt(row.attempt)
        copy = self.copies.place(step, set(values)) if count is self.steps and not row.between else 0
        if not (row.ours or row.binary):
            for name, quantum in self.precision.take(values):
                yield Fact(row.line, PRECISION, {"name": name, "quantum": quantum})
        values = {name: float(value) for name, value in values.items()}
        yield LogRecord(row.line, step, values, row.time_ns, attempt, row.rank or 0, copy)

    def _attempt(self, number: int) -> int:
        """Return the index of an attempt: exports number attempts from 1, and late ones from 0 down."""
        if number not in self._attempts and len(self._attempts) == MOST_ATTEMPTS:
            return MOST_ATTEMPTS - 1
        return self._attempts.setdefault(number, len(self._attempts))

    def _step(self, row: Row, count: StepCount) -> int:
        """Return the step of a row. If several processes print into one file, a process that lags is not a
        rewind.
        """
        if count is self.steps and row.step is not None and self.copies.is_known(int(row.step)):
            return int(row.step)
        return count.place(row)

    def _named(self, row: Row) -> dict[str, float]:
        """Return the row's values by tocsin's names. A null where a number was expected is NaN."""
        values: dict[str, float] = {}
        if row.ours:
            return row.values
        for name, value in row.values.items():
            ours = self.names.of(name, evaluation=row.evaluation)
            if ours is not None:
                values[ours] = value
        self._expect(values)
        for name in row.null:
            ours = self.names.of(name, evaluation=row.evaluation)
            if ours is not None and ours not in values and self._dense.get(ours, 0) >= EXPECTED_AFTER:
                values[ours] = NAN
        self._forget(row, values)
        return values

    def _expect(self, values: dict[str, float]) -> None:
        for name in values:
            if name.partition("/")[0] in ("loss", "grad_norm") and self._dense.get(name, 0) >= 0:
                self._dense[name] = min(self._dense.get(name, 0) + 1, EXPECTED_AFTER)

    def _forget(self, row: Row, values: dict[str, float]) -> None:
        """Mark names with an early null as optional: their nulls never count as NaN."""
        for name in row.null:
            ours = self.names.of(name, evaluation=row.evaluation)
            if ours is not None and ours not in values:
                self._dense[ours] = -1

    def _run_info(self, line: int, values: dict[str, float]) -> Iterator[Fact]:
        """Yield goals of metrics and names of loss terms when they occur for the first time."""
        fresh = [name for name in values if name not in self._on_reading]
        if not fresh:
            return
        self._on_reading.update(fresh)
        for name in fresh:
            if name.startswith("val/"):
                goal, unit = goal_of(name)
                yield Fact(line, "metric", {"name": name, "goal": goal or None, "unit": unit or None})
        terms = [name[5:] for name in fresh if name.startswith("loss/")]
        components = [term for term in terms if not _is_optimizer(term, values)]
        if components:
            yield Fact(line, "loss-components", {"names": components})


def _is_placed(row: Row) -> bool:
    """Return whether the step, epoch and iteration are within the supported range."""
    places = (row.step, row.epoch, row.iteration, row.per_epoch)
    return all(place is None or abs(place) <= MOST_STEP for place in places)


def _is_optimizer(suffix: str, values: dict[str, float]) -> bool:
    """Return whether ``loss/<suffix>`` is the loss of an optimizer (or of a discriminator), not a term of the
    loss.
    """
    return suffix == "D" or any(f"{base}/{suffix}" in values for base in ("lr", "grad_norm", "stepped"))
