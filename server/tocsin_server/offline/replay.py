"""Rules over a log file: its records as batches, the engine's findings as alerts. No database, no clock.

``replay`` is what a backtest or a benchmark of detection begins with; ``judge`` is a whole
diagnosis. Both hold one batch of records at a time, whatever the length of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tocsin.importers import Fact, Item, Log, LogRecord, Unread
from tocsin_server.core.models import Alert, Column, Finding, RecordBatch, RunEvent, Severity, Writer
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.interface.rule import RuleSettings
from tocsin_server.runs.alert_state import AlertBook
from tocsin_server.runs.sparkline_buckets import Spark

BATCH_RECORDS = 512
STEP_NS = 1_000_000_000
"""Records of a file without times are taken to be a second apart: rules judge steps, not this."""
WARM_UP_RECORDS = 50
"""Below so many training records the rules that need a baseline of the run's own have none."""
FULL_RECORDS = 210
"""With so many every rule of the loss has had its warm-up, ``not-learning`` too: below, silence says less."""
ALERT_LIMIT = 1000
"""So many alerts of a file are kept, the first ones; all are counted."""
SERIES_LIMIT = 64
"""Of so many series a sparkline is kept: ours, then those that come first."""
VITAL = ("loss", "grad_norm", "scale", "lr", "val", "skipped")


class Replay:
    """Items of a log into batches of one writer each, and events between them."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._writers: dict[tuple[int, int, int], Writer] = {}
        self._seq: dict[int, int] = {}
        self._waiting: list[LogRecord] = []
        self._arrival = 0
        self._time_ns = 0
        self._events = 0

    def take(self, items: Iterable[Item]) -> Iterator[RecordBatch | RunEvent]:
        """What an engine is to see, in the order of the file; unread lines are left out."""
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
    """Attempt, rank and copy: who wrote a record."""
    return record.attempt, record.rank, record.copy


def columns_of(records: list[LogRecord]) -> dict[str, Column]:
    """The records' values by name: dense where every record has it, else at its rows."""
    rows: dict[str, tuple[list[int], list[float]]] = {}
    for row, record in enumerate(records):
        for name, value in record.judged().items():
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
class Judged:
    """What became of one file."""

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
    """What else to know of the reading, as sentences."""
    names_left_out: int = 0
    went_back: int = 0
    alerts: list[Alert] = field(default_factory=list)
    alerts_left_out: int = 0
    sparks: dict[str, Spark] = field(default_factory=dict)

    @property
    def highest_severity(self) -> Severity | None:
        """The severity of the gravest alert, None without one."""
        return max((alert.severity for alert in self.alerts), key=lambda found: found.level, default=None)


class Judge:
    """Engine and alert book over what a replay yields; keeps the alerts that fired.

    A launch from the first step on is judged as a run of its own: nobody knows whether the one
    before it failed or was merely ended, and a file with several is no loop of restarts.
    """

    def __init__(
        self,
        context: RunContext,
        settings: Mapping[str, RuleSettings] | None = None,
        *,
        from_start: bool = True,
    ) -> None:
        """``anew`` False: attempts are restarts of one run, as on the server."""
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
        """By which the alerts of the launch that is judged now are told apart."""
        return self._book.run_id

    @property
    def alerts(self) -> list[Alert]:
        """The alerts that fired, in the order in which they did."""
        return list(self._fired.values())

    def take(self, received: RecordBatch | RunEvent) -> list[Finding]:
        """What the rules have to say of a batch or an event."""
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
        """What the last records say, which some rules hear in blocks; to be called at the end of a file."""
        if self._last is None:
            return []
        last, self._last = self._last, None
        event = RunEvent(last.writer, last.arrival, last.seq, "finish", int(last.time_ns[-1]), None, {})
        return self._apply(self._engine.observe_event(event))

    def _apply(self, findings: list[Finding]) -> list[Finding]:
        for finding in findings:
            for transition in self._book.apply(finding, finding.time_ns):
                self._keep(transition.alert)
        return findings

    def _begin(self) -> None:
        """Rules without a past, that know what was told of the file's names."""
        run_id = self._context.run_id if self._attempt == 1 else f"{self._context.run_id}#{self._attempt}"
        self._engine = Engine(replace(self._context, run_id=run_id), self._settings)
        self._book = AlertBook(run_id)
        for event in self._reported:
            self._engine.observe_event(event)

    def _keep(self, alert: Alert) -> None:
        if alert.fired_ns is None:
            return
        if alert.id not in self._fired and len(self._fired) >= ALERT_LIMIT:
            self.left_out += 1
            return
        self._fired[alert.id] = alert


def judge(log: Log, settings: Mapping[str, RuleSettings] | None = None) -> Judged:
    """Reads ``log`` once and judges every record. Raises UnreadableLogError where none can be read."""
    run_id = str(log.path)
    judged = Judged(run_id, log.format.name)
    judge_ = Judge(RunContext(run_id=run_id, planned_steps=log.planned_steps), settings)
    listen(judged, judge_, Replay(run_id).take(log.items()))
    stream = log.stream
    judged.records, judged.unread, judged.first_unread = stream.records, stream.unread, stream.first_unread
    judged.names_left_out, judged.went_back = stream.names_left_out, stream.went_back
    judged.alerts, judged.alerts_left_out = judge_.alerts, judge_.left_out
    if log.broken:
        judged.remarks.append(f"The file breaks off: {log.broken}. What came before that was judged.")
    return judged


def listen(judged: Judged, judge_: Judge, received: Iterable[RecordBatch | RunEvent]) -> None:
    """Judges and counts everything that is ``heard``, to its end."""
    for item in received:
        judge_.take(item)
        if isinstance(item, RecordBatch):
            _count(judged, item)
    judge_.finish()


def _count(judged: Judged, batch: RecordBatch) -> None:
    low, high = int(batch.step.min()), int(batch.step.max())
    judged.first_step = low if judged.first_step is None else min(judged.first_step, low)
    judged.last_step = high if judged.last_step is None else max(judged.last_step, high)
    judged.attempts = max(judged.attempts, batch.writer.attempt_no)
    losses = [
        column for name, column in batch.columns.items() if name.partition("/")[0] in ("loss", "grad_norm")
    ]
    judged.training_records += max((column.v.size for column in losses), default=0)
    for name, column in batch.columns.items():
        spark = judged.sparks.get(name)
        if spark is None:
            if len(judged.sparks) >= SERIES_LIMIT and name.partition("/")[0] not in VITAL:
                continue
            spark = judged.sparks[name] = Spark()
        spark.take(batch.step if column.at is None else batch.step[column.at], column.v)
