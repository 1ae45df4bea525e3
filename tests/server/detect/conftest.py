"""Run rules on series and collect their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from tocsin_server.core.models import AlertState, Column, Finding, RecordBatch, RunEvent, Severity, Writer
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.interface.similar_runs import SERVER

SECOND = 10**9


RESTORED_EVERY = 3


class Watched:
    """Feeds series to an engine. ``None`` in a series is a record without that value.

    Every few batches, another engine continues from a snapshot, as after a restart of the server. Each test
    of a rule therefore also tests its saved state.
    """

    def __init__(self, context: RunContext, size: int) -> None:
        self.context = context
        self.engine = Engine(context)
        self.size = size
        self.findings: list[Finding] = []
        self.arrival = 0
        self.seqs: dict[int, int] = {}

    def records(
        self,
        *,
        start: int = 0,
        every: int = 1,
        steps: Sequence[int] | None = None,
        rank: int = 0,
        attempt: int = 1,
        process: int = 0,
        more: dict[str, Sequence[float | None]] | None = None,
        **series: Sequence[float | None],
    ) -> list[Finding]:
        """Evaluate records at ``start, start + every, ...``, or at ``steps``; return the findings."""
        columns = {**series, **(more or {})}
        count = len(next(iter(columns.values())))
        at = list(steps) if steps is not None else [start + every * index for index in range(count)]
        writer = Writer("r_1", 1000 * process + 100 * attempt + rank, attempt, rank)
        found: list[Finding] = []
        for first in range(0, count, self.size):
            part = {name: values[first : first + self.size] for name, values in columns.items()}
            found += self.engine.observe(self._batch(writer, at[first : first + self.size], part))
            if self.arrival % RESTORED_EVERY == 0:
                self.engine = Engine.restore(self.context, self.engine.save())
        self.findings += found
        return found

    def event(self, kind: str, step: int | None = None, **data: Any) -> None:
        """Add one event of the run."""
        self.arrival += 1
        self.findings += self.engine.observe_event(
            RunEvent(Writer("r_1", 100, 1, 0), self.arrival, 0, kind, 0, step, data)
        )

    def reported_by_server(self, kind: str, **data: Any) -> None:
        """Add an event that the server itself writes."""
        self.arrival += 1
        event = RunEvent(Writer("r_1", SERVER, 1, 0), self.arrival, self.arrival, kind, 0, None, data)
        self.findings += self.engine.observe_event(event)

    def firing(self, rule: str) -> list[Finding]:
        """Return the findings of ``rule`` in state firing."""
        return [item for item in self.findings if item.rule == rule and item.state is AlertState.FIRING]

    def states(self, rule: str) -> list[str]:
        """Return the states that ``rule`` went through, without repeats."""
        states = [item.state.value for item in self.findings if item.rule == rule]
        return [state for index, state in enumerate(states) if index == 0 or states[index - 1] != state]

    def severities(self, rule: str) -> list[str]:
        """Return the severities that ``rule`` fired with, without repeats."""
        values = [item.severity.value for item in self.firing(rule)]
        return [value for index, value in enumerate(values) if index == 0 or values[index - 1] != value]

    @property
    def alarms(self) -> list[str]:
        """Return what fired at warning or above."""
        loud = [item for item in self.findings if item.state is AlertState.FIRING]
        return [f"{item.rule} {item.step}" for item in loud if item.severity is not Severity.INFO]

    def _batch(
        self, writer: Writer, steps: Sequence[int], part: dict[str, Sequence[float | None]]
    ) -> RecordBatch:
        seq = self.seqs.get(writer.writer_no, 0)
        self.seqs[writer.writer_no] = seq + len(steps)
        self.arrival += 1
        at = np.array(steps, dtype=np.int64)
        columns = {
            name: column(values) for name, values in part.items() if any(v is not None for v in values)
        }
        return RecordBatch(writer, self.arrival, seq, len(steps), at, at * SECOND, columns)


def column(values: Iterable[float | None]) -> Column:
    """Return values as a column; rows of None are left out."""
    kept = [(row, value) for row, value in enumerate(values) if value is not None]
    everywhere = len(kept) == len(list(values))
    rows = None if everywhere else np.array([row for row, _ in kept], dtype=np.uint32)
    return Column(np.array([value for _, value in kept], dtype=np.float64), rows)


@pytest.fixture
def watch() -> Callable[..., Watched]:
    """Create a watched run: ``watch(size=..., planned_steps=..., scalers=[...])``."""

    def make(*, size: int = 50, **context: Any) -> Watched:
        return Watched(RunContext(run_id="r_1", **context), size)

    return make


@pytest.fixture
def torch_scale() -> Callable[..., tuple[list[float], list[float]]]:
    """What ``torch.amp.GradScaler`` does: (scale used, skipped) of each update, given where it overflows.

    Its scale is a float32: from 2^16 it is 0 after 166 overflows.
    """

    def run(
        overflows: Iterable[bool], *, init: float = 65536.0, interval: int = 2000, floor: float = 0.0
    ) -> tuple[list[float], list[float]]:
        scale, tracker = init, 0
        scales, skipped = [], []
        for overflow in overflows:
            scales.append(scale)
            skipped.append(float(overflow))
            tracker = 0 if overflow else tracker + 1
            if overflow:
                scale = max(float(np.float32(scale * 0.5)), floor)
            elif tracker == interval:
                scale, tracker = scale * 2.0, 0
        return scales, skipped

    return run
