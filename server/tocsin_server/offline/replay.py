"""Evaluate rules over a log file: its records as batches, the engine's findings as alerts.

Uses neither a database nor a clock. ``Replay`` is the input of backtests and detection benchmarks;
``evaluate_log`` produces a complete diagnosis. Both keep one batch of records at a time, however
long the file is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tocsin.importers import Fact, Item, LogRecord, Source, Unread
from tocsin_server.core.models import Alert, Column, Finding, RecordBatch, RunEvent, Severity, Writer
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.interface.description import RuleSettings
from tocsin_server.runs.alert_state import RunAlerts
from tocsin_server.runs.sparkline_buckets import Spark

BATCH_RECORDS = 512
STEP_NS = 1_000_000_000
"""Time between the records of a file without times; rules depend on steps, not on this."""
WARM_UP_RECORDS = 50
"""With fewer training records, rules that need a baseline from the run have none."""
FULL_RECORDS = 210
"""With this many records, every rule of the loss has finished its warm-up, including ``not-learning``."""
ALERT_LIMIT = 1000
"""Maximum alerts of a file that are kept, oldest first; all are counted."""
SERIES_LIMIT = 64
"""Maximum series with a sparkline: the standard ones, then those that appear first."""
VITAL = ("loss", "grad_norm", "scale", "lr", "val", "skipped")


class Replay:
    """Converts items of a log to batches of one writer each, and events between them."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._writers: dict[tuple[int, int, int], Writer] = {}
        self._seq: dict[int, int] = {}
        self._waiting: list[LogRecord] = []
        self._arrival = 0
        self._time_ns = 0
        self._events = 0

    def take(self, items: Iterable[Item]) -> Iterator[RecordBatch | RunEvent]:
        """Yield the input of an engine in the order of the file, without unread lines."""
        for item in items:
            if isinstance(item, LogRecord):
                if self._waiting and not self._joins(item):
                    yield self._batch()
                self._waiting.append(item)
            elif isinstance(item, Fact):
                if self._waiting:
                    yield self._batch()
                yield self._event(item)
        if self._waiting:
            yield self._batch()

    def _joins(self, record: LogRecord) -> bool:
        return len(self._waiting) < BATCH_RECORDS and _process(self._waiting[0]) == _process(record)

    def _writer(self, attempt: int, rank: int, copy: int = 0) -> Writer:
        key = (attempt, rank, copy)
        if key not in self._writers:
            self._writers[key] = Writer(self.run_id, len(self._writers) + 1, attempt + 1, rank)
        return self._writers[key]

    def _batch(self) -> RecordBatch:
        records, self._waiting = self._waiting, []
        writer = self._writer(*_process(records[0]))
        seq = self._seq.get(writer.writer_no, 0)
        self._seq[writer.writer_no] = seq + len(records)
        self._arrival += 1
        return RecordBatch(
            writer=writer,
            arrival=self._arrival,
            seq=seq,
            n=len(records),
            step=np.array([record.step for record in records], dtype=np.int64),
            time_ns=np.array([self._time(record) for record in records], dtype=np.int64),
            columns=columns_of(records),
        )

    def _event(self, fact: Fact) -> RunEvent:
        self._arrival += 1
        self._events += 1
        writer = next(reversed(self._writers.values()), None) or self._writer(0, 0)
        return RunEvent(writer, self._arrival, self._events, fact.kind, self._time_ns, None, fact.data)

    def _time(self, record: LogRecord) -> int:
        self._time_ns = record.time_ns if record.time_ns is not None else self._time_ns + STEP_NS
        return self._time_ns


def _process(record: LogRecord) -> tuple[int, int, int]:
    """Return attempt, rank and copy: the process that wrote a record."""
    return record.attempt, record.rank, record.copy


def columns_of(records: list[LogRecord]) -> dict[str, Column]:
    """Return the records' values by name: dense if every record has one, else with rows."""
    rows: dict[str, tuple[list[int], list[float]]] = {}
    for row, record in enumerate(records):
        for name, value in record.values.items():
            at, v = rows.setdefault(name, ([], []))
            at.append(row)
            v.append(value)
    return {
        name: Column(
            np.array(v, dtype=np.float64), None if len(at) == len(records) else np.array(at, dtype=np.uint32)
        )
        for name, (at, v) in rows.items()
    }


@dataclass
class LogResult:
    """The result for one file."""

    path: str
    format: str
    records: int = 0
    training_records: int = 0
    first_step: int | None = None
    last_step: int | None = None
    attempts: int = 0
    unread: int = 0
    first_unread: list[Unread] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """Further notes on how the file was read, as sentences."""
    names_left_out: int = 0
    went_back: int = 0
    alerts: list[Alert] = field(default_factory=list)
    alerts_left_out: int = 0
    sparks: dict[str, Spark] = field(default_factory=dict)

    @property
    def highest_severity(self) -> Severity | None:
        """The highest severity of the alerts, or None without alerts."""
        return max((alert.severity for alert in self.alerts), key=lambda found: found.level, default=None)


