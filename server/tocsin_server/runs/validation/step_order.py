"""Notice steps that repeat or decrease."""

from __future__ import annotations

from operator import lt

import numpy as np

from tocsin.protocol import Refused
from tocsin_server.core.models import I64, RecordBatch
from tocsin_server.runs.validation.names import shown

VITALS = frozenset({"loss", "grad_norm", "scale", "lr"})
"""Series with one value per step and writer: a repeated step means that another attempt reuses old numbers.
"""


class StepOrder:
    """Detect steps of one writer that repeat or decrease. They are kept as sent and reported.

    Several records at one step are normal: two optimizers may alternate, and values that a script logs in
    each micro-step belong to the same step. A repeated step therefore counts only in a vital sign, which has
    one value per step; a decreasing step counts in every series.
    """

    def __init__(self) -> None:
        self._highest = -1
        self._of_series: dict[str, int] = {}

    def notice(self, batch: RecordBatch) -> Refused | None:
        """Return a notice about the first series of ``batch`` whose steps do not increase, or None."""
        if not batch.n:
            return None
        all_steps = batch.step.tolist()
        if all_steps[0] > self._highest and all(map(lt, all_steps, all_steps[1:])):
            self._note(batch, all_steps)
            return None
        found: Refused | None = None
        for name, column in batch.columns.items():
            steps = batch.step if column.at is None else batch.step[column.at]
            if not steps.size:
                continue
            before = self._of_series.get(name, -1)
            if found is None:
                found = _out_of_order(name, steps, before, batch.seq)
            self._of_series[name] = max(before, int(steps[-1]))
        self._highest = max(self._highest, *all_steps)
        return found

    def _note(self, batch: RecordBatch, steps: list[int]) -> None:
        """Record steps that increase, the usual case."""
        self._highest = steps[-1]
        for name, column in batch.columns.items():
            if column.at is None:
                self._of_series[name] = steps[-1]
            elif column.at.size:
                self._of_series[name] = steps[int(column.at[-1])]


def _out_of_order(name: str, steps: I64, before: int, seq: int) -> Refused | None:
    line = np.concatenate(([before], steps))
    later, earlier = line[1:], line[:-1]  # compared, because a difference of steps can overflow int64
    back = np.flatnonzero(later <= earlier if name in VITALS else later < earlier)
    if not back.size:
        return None
    was, came = int(line[back[0]]), int(line[back[0] + 1])
    got = f"step {came} of {shown(name)} after step {was}; kept as sent"
    return Refused("notice", "step-order", "ascending steps of a series", got, seq)
