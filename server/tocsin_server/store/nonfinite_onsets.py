"""Track onsets of NaN and infinities as rows, so that SQL can query them. Pure except :func:`read_tracker`.

An onset is where a series of one writer stops being finite; it ends where the series has a
finite value again. The first :data:`MOST_OF_SERIES` onsets of a series of a
writer and the first :data:`MOST_OF_RUN` of a run are stored; later ones are only counted with all other
non-finite values in ``series``, and remain in the records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Connection, func, select

from tocsin_server.core.models import F64, Column, RecordBatch
from tocsin_server.store.tables import nonfinite_onset

MOST_OF_SERIES = 1_000
MOST_OF_RUN = 10_000
SHORT = 64
"""Up to this many values, a plain loop is faster than numpy."""

SeriesKey = tuple[int, int]
"""(writer number, column number) within a run."""


@dataclass(frozen=True, slots=True)
class Onset:
    """A series stopped being finite at record ``seq``."""

    writer_no: int
    col_id: int
    seq: int
    step: int
    time_ns: int
    kind: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """A series whose onset was at ``seq`` was finite again at record ``end_seq``."""

    writer_no: int
    col_id: int
    seq: int
    end_seq: int
    end_step: int


@dataclass(slots=True)
class NonfiniteTracker:
    """Stored onsets of one run: their number by series, and the open ones."""

    counts: dict[SeriesKey, int] = field(default_factory=dict)
    open: dict[SeriesKey, int] = field(default_factory=dict)
    total: int = 0

    def take(self, batch: RecordBatch, col_id: int, column: Column) -> list[Onset | Recovered]:
        """Return the onsets and recoveries in one series of ``batch``, in order."""
        key = (batch.writer.writer_no, col_id)
        if key not in self.open and all_finite(column.v):
            return []
        bad = ~np.isfinite(column.v)
        edges = np.flatnonzero(np.diff(bad, prepend=key in self.open)).tolist()
        found = [self._at(key, batch, column, place, begins=bool(bad[place])) for place in edges]
        return [one for one in found if one is not None]

    def _at(
        self, key: SeriesKey, batch: RecordBatch, column: Column, place: int, *, begins: bool
    ) -> Onset | Recovered | None:
        row = place if column.at is None else int(column.at[place])
        seq, step = batch.seq + row, int(batch.step[row])
        if not begins:
            began = self.open.pop(key, None)
            return None if began is None else Recovered(*key, began, seq, step)
        if self.counts.get(key, 0) >= MOST_OF_SERIES or self.total >= MOST_OF_RUN:
            return None
        self.counts[key] = self.counts.get(key, 0) + 1
        self.total += 1
        self.open[key] = seq
        return Onset(*key, seq, step, int(batch.time_ns[row]), kind_of(float(column.v[place])))


def kind_of(value: float) -> str:
    """Return ``nan``, ``+inf`` or ``-inf``."""
    if math.isnan(value):
        return "nan"
    return "+inf" if value > 0 else "-inf"


def all_finite(values: F64) -> bool:
    """Return whether no value is NaN or infinite."""
    if values.size <= SHORT:
        return all(map(math.isfinite, values.tolist()))
    return bool(np.isfinite(values).all())


def read_tracker(connection: Connection, run_id: str) -> NonfiniteTracker:
    """Return the tracker of a run, restored from its rows."""
    of_run = nonfinite_onset.c.run_id == run_id
    counted = select(nonfinite_onset.c.writer_no, nonfinite_onset.c.col_id, func.count().label("n")).where(
        of_run
    )
    rows = connection.execute(counted.group_by(nonfinite_onset.c.writer_no, nonfinite_onset.c.col_id)).all()
    opened = select(nonfinite_onset.c.writer_no, nonfinite_onset.c.col_id, nonfinite_onset.c.seq).where(
        of_run, nonfinite_onset.c.end_seq.is_(None)
    )
    return NonfiniteTracker(
        {(row.writer_no, row.col_id): row.n for row in rows},
        {(row.writer_no, row.col_id): row.seq for row in connection.execute(opened)},
        sum(row.n for row in rows),
    )
