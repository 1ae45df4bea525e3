"""Healthy records wait until a block of them is complete, so that the rules check them together.

Checking one record costs nearly as much as checking a block. A record waits only if it cannot lead to a
finding: it is calm, every rule that checks calm records stated up to which value it is silent
(:meth:`Rule.ceiling`), and rules that check blocks do so at the end of the block anyway. Findings are
therefore the same, and none comes later. No record waits if several processes are live, if optimizers other
than the primary one have signals, or if custom rules are in effect.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable

from tocsin_server.core.models import RecordBatch
from tocsin_server.detect.engine.process import Process
from tocsin_server.detect.engine.stream import Stream
from tocsin_server.detect.interface.blocks import PACE
from tocsin_server.detect.interface.micro_steps import MicroSteps
from tocsin_server.detect.interface.view import WIDE, Layout, Values, View

Ranges = dict[str, tuple[float, float]]
"""Lowest and highest value of each signal at which a record may wait, by base name."""
POSITIVE = (sys.float_info.min, sys.float_info.max)


class Deferral:
    """The waiting records of one process, which follow a checked batch and have the same columns."""

    def __init__(self, batch: RecordBatch, places: Layout, ranges: Ranges, process: Process) -> None:
        """Create a deferral without records.

        Args:
            batch: The newest checked batch.
            places: Its layout; all its columns belong to the primary optimizer or to no rule.
            ranges: See :func:`ranges_of`.
            process: The streams of its writer.
        """
        stream, (_, pairs) = process.streams[""], places.streams[0]
        self.writer, self.seq, self.last = batch.writer, batch.seq + batch.n, int(batch.step[-1])
        self.n = 0
        self._left = PACE - stream.block.n
        """Number of records that complete the block, less those that wait."""
        self._gap = stream.spacing.gap
        self._step: list[int] = []
        self._time_ns: list[int] = []
        pairs = tuple(sorted(pairs, key=lambda pair: pair[0] not in ranges))
        self._columns: dict[str, Values] = {base: [] for base, _ in pairs}
        self._ranged = [(name, *ranges[base]) for base, name in pairs if base in ranges]
        self._other = [name for base, name in pairs if base not in ranges]
        self._extra = [name for name in batch.columns if name not in dict(pairs).values()]
        self._width = len(batch.columns)
        self._wide = WIDE in process.streams

    def add(self, batch: RecordBatch, *, calm: bool) -> bool:
        """Add the records of ``batch`` if they follow the others and have the same columns.

        Args:
            batch: The batch.
            calm: Add them only if they may wait, too.

        Returns:
            Whether they were added.
        """
        n, columns, step = batch.n, batch.columns, batch.step.tolist()
        if batch.seq != self.seq or (batch.writer is not self.writer and batch.writer != self.writer):
            return False
        if calm and (n >= self._left or step[-1] - self.last != self._gap * n):
            return False
        found: list[Values] = []
        try:
            for name, low, high in self._ranged:
                column = columns[name]
                values = column.v.tolist()
                if column.at is not None or (calm and not low <= values[0] <= high):
                    return False
                found.append(values)
            for name in self._other:
                column = columns[name]
                if column.at is not None:
                    return False
                found.append(column.v.tolist())
            for name in self._extra:
                columns[name]
        except KeyError:
            return False
        if len(columns) != self._width or (n > 1 and calm and not self._within(step, found)):
            return False
        for into, values in zip(self._columns.values(), found, strict=True):
            into += values
        self._step += step
        self._time_ns += batch.time_ns.tolist()
        self.n, self.seq, self.last, self._left = self.n + n, self.seq + n, step[-1], self._left - n
        return True

    def _within(self, step: list[int], found: list[Values]) -> bool:
        """Return whether the steps do not go back, and the values after the first are in range too."""
        return (
            step[0] > self.last
            and step == sorted(step)
            and all(
                low <= value <= high  # type: ignore[operator]
                for (_, low, high), values in zip(self._ranged, found, strict=False)
                for value in values
            )
        )

    def views(self) -> dict[str, View]:
        """Return the waiting records as the views of a batch, see :func:`split` and :func:`beside`."""
        rows, columns = range(self.n), self._columns
        views = {"": View(rows, self._step, self._time_ns, columns)}
        if self._wide:
            shared: dict[str, Values] = {
                name: columns[name] for name in ("loss", "grad_norm") if name in columns
            }
            if shared:
                views[WIDE] = View(rows, self._step, self._time_ns, shared)
        return views


def ranges_of(process: Process, places: Layout) -> Ranges | None:
    """Return the ranges within which up to ``PACE`` records lead to no finding, None if unknown.

    Args:
        process: The streams of the process whose batch was just checked.
        places: The layout of that batch.
    """
    stream = process.streams.get("")
    if stream is None or len(places.streams) != 1 or places.streams[0][0] or places.named:
        return None
    others = [other for suffix, other in process.streams.items() if suffix]
    if any(other.suffix != WIDE or not _silent(other) for other in others):
        return None
    if len(stream.awake) != stream.restless or stream.spacing.wide or not stream.spacing.gap:
        return None
    bases = {base for base, _ in places.streams[0][1]}
    ranges = _calm(stream, bases)
    for rule in stream.awake if ranges is not None else ():
        ceiling, signal = rule.ceiling(), rule.needs[0]
        if ceiling <= 0.0:
            return None
        if signal in bases and ranges is not None:
            ranges[signal] = (POSITIVE[0], min(ceiling, ranges.get(signal, POSITIVE)[1]))
    return ranges


def _silent(wide: Stream) -> bool:
    """Return whether no rule reports anything about records without shared metrics."""
    return not wide.in_blocks and all(rule.ceiling() == math.inf for rule in wide.rules)


def _calm(stream: Stream, bases: Iterable[str]) -> Ranges | None:
    """Return the ranges in which records are calm (see ``View.calm``), None if they cannot be."""
    track, ranges = stream.track, Ranges()
    if "nonfinite/weights" in bases or ("scale" not in bases and track.active):
        return None
    for base in bases:
        if base in ("loss", "grad_norm", "stepped"):
            ranges[base] = POSITIVE
        elif base in ("skipped", "found_inf"):
            ranges[base] = (0.0, 0.0)
        elif base == "scale":
            if not track.last:
                return None
            ranges[base] = (track.last, track.last)
    return _whole(stream.micro_steps, bases, ranges)


def _whole(micro_steps: MicroSteps, bases: Iterable[str], ranges: Ranges) -> Ranges | None:
    """Add the range in which the number of whole losses per step does not change."""
    if "loss_n" not in bases:
        return ranges
    if "loss_sum" not in bases:
        return ranges if micro_steps.count <= 1.0 else None
    if micro_steps.fewer or micro_steps.count != micro_steps.losses:
        return None
    return {**ranges, "loss_n": (micro_steps.count, micro_steps.count)}
