"""Hold one run in memory: its rules, alerts, summary, recent records, and the progress of each writer.

This module does no I/O and reads no clock; the pipeline passes both in. If a rule raises, the error is logged
and counted, and the records are kept.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, TypeVar

from tocsin.protocol import BETWEEN_CELLS, NONE_YET, Alive, Finish
from tocsin_server.core.checkpoints import last_good_checkpoint
from tocsin_server.core.models import (
    Alert,
    Finding,
    RecordBatch,
    RunEvent,
    RunState,
    Transition,
    Writer,
)
from tocsin_server.runs.evaluators import Evaluated, Evaluator
from tocsin_server.runs.rate_limit import Allowance
from tocsin_server.runs.recent_buffer import Recent
from tocsin_server.runs.run_summary import OF_TIME, RunSummary
from tocsin_server.runs.turns import Turns, Waiting
from tocsin_server.runs.validation.step_order import StepOrder
from tocsin_server.store.layer_rows import CONSOLE

log = logging.getLogger("tocsin.rules")

PHASES = 64
"""Maximum number of concurrent phases; above it, the oldest is dropped."""
LONGEST_PHASE = 256
INTERVALS = 100
"""Number of intervals between records that are kept to detect stalls."""
LOGGED_CRASHES = 5
"""Number of rule crashes per run that are logged with their traceback; after that, every 1000th is."""
REPLAYED_AT_ONCE = 64
"""Number of stored batches and events that are passed to the rules together while a run is loaded."""
Done = Callable[[], None]
Result = TypeVar("Result")


class AlertTracker(Protocol):
    """The part of ``RunAlerts`` that a run uses."""

    def apply(self, finding: Finding, now_ns: int) -> list[Transition]: ...
    def resolve(
        self, reason: str, step: int | None, now_ns: int, rules: Collection[str]
    ) -> list[Transition]: ...
    def end(
        self, reason: str, step: int | None, now_ns: int, process_rules: Collection[str]
    ) -> list[Transition]: ...
    def resume(self, reason: str, step: int | None, now_ns: int) -> list[Transition]: ...
    def count(self, records: int, reason: str, now_ns: int) -> list[Transition]: ...
    def restart_count(self) -> None: ...
    def open(self) -> list[Alert]: ...
    def ended(self) -> list[Alert]: ...
    def labels(self, rule: str, name: str) -> set[str]: ...
    @property
    def has_past(self) -> bool: ...
    @property
    def inherits(self) -> bool: ...
    @property
    def unsettled(self) -> bool: ...


@dataclass(eq=False)
class WriterState:
    """The progress of one writer: the highest accepted and the highest durable sequence numbers."""

    writer: Writer
    seq: int = NONE_YET
    event: int = NONE_YET
    durable_seq: int = NONE_YET
    durable_event: int = NONE_YET
    offset_ns: int = 0
    """Added to this client's timestamps to get the server's."""
    connections: int = 0
    finished: bool = False
    held: Finish | None = None
    """A finish message that refers to records that have not arrived yet."""
    order: StepOrder = field(default_factory=StepOrder)
    notices: set[str] = field(default_factory=set)
    """Codes of the notices already sent on this connection."""
    allowance: Allowance | None = None
    """The event rate limit of this writer; None before its first event."""
    over_rate: int = 0
    """Total number of events rejected because of the rate limit."""
    over_rate_stored: int = 0
    """How many of these the stored events already account for."""
    over_rate_ns: int = 0
    """When a stored event last accounted for them."""
    waiting: set[Done] = field(default_factory=set)
    """Callbacks to call when more of this writer is durable."""

    @property
    def settled(self) -> bool:
        """Whether everything accepted from this writer is durable."""
        return (self.durable_seq, self.durable_event) == (self.seq, self.event)


@dataclass
class Heartbeat:
    """When a run last sent something, by the server's clock: the input of the time-based rules."""

    opened_ns: int
    last_record_ns: int | None = None
    intervals_s: deque[float] = field(default_factory=lambda: deque(maxlen=INTERVALS))
    longest_pause_s: float = 0.0
    """Longest interval between records in this attempt."""
    silent_since_ns: int | None = None
    phases: dict[str, int] = field(default_factory=dict)
    """Open phases by name -> when the server received the event that began them."""
    reported_phase: tuple[str, int | None] = ("", None)
    """The phase that the last ``alive`` message named, and when it was first named."""
    is_imported: bool = False
    """Whether the client is an importer: neither its pace nor its end is that of the training."""

    def restart(self, now_ns: int) -> None:
        """Start a new attempt. Its first step may take as long as that of the first attempt."""
        self.opened_ns, self.last_record_ns = now_ns, None
        self.longest_pause_s = 0.0
        self.phases.clear()

    def shift(self, by_ns: int) -> None:
        """Shift all times by ``by_ns`` after a change of the clock, so that durations stay the same."""
        self.opened_ns += by_ns
        self.last_record_ns = None if self.last_record_ns is None else self.last_record_ns + by_ns
        self.silent_since_ns = None if self.silent_since_ns is None else self.silent_since_ns + by_ns
        self.phases = {name: since_ns + by_ns for name, since_ns in self.phases.items()}
        name, since = self.reported_phase
        self.reported_phase = (name, None if since is None else since + by_ns)

    def record(self, now_ns: int) -> None:
        """Note that records arrived. The time between two cells of a notebook is no interval."""
        if self.last_record_ns is not None and self.reported_phase[0] != BETWEEN_CELLS:
            interval_s = (now_ns - self.last_record_ns) / 1e9
            self.intervals_s.append(interval_s)
            self.longest_pause_s = max(self.longest_pause_s, interval_s)
        self.last_record_ns = now_ns

    def event(self, event: RunEvent, now_ns: int) -> None:
        """Note that an event arrived, which may begin or end a phase."""
        name = str(event.data.get("name", ""))[:LONGEST_PHASE]
        if event.kind == "phase" and event.data.get("state") == "begin":
            self.phases[name] = now_ns
            if len(self.phases) > PHASES:
                del self.phases[next(iter(self.phases))]
        elif event.kind == "phase":
            self.phases.pop(name, None)

    def note(self, event: RunEvent) -> None:
        """Note whether an importer sent this event."""
        self.is_imported = self.is_imported or event.kind == "imported"

    def alive(self, message: Alive, now_ns: int) -> None:
        """Note the phase that the training process reports, if any."""
        if message.phase != self.reported_phase[0]:
            self.reported_phase = (message.phase, now_ns if message.phase else None)

    def saved(self) -> dict[str, Any]:
        """Return the intervals between records, so that a restarted server knows which silence is usual."""
        return {
            "last_record_ns": self.last_record_ns,
            "longest_s": max(self.intervals_s, default=None),
            "longest_pause_s": self.longest_pause_s,
            "is_imported": self.is_imported,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Restore what :attr:`saved` returned.

        A last record in the future was saved before the clock was set back; it counts as received now.

        Raises:
            TypeError: ``saved`` was not written by any version of tocsin.
            ValueError: Likewise.
        """
        last_ns = saved.get("last_record_ns")
        self.last_record_ns = None if last_ns is None else min(int(last_ns), self.opened_ns)
        if saved.get("longest_s") is not None:
            self.intervals_s.append(float(saved["longest_s"]))
        self.longest_pause_s = float(saved.get("longest_pause_s") or 0.0)
        self.is_imported = saved.get("is_imported") is True

    @property
    def phase(self) -> tuple[str, int | None]:
        """Return the phase that began last and its start time, or ("", None) outside of phases."""
        return next(reversed(self.phases.items()), self.reported_phase)


class ActiveRun:
    """A run in memory that accepts records."""

    def __init__(
        self,
        summary: RunSummary,
        evaluator: Evaluator,
        tracker: AlertTracker,
        recent: Recent,
        *,
        arrival: int,
        now_ns: int,
        waiting: Waiting | None = None,
    ) -> None:
        self.summary = summary
        self.evaluator = evaluator
        self.tracker = tracker
        self.recent = recent
        self.arrival = arrival
        """Number of the newest accepted batch or event."""
        self.evaluated_arrival = arrival
        """Number of the newest batch or event whose findings are in the alerts."""
        self.durable_arrival = arrival
        self.plan = evaluator.plan
        """The accepted custom rules, and tunings of the built-in rules, for this run."""
        self.turns = Turns(waiting)
        self.dropped = False
        """Whether the run was removed from memory, so that nothing more of it may be submitted."""
        self.check_waits = False
        """Whether a check by the watchdog waits for its turn."""
        self.series: set[str] = set()
        self.writers: dict[int, WriterState] = {}
        self.heartbeat = Heartbeat(opened_ns=now_ns)
        self.rests_until_ns = 0
        """Until this time, the alerts of a failed run stay open for another attempt."""
        self.console_bytes = 0
        """Bytes of output that arrived since the run's log was last trimmed."""
        self.crashes = 0
        self.pending = 0
        """Write batches submitted to the database and not committed yet."""
        self._when_durable: asyncio.Event | None = None
        self._unsaved = 0
        self._saved_ns = now_ns
        self._has_past = tracker.has_past
        """Whether the next attempt has alerts of the one before to resolve."""
        self._inherits = tracker.inherits
        """Whether the attempt has to show that alerts of the one before recovered."""
        self._counted: Writer | None = None
        """The process whose records are counted for that."""
        summary.show(tracker.open(), tracker.ended())

    @property
    def id(self) -> str:
        return self.summary.metadata.id

    @property
    def state(self) -> RunState:
        return self.summary.metadata.state

    @property
    def connected(self) -> bool:
        """Whether any process of this run is connected."""
        return any(state.connections for state in self.writers.values())

    @property
    def saved(self) -> dict[str, Any]:
        """Return the content of the run's ``summary`` column, with the arrival number that it covers."""
        return {
            "arrival": self.evaluated_arrival,
            **self.summary.saved(),
            "heartbeat": self.heartbeat.saved(),
        }

    def committed(self) -> None:
        """Note that a submitted write batch is durable."""
        self.pending -= 1
        if not self.pending and self._when_durable is not None:
            self._when_durable.set()

    async def durable(self) -> None:
        """Return once everything submitted is durable."""
        while self.pending:
            self._when_durable = asyncio.Event()
            await self._when_durable.wait()
        self._when_durable = None

    def prune(self) -> None:
        """Drop disconnected writers whose records are all durable; the store has the rest."""
        for number, state in list(self.writers.items()):
            if not state.connections and state.settled:
                del self.writers[number]

    def others_continue(self, state: WriterState) -> bool:
        """Return whether other processes of this writer's attempt are connected and have not finished."""
        attempt = state.writer.attempt_no
        return any(
            other.connections and not other.finished
            for other in self.writers.values()
            if other is not state and other.writer.attempt_no == attempt
        )

    def shift(self, by_ns: int) -> None:
        """Shift all times by ``by_ns`` after a change of the server's clock."""
        self.heartbeat.shift(by_ns)
        self.summary.shift(by_ns)
        self.rests_until_ns = self.rests_until_ns and self.rests_until_ns + by_ns
        self._saved_ns += by_ns

    def touch(self, now_ns: int) -> None:
        """Note that a message arrived."""
        self.summary.metadata.last_seen_ns = now_ns

    def next_arrival(self) -> int:
        """Return the number for the next event. A batch brings its own, see :meth:`accept_batch`."""
        self.arrival += 1
        return self.arrival

    def accept_batch(self, batch: RecordBatch, now_ns: int) -> None:
        """Note that a batch was accepted, before its turn: the next message is checked with its numbers."""
        self.arrival = batch.arrival
        self.series.update(batch.columns)
        self.heartbeat.record(now_ns)

    def accept_event(self, event: RunEvent, now_ns: int) -> None:
        """Note that an event was accepted, before its turn."""
        if event.kind == CONSOLE:
            self.console_bytes += event.size
        self.heartbeat.event(event, now_ns)

    def begin(self, item: RecordBatch | RunEvent, now_ns: int) -> None:
        """Add an item whose turn it is to the summary and the recent records."""
        if isinstance(item, RunEvent):
            self.heartbeat.note(item)
            self.summary.note(item)
            self._unsaved += 1
        else:
            self.summary.take(item, now_ns)
            self._unsaved += item.n
        self.recent.put(item)

    def answered(
        self,
        item: RecordBatch | RunEvent,
        result: Evaluated,
        now_ns: int,
        findings: Iterable[Finding] = (),
    ) -> tuple[Transition, ...]:
        """Return the alert transitions that an item causes.

        Args:
            item: The item, after :meth:`begin`.
            result: What the rules reported.
            now_ns: When the server accepted it.
            findings: Those of the server itself about this event.
        """
        self.evaluated_arrival = item.arrival
        if result.crash:
            self.crashed(result.crash)
        batch = None if isinstance(item, RunEvent) else item
        return self.note([*result.findings, *findings], now_ns, batch)

    def note(
        self, findings: Iterable[Finding], now_ns: int, batch: RecordBatch | None = None
    ) -> tuple[Transition, ...]:
        """Turn findings into alert transitions.

        The end of a run closes its alerts, see :meth:`RunAlerts.end`. Those of a failed run stay open for a
        while, because another attempt may follow. That attempt supersedes the end of the one before, and has
        to show that it is healthy, see :meth:`RunAlerts.count`.

        Args:
            findings: What the rules report.
            now_ns: The server's time.
            batch: The records that they are about, if any.
        """
        found = self._resumed(now_ns)
        self._inherits = self._inherits or bool(found)
        steps = self._counted_steps(batch)
        counted = 0
        for finding in findings:
            if counted < len(steps) and finding.step is not None:  # count the records before it
                before = sum(1 for step in steps if step < finding.step)
                found += self._count(before - counted, now_ns)
                counted = max(counted, before)
            found += self._guarded(lambda finding=finding: self.tracker.apply(finding, now_ns))  # type: ignore[misc]
        found += self._count(len(steps) - counted, now_ns)
        found += self._closed(now_ns)
        if found:
            self._has_past, self._inherits = self.tracker.has_past, self.tracker.inherits
            self.summary.show(self.tracker.open(), self.tracker.ended())
        return tuple(found)

    def resolved(self, rules: Collection[str], reason: str, now_ns: int) -> tuple[Transition, ...]:
        """Return the transitions that resolve the open alerts of ``rules``."""
        found = self.tracker.resolve(reason, self.summary.last_step, now_ns, rules)
        self.summary.show(self.tracker.open(), self.tracker.ended())
        return tuple(found)

    def _counted_steps(self, batch: RecordBatch | None) -> list[int]:
        """Return the steps of a batch if its records show whether the newest attempt is healthy.

        Those of one process count, so that an attempt of many ranks is not healthy sooner.
        """
        if batch is None or not self._inherits or batch.writer.attempt_no < self.summary.metadata.attempt:
            return []
        if self._counted is None or self._counted.attempt_no < batch.writer.attempt_no:
            if self._counted is not None:
                self.tracker.restart_count()
            self._counted = batch.writer
        return batch.step.tolist() if batch.writer == self._counted else []

    def _count(self, records: int, now_ns: int) -> list[Transition]:
        if records <= 0:
            return []
        reason = f"Attempt {self.summary.metadata.attempt} is healthy"
        return self._guarded(lambda: self.tracker.count(records, reason, now_ns))

    def _closed(self, now_ns: int) -> list[Transition]:
        """Return the transitions that the run's state causes."""
        tracker, step = self.tracker, self.summary.last_step
        if self.rests(now_ns):
            return tracker.resolve(self.summary.ending, step, now_ns, OF_TIME)
        if self.state.ended:
            return tracker.end(self.summary.ending, step, now_ns, OF_TIME)
        return []

    def _resumed(self, now_ns: int) -> list[Transition]:
        """Return the transitions of alerts that the attempt before left, once another one trains."""
        if not self._has_past or self.state.ended:
            return []
        began = f"Attempt {self.summary.metadata.attempt} began"
        return self.tracker.resume(began, self.summary.last_step, now_ns)

    def checkpoint_before(self, step: int | None) -> tuple[int, str] | None:
        """Return step and path of the newest checkpoint at or before ``step``, if one is known."""
        if step is None:
            return None
        saved = last_good_checkpoint(self.evaluator.checkpoints, step + 2).checkpoint
        return None if saved is None else (saved.step, saved.path)

    def rests(self, now_ns: int) -> bool:
        """Return whether the run failed so recently that another attempt may continue its alerts."""
        return self.state is RunState.FAILED and now_ns < self.rests_until_ns

    def replay(self, items: Iterable[RecordBatch | RunEvent], *, summary_upto: int) -> None:
        """Replay stored records and events through the rules, and through the summary if it is older.

        The findings are discarded, because their effect on the alerts is already stored.

        Args:
            items: Batches and events in order of arrival.
            summary_upto: Arrival number that the summary already covers.
        """
        for page in pages(items):
            for item in page:
                if isinstance(item, RunEvent):
                    self.heartbeat.note(item)
                    if item.arrival > summary_upto:
                        self.summary.note(item)
                else:
                    if item.arrival > summary_upto:
                        self.summary.take(item, int(item.time_ns[-1]))
                    self._unsaved += item.n
            for crash in self.evaluator.replay(page):
                self.crashed(crash)
        self.plan = self.evaluator.plan

    def crashed(self, report: str) -> None:
        """Count and log that a rule raised. The records are kept."""
        self.crashes += 1
        if self.crashes <= LOGGED_CRASHES or self.crashes % 1000 == 0:
            log.error(
                "a rule crashed on run %s (%d times); its records are kept\n%s", self.id, self.crashes, report
            )

    def _guarded(self, say: Callable[[], list[Result]]) -> list[Result]:
        try:
            return say()
        except Exception:  # noqa: BLE001 - logged
            self.crashed(traceback.format_exc())
            return []

    def due_for_saving(
        self, now_ns: int, *, records: int, pause_ns: int, after_ns: int, anyway: bool = False
    ) -> bool:
        """Return whether the rule state is to be saved with the next item; it then counts as saved.

        Args:
            now_ns: The server's time.
            records: With at least this many unsaved records, the state is due ``pause_ns`` after the last
                save.
            pause_ns: Minimum time between two saves.
            after_ns: With fewer unsaved records, the state is due this long after the last save.
            anyway: Save in any case.
        """
        since_ns = now_ns - self._saved_ns
        due = since_ns >= (pause_ns if self._unsaved >= records else after_ns)
        if not anyway and not (due and self._unsaved):
            return False
        self._unsaved, self._saved_ns = 0, now_ns
        return True


def pages(items: Iterable[RecordBatch | RunEvent]) -> Iterator[list[RecordBatch | RunEvent]]:
    """Yield ``items`` in lists of at most :data:`REPLAYED_AT_ONCE`."""
    left = iter(items)
    while page := list(islice(left, REPLAYED_AT_ONCE)):
        yield page