class Evaluator:
    """Evaluates the output of a replay with an engine and an :class:`RunAlerts`; keeps the alerts that fired.

    A launch that starts at the first step is evaluated as a separate run: it is unknown whether the one
    before it failed or was stopped, and a file with several launches is no restart loop.
    """

    def __init__(
        self,
        context: RunContext,
        settings: Mapping[str, RuleSettings] | None = None,
        *,
        from_start: bool = True,
    ) -> None:
        """Create an evaluator.

        Args:
            context: The run.
            settings: Settings by rule; None for the defaults.
            from_start: Treat attempts as separate runs; if False, as restarts of one run like on the
                server.
        """
        self._context = context
        self._restarted = from_start
        self._settings = settings
        self._reported: list[RunEvent] = []
        self._attempt = 1
        self._last: RecordBatch | None = None
        self._fired: dict[str, Alert] = {}
        self._begin()
        self.left_out = 0

    @property
    def run_id(self) -> str:
        """Identifies the current launch in its alerts."""
        return self._tracker.run_id

    @property
    def alerts(self) -> list[Alert]:
        """The alerts that fired, in the order in which they fired."""
        return list(self._fired.values())

    def take(self, received: RecordBatch | RunEvent) -> list[Finding]:
        """Return the findings of the rules for a batch or an event."""
        if isinstance(received, RunEvent):
            self._reported.append(received)
            return self._apply(self._engine.observe_event(received))
        ended: list[Finding] = []
        if self._restarted and received.writer.attempt_no > self._attempt:
            ended = self.finish()
            self._attempt = received.writer.attempt_no
            self._begin()
        self._last = received
        return [*ended, *self._apply(self._engine.observe(received))]

    def finish(self) -> list[Finding]:
        """Return the findings for the last records, which some rules evaluate in blocks.

        Call it after the last item.
        """
        if self._last is None:
            return []
        last, self._last = self._last, None
        event = RunEvent(last.writer, last.arrival, last.seq, "finish", int(last.time_ns[-1]), None, {})
        return self._apply(self._engine.observe_event(event))

    def _apply(self, findings: list[Finding]) -> list[Finding]:
        for finding in findings:
            for transition in self._tracker.apply(finding, finding.time_ns):
                self._keep(transition.alert)
        return findings

    def _begin(self) -> None:
        """Start with new rules, which receive the events so far."""
        run_id = self._context.run_id if self._attempt == 1 else f"{self._context.run_id}#{self._attempt}"
        self._engine = Engine(replace(self._context, run_id=run_id), self._settings)
        self._tracker = RunAlerts(run_id)
        for event in self._reported:
            self._engine.observe_event(event)

    def _keep(self, alert: Alert) -> None:
        if alert.is_withdrawn:
            self._fired.pop(alert.id, None)
        if alert.fired_ns is None or alert.is_withdrawn:
            return
        if alert.id not in self._fired and len(self._fired) >= ALERT_LIMIT:
            self.left_out += 1
            return
        self._fired[alert.id] = alert


def evaluate_log(log: Source, settings: Mapping[str, RuleSettings] | None = None) -> LogResult:
    """Read a log, or a run of a tracker, once and evaluate every record.

    Raises:
        UnreadableLogError: No record can be read.
    """
    run_id = str(log.path)
    result = LogResult(run_id, log.kind)
    evaluator = Evaluator(RunContext(run_id=run_id, planned_steps=log.planned_steps), settings)
    listen(result, evaluator, Replay(run_id).take(log.items()))
    counts = log.counts
    result.records, result.unread, result.first_unread = counts.records, counts.unread, counts.first_unread
    result.names_left_out, result.went_back = counts.names_left_out, counts.went_back
    result.alerts, result.alerts_left_out = evaluator.alerts, evaluator.left_out
    if log.broken:
        result.remarks.append(f"The file is truncated: {log.broken}. The records before that were evaluated.")
    return result


def listen(result: LogResult, evaluator: Evaluator, received: Iterable[RecordBatch | RunEvent]) -> None:
    """Evaluate and count everything in ``received``, then finish."""
    for item in received:
        evaluator.take(item)
        if isinstance(item, RecordBatch):
            _count(result, item)
    evaluator.finish()


def _count(result: LogResult, batch: RecordBatch) -> None:
    low, high = int(batch.step.min()), int(batch.step.max())
    result.first_step = low if result.first_step is None else min(result.first_step, low)
    result.last_step = high if result.last_step is None else max(result.last_step, high)
    result.attempts = max(result.attempts, batch.writer.attempt_no)
    losses = [
        column for name, column in batch.columns.items() if name.partition("/")[0] in ("loss", "grad_norm")
    ]
    result.training_records += max((column.v.size for column in losses), default=0)
    for name, column in batch.columns.items():
        spark = result.sparks.get(name)
        if spark is None:
            if len(result.sparks) >= SERIES_LIMIT and name.partition("/")[0] not in VITAL:
                continue
            spark = result.sparks[name] = Spark()
        spark.take(batch.step if column.at is None else batch.step[column.at], column.v)
