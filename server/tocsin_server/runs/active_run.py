"""A run in memory: its rules, alerts, row, newest records, and what each writer has handed in.

No I/O and no clock: the pipeline brings both. A rule that crashes is logged and counted, and
never costs a record.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from tocsin.protocol import NONE_YET, Alive, Finish
from tocsin_server.core.models import (
    Alert,
    Finding,
    RecordBatch,
    RunEvent,
    RunState,
    SavedRuleState,
    Transition,
    Writer,
)
from tocsin_server.detect.engine.plan import NO_PLAN, Plan
from tocsin_server.runs.rate_limit import Allowance
from tocsin_server.runs.recent_buffer import Recent
from tocsin_server.runs.run_summary import OF_TIME, RunSummary
from tocsin_server.runs.validation import StepOrder

log = logging.getLogger("tocsin.rules")

PHASES = 64
"""So many phases may be under way at once; of more, the newest count."""
LONGEST_PHASE = 256
INTERVALS = 100
"""So many intervals between records are remembered for the judgement of stalls."""
LOGGED_CRASHES = 5
"""Crashes of rules that a run logs with their traceback; after that every 1000th."""
Done = Callable[[], None]
Said = TypeVar("Said")


class Judge(Protocol):
    """What a run needs of ``detect.engine.Engine``."""

    def observe(self, batch: RecordBatch) -> list[Finding]: ...
    def observe_event(self, event: RunEvent) -> list[Finding]: ...
    def save(self) -> bytes: ...


class Book(Protocol):
    """What a run needs of ``alerts.AlertBook``."""

    def apply(self, finding: Finding, now_ns: int) -> list[Transition]: ...
    def rest(self, reason: str, step: int | None, now_ns: int, over: Collection[str]) -> list[Transition]: ...
    def end(self, reason: str, step: int | None, now_ns: int) -> list[Transition]: ...
    def open(self) -> list[Alert]: ...
    @property
    def unsettled(self) -> bool: ...


@dataclass(eq=False)
class WriterState:
    """How far one writer has come: accepted (judged, on its way) and durable numbers."""

    writer: Writer
    seq: int = NONE_YET
    event: int = NONE_YET
    durable_seq: int = NONE_YET
    durable_event: int = NONE_YET
    offset_ns: int = 0
    """Added to this trainer's times to get the server's."""
    connections: int = 0
    finished: bool = False
    held: Finish | None = None
    """A finish that names records which did not come yet."""
    order: StepOrder = field(default_factory=StepOrder)
    notices: set[str] = field(default_factory=set)
    """Notices already given on this connection."""
    allowance: Allowance | None = None
    """How many events this writer may still make; None before its first one."""
    over_rate: int = 0
    """Events that were refused because of their rate, all in all."""
    over_rate_stored: int = 0
    """How many of these the stored events have counted."""
    over_rate_ns: int = 0
    """When they last did."""
    waiting: set[Done] = field(default_factory=set)
    """Who wants to know when more of this writer is durable."""

    @property
    def settled(self) -> bool:
        """Whether all that was accepted is durable."""
        return (self.durable_seq, self.durable_event) == (self.seq, self.event)


@dataclass
class Heartbeat:
    """When a run was last heard of, by the server's clock: what only time can judge."""

    opened_ns: int
    last_record_ns: int | None = None
    intervals_s: deque[float] = field(default_factory=lambda: deque(maxlen=INTERVALS))
    longest_pause_s: float = 0.0
    """The longest interval of this attempt."""
    silent_since_ns: int | None = None
    phases: dict[str, int] = field(default_factory=dict)
    """Phases begun by an event and not ended -> when the server heard of it."""
    reported_phase: tuple[str, int | None] = ("", None)
    """The phase that ``alive`` names, and since when."""

    def restart(self, now_ns: int) -> None:
        """A new attempt said hello: its first step may take as long as that of the first."""
        self.opened_ns, self.last_record_ns = now_ns, None
        self.longest_pause_s = 0.0
        self.phases.clear()

    def shift(self, by_ns: int) -> None:
        """The clock was set by so much: every duration stays as it is."""
        self.opened_ns += by_ns
        self.last_record_ns = None if self.last_record_ns is None else self.last_record_ns + by_ns
        self.silent_since_ns = None if self.silent_since_ns is None else self.silent_since_ns + by_ns
        self.phases = {name: since_ns + by_ns for name, since_ns in self.phases.items()}
        name, since = self.reported_phase
        self.reported_phase = (name, None if since is None else since + by_ns)

    def record(self, now_ns: int) -> None:
        """Records arrived."""
        if self.last_record_ns is not None:
            interval_s = (now_ns - self.last_record_ns) / 1e9
            self.intervals_s.append(interval_s)
            self.longest_pause_s = max(self.longest_pause_s, interval_s)
        self.last_record_ns = now_ns

    def event(self, event: RunEvent, now_ns: int) -> None:
        """An event arrived: it may begin or end a phase."""
        name = str(event.data.get("name", ""))[:LONGEST_PHASE]
        if event.kind == "phase" and event.data.get("state") == "begin":
            self.phases[name] = now_ns
            if len(self.phases) > PHASES:
                del self.phases[next(iter(self.phases))]
        elif event.kind == "phase":
            self.phases.pop(name, None)

    def alive(self, message: Alive, now_ns: int) -> None:
        """The trainer says which phase it is in, if any."""
        if message.phase != self.reported_phase[0]:
            self.reported_phase = (message.phase, now_ns if message.phase else None)

    def saved(self) -> dict[str, Any]:
        """The run's pace, so that a restart knows which silence is usual."""
        return {
            "last_record_ns": self.last_record_ns,
            "longest_s": max(self.intervals_s, default=None),
            "longest_pause_s": self.longest_pause_s,
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Resume from what was saved. Raises TypeError and ValueError for what no version saved.

        A time after now was saved before the clock was set back: it counts as now.
        """
        last_ns = saved.get("last_record_ns")
        self.last_record_ns = None if last_ns is None else min(int(last_ns), self.opened_ns)
        if saved.get("longest_s") is not None:
            self.intervals_s.append(float(saved["longest_s"]))
        self.longest_pause_s = float(saved.get("longest_pause_s") or 0.0)

    @property
    def phase(self) -> tuple[str, int | None]:
        """The phase that began last, and when; ("", None) outside of phases."""
        return next(reversed(self.phases.items()), self.reported_phase)


class ActiveRun:
    """One run whose records are being taken."""

    def __init__(
        self, summary: RunSummary, judge: Judge, book: Book, recent: Recent, *, arrival: int, now_ns: int
    ) -> None:
        self.summary = summary
        self.judge = judge
        self.book = book
        self.recent = recent
        self.arrival = arrival
        """Number of the newest batch or event that was accepted."""
        self.durable_arrival = arrival
        self.series: set[str] = set()
        self.writers: dict[int, WriterState] = {}
        self.heartbeat = Heartbeat(opened_ns=now_ns)
        self.rests_until_ns = 0
        """Until then the alerts of a failed run wait for a further attempt."""
        self.crashes = 0
        self.pending = 0
        """Intakes on their way to the database."""
        self._unsaved = 0
        self._saved_ns = now_ns
        summary.open_alerts = tuple(book.open())

    @property
    def id(self) -> str:
        return self.summary.metadata.id

    @property
    def state(self) -> RunState:
        return self.summary.metadata.state

    @property
    def plan(self) -> Plan:
        """The rules of people, and their settings of the built-in ones, that judge this run now."""
        return getattr(self.judge, "plan", NO_PLAN)

    @property
    def connected(self) -> bool:
        """Whether any of its processes has a connection."""
        return any(state.connections for state in self.writers.values())

    @property
    def saved(self) -> dict[str, Any]:
        """What the run's ``board`` column keeps, with the arrival that it covers."""
        return {"arrival": self.arrival, **self.summary.saved(), "heartbeat": self.heartbeat.saved()}

    def prune(self) -> None:
        """Forgets writers that are gone and whose every record is durable: the store knows the rest."""
        for number, state in list(self.writers.items()):
            if not state.connections and state.settled:
                del self.writers[number]

    def others_continue(self, state: WriterState) -> bool:
        """Whether other processes of this writer's attempt are connected and have not finished."""
        attempt = state.writer.attempt_no
        return any(
            other.connections and not other.finished
            for other in self.writers.values()
            if other is not state and other.writer.attempt_no == attempt
        )

    def shift(self, by_ns: int) -> None:
        """The server's clock was set by so much: silences, pauses and waits go on as they were."""
        self.heartbeat.shift(by_ns)
        self.summary.shift(by_ns)
        self.rests_until_ns = self.rests_until_ns and self.rests_until_ns + by_ns
        self._saved_ns += by_ns

    def next_arrival(self) -> int:
        """The number of the batch or event about to be taken."""
        self.arrival += 1
        return self.arrival

    def take_batch(self, batch: RecordBatch, now_ns: int) -> tuple[Transition, ...]:
        """Judges and keeps a batch; returns what it does to the alerts."""
        self.series.update(batch.columns)
        self.summary.take(batch, now_ns)
        self.recent.put(batch)
        self.heartbeat.record(now_ns)
        self._unsaved += batch.n
        return self.note(self._judged(lambda: self.judge.observe(batch)), now_ns)

    def take_event(self, event: RunEvent, now_ns: int) -> tuple[Transition, ...]:
        """Judges and keeps an event; returns what it does to the alerts."""
        self.recent.put(event)
        self.heartbeat.event(event, now_ns)
        self._unsaved += 1
        return self.note(self._judged(lambda: self.judge.observe_event(event)), now_ns)

    def note(self, findings: Iterable[Finding], now_ns: int) -> tuple[Transition, ...]:
        """Turns findings into alert transitions. Of a run that has ended nothing stays open, but for the
        while in which one that failed may come back."""
        found: list[Transition] = []
        for finding in findings:
            found += self._judged(lambda finding=finding: self.book.apply(finding, now_ns))  # type: ignore[misc]
        if self.rests(now_ns):
            found += self.book.rest(self.summary.ending, self.summary.last_step, now_ns, OF_TIME)
        elif self.state.ended:
            self.summary.part_with(self.book.open())
            found += self.book.end(self.summary.ending, self.summary.last_step, now_ns)
        if found:
            self.summary.open_alerts = tuple(self.book.open())
        return tuple(found)

    def rests(self, now_ns: int) -> bool:
        """Whether the run failed so lately that a further attempt may go on with its alerts."""
        return self.state is RunState.FAILED and now_ns < self.rests_until_ns

    def replay(self, items: Iterable[RecordBatch | RunEvent], *, summary_upto: int) -> None:
        """Brings the rules, and the row where it is older, up to what is stored; alerts stay as they are.

        The findings are discarded: what they did to the alerts is durable with their records.
        """
        for item in items:
            if isinstance(item, RunEvent):
                self._judged(lambda item=item: self.judge.observe_event(item))  # type: ignore[misc]
                continue
            if item.arrival > summary_upto:
                self.summary.take(item, int(item.time_ns[-1]))
            self._judged(lambda item=item: self.judge.observe(item))  # type: ignore[misc]
            self._unsaved += item.n

    def _judged(self, say: Callable[[], list[Said]]) -> list[Said]:
        try:
            return say()
        except Exception:
            self.crashes += 1
            if self.crashes <= LOGGED_CRASHES or self.crashes % 1000 == 0:
                log.exception(
                    "a rule crashed on run %s (%d times); its records are kept", self.id, self.crashes
                )
            return []

    def save_rules(
        self, now_ns: int, *, records: int, pause_ns: int, after_ns: int, anyway: bool = False
    ) -> SavedRuleState | None:
        """The state of the rules where one is due: after so many records and at least ``pause_ns``, or
        ``after_ns`` after the last."""
        since_ns = now_ns - self._saved_ns
        due = since_ns >= (pause_ns if self._unsaved >= records else after_ns)
        if not anyway and not (due and self._unsaved):
            return None
        bodies = self._judged(lambda: [self.judge.save()])
        self._unsaved, self._saved_ns = 0, now_ns
        return SavedRuleState(self.id, self.arrival, bodies[0]) if bodies else None
