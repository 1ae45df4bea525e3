"""Run the record path: evaluate, store, publish. Only this module combines store, detect, alerts and hub.

Everything here runs on the event loop except :meth:`Commits.notify`; the store is read in threads. A batch is
evaluated when it is accepted. Its alerts are published, and its client gets an ack, only after both are
committed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tocsin.protocol import NONE_YET, Alive, Event, Finish, Hello, Refused
from tocsin_server.core.clock import Clock
from tocsin_server.core.errors import TocsinError
from tocsin_server.core.memory_size import size_of
from tocsin_server.core.models import (
    Failure,
    Finding,
    RecordBatch,
    RunEvent,
    RunState,
    SavedRuleState,
    Transition,
    WriteBatch,
    Writer,
)
from tocsin_server.core.settings import Settings
from tocsin_server.core.stats import IngestCounts
from tocsin_server.detect.interface.similar_runs import CLOSED, SERVER
from tocsin_server.runs import validation
from tocsin_server.runs.active_run import LONGEST_PHASE, ActiveRun, Done, WriterState
from tocsin_server.runs.admission import Admission, Handshakes
from tocsin_server.runs.alert_state import failure_of
from tocsin_server.runs.commit_queue import Commit, Commits, Pressure
from tocsin_server.runs.pubsub import Hub
from tocsin_server.runs.rate_limit import EVENT_BURST_S, Allowance
from tocsin_server.runs.registry import RunRegistry
from tocsin_server.runs.restoring import Restorer
from tocsin_server.runs.rule_assignments import Rulebook
from tocsin_server.store.periodic_jobs import PeriodicJobs
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.writer import StoreWriter

log = logging.getLogger("tocsin.pipeline")

REFUSED_EVERY_NS = 1_000_000_000
"""Interval at which events above the rate limit are reported and stored as one event."""
KEPT_AFTER_END_NS = 60_000_000_000
"""How long an ended run stays in memory after its last message."""


class UnknownWriterError(TocsinError):
    """The writer did no handshake with this process, or its run was deleted: it must connect again."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """An admitted client: its durable sequence numbers, and the rejected parts of its handshake."""

    writer: Writer
    seq: int
    events: int
    rejected: tuple[Refused, ...] = ()


@dataclass(frozen=True, slots=True)
class Accepted:
    """The outcome of one message: rejections to report, its weight in records, and the event, if any."""

    refused: Sequence[Refused] = ()
    weight: int = 0
    event: Event | None = None


def limits_of(settings: Settings) -> validation.Limits:
    """Return the limits of docs/internals/protocol.md with the values of this server."""
    return validation.Limits(
        frame_bytes=settings.limit_frame_bytes,
        series=settings.limit_series,
        name_bytes=settings.limit_name_bytes,
        records_per_s=settings.limit_records_per_s,
        event_bytes=settings.limit_event_bytes,
        events_per_s=settings.limit_events_per_s,
        config_bytes=settings.limit_config_bytes,
    )


class Pipeline:
    """The runs in memory, and the processing of the messages that their clients send."""

    def __init__(
        self,
        settings: Settings,
        writer: StoreWriter,
        reader: StoreReader,
        hub: Hub,
        *,
        jobs: PeriodicJobs | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.settings = settings
        self.jobs = jobs or PeriodicJobs()
        self.limits = limits_of(settings)
        self.hub = hub
        self.clock: Callable[[], int] = clock or self._own_clock()
        self.pressure = Pressure(writer, settings)
        self.registry = RunRegistry(settings, reader, self.jobs.round("restoring runs"))
        self.rulebook = Rulebook(reader, self.jobs.round("rules"))
        self.handshakes = Handshakes(settings.backlog_bytes)
        self.started_ns = self.clock()
        self.store = writer
        self._commits = Commits(self._settle)
        self._admission = Admission(writer, self.registry)
        self.restorer = Restorer(self._restored, self.jobs.round("restoring runs"))
        self.on_clock_set: list[Callable[[int], None]] = []
        """Called on the event loop with the number of ns by which the clock was set."""
        self._oldest_ns: int | None = None
        self.counts = IngestCounts()

    # Lifecycle

    async def start(self) -> None:
        """Create the summaries of all runs, and start to restore those that have not ended.

        With hundreds of runs this takes seconds. A client does not wait for it, because its handshake
        restores its own run. Until a run is restored, it is not evaluated and its alerts do not change.
        """
        self.started_ns = self.clock()
        self._commits.bind(asyncio.get_running_loop())
        await self.rulebook.load()
        self.restorer.start(await self.registry.seed())

    async def stop(self) -> None:
        """Stop publishing. The writer still commits what was accepted."""
        await self.restorer.stop()
        self._commits.bind(None)

    async def _restored(self, run_id: str) -> None:
        self.rulebook.brief(self, await self._admission.present(run_id, self.started_ns))

    # Client messages

    async def open(self, hello: Hello, now_ns: int | None = None, *, bound_to: str = "") -> Admitted:
        """Accept a training process after its checked handshake.

        Args:
            hello: The validated handshake.
            now_ns: Unix time; the server's clock by default.
            bound_to: The only project that its token may write to; empty for any.

        Raises:
            TryLaterError: The database fails, or the run was deleted meanwhile.
            ForeignRunError: The run belongs to another project than ``bound_to``.
        """
        now_ns = self.clock() if now_ns is None else now_ns
        run, state = await self._admission.admit(hello, now_ns, bound_to=bound_to)
        self.restorer.skip(run.id)
        self.rulebook.brief(self, run)
        self.hub.changed(run.id)
        return Admitted(state.writer, state.durable_seq, state.durable_event)

    def accept(self, writer: Writer, frame: bytes, done: Done) -> Accepted:
        """Validate one message and accept its valid parts.

        Args:
            writer: The writer that sent it.
            frame: The encoded message.
            done: Called when more of this writer is durable; :meth:`durable` then returns the new numbers.

        Raises:
            ProtocolError: The frame contains no message; nothing was accepted.
            UnknownWriterError: The writer must repeat its handshake.
        """
        run, state = self._known(writer)
        position = validation.Position(state.seq, state.event, state.offset_ns, run.series)
        checked = validation.validate(frame, position, self.limits)
        message, told = checked.message, list[Refused]()
        if isinstance(message, validation.ValidatedRecords):
            told = self._accept_records(run, state, message, checked.gap)
        elif isinstance(message, Event):
            told = self._accept_event(run, state, message, checked)
        elif isinstance(message, Finish):
            told = self._accept_finish(run, state, message, checked.refusal, done)
        elif isinstance(message, Alive):
            self._accept_alive(run, state, message)
            return Accepted()
        else:
            told = self._accept_too_large(run, state, message)
        self._await(state, done)
        return Accepted(told, checked.weight, message if isinstance(message, Event) else None)

    def _accept_records(
        self, run: ActiveRun, state: WriterState, valid: validation.ValidatedRecords, gap: int
    ) -> list[Refused]:
        self.counts.refused += len(valid.rejected)
        if valid.last_seq is None or valid.last_seq <= state.seq:
            return list(valid.rejected)
        reported = [*valid.rejected, *self._notice(state, valid)]
        self.counts.gaps += gap
        self._take(run, state, valid)
        self._try_end(run, state)
        return reported

    def _take(self, run: ActiveRun, state: WriterState, valid: validation.ValidatedRecords) -> None:
        assert valid.last_seq is not None
        state.seq = valid.last_seq
        now_ns = self._touch(run)
        batch = None
        if valid.n:
            arrival = run.next_arrival()
            batch = RecordBatch(
                state.writer, arrival, valid.seq, valid.n, valid.step, valid.time_ns, valid.columns
            )
        begun, transitions = time.perf_counter(), run.take_batch(batch, now_ns) if batch else ()
        self._count(valid, time.perf_counter() - begun)
        whole = batch is not None and batch.seq + batch.n - 1 == valid.last_seq
        rejected_to = None if whole else (state.writer, valid.last_seq)
        self._submit(run, state, batch=batch, rejected_to_seq=rejected_to, transitions=transitions)

    def _count(self, valid: validation.ValidatedRecords, judged_s: float) -> None:
        counts = self.counts
        counts.batches += 1
        counts.records += valid.n
        counts.points += sum(column.v.size for column in valid.columns.values())
        counts.judged_s += judged_s

    def _notice(self, state: WriterState, valid: validation.ValidatedRecords) -> list[Refused]:
        notice = state.order.notice(valid)
        if notice is None or notice.code in state.notices:
            return []
        state.notices.add(notice.code)
        return [notice]

    def _accept_too_large(
        self, run: ActiveRun, state: WriterState, message: validation.TooLarge
    ) -> list[Refused]:
        """Mark the contents of a rejected message as handled."""
        outline = message.outline
        if message.refusal.scope == "event":
            self._reject_event(run, state, outline.no, message.refusal)
        else:
            self.counts.refused += 1
            last = outline.seq + outline.n - 1
            countable = outline.seq >= 0 and 0 < outline.n <= validation.MOST_RECORDS
            if message.refusal.scope == "records" and countable and state.seq < last < validation.HIGHEST:
                state.seq = last
                self._submit(run, state, rejected_to_seq=(state.writer, last))
        return [message.refusal]

    def _accept_event(
        self, run: ActiveRun, state: WriterState, message: Event, checked: validation.Validated
    ) -> list[Refused]:
        """Accept an event. A rejected one is stored as ``refused`` so that the sequence stays contiguous."""
        if message.no <= state.event:
            return []
        state.allowance = state.allowance or Allowance(self.limits.events_per_s)
        rejection = checked.refusal
        if rejection is not None:
            self._reject_event(run, state, message.no, rejection)
        elif not state.allowance.take(message.t, time.monotonic()):
            rejection = self._over_rate(run, state, message.no)
        else:
            self._report_rate(run, state)
            time_ns, size = message.t + state.offset_ns, checked.size
            self._put_event(
                run, state, message.no, message.kind, time_ns, message.step, message.data, size=size
            )
        return [rejection] if rejection else []

    def _reject_event(self, run: ActiveRun, state: WriterState, no: int, rejection: Refused) -> None:
        if not state.event < no < validation.HIGHEST:
            return
        self.counts.refused += 1
        self._report_rate(run, state)
        self._put_event(run, state, no, "refused", self.clock(), None, _refusal(rejection))

    def _over_rate(self, run: ActiveRun, state: WriterState, no: int) -> Refused | None:
        """Reject an event above the rate limit. At most one row per second counts them, to keep the table
        small."""
        self.counts.refused += 1
        state.event = no
        state.over_rate += 1
        if self.clock() - state.over_rate_ns < REFUSED_EVERY_NS:
            return None
        return self._report_rate(run, state)

    def _report_rate(self, run: ActiveRun, state: WriterState) -> Refused | None:
        """Store the number of events rejected by the rate limit, under the number of the last one."""
        if state.over_rate == state.over_rate_stored:
            return None
        limit = self.limits.events_per_s
        expected = f"at most {limit} events per second, in bursts of up to {round(limit * EVENT_BURST_S):,}"
        got = f"{state.over_rate:,} events above the limit so far, which were rejected"
        rejection = Refused("event", "event-rate", expected, got, seq=state.event)
        state.over_rate_stored, state.over_rate_ns = state.over_rate, self.clock()
        self._put_event(run, state, state.event, "refused", self.clock(), None, _refusal(rejection))
        return rejection

    def _put_event(
        self,
        run: ActiveRun,
        state: WriterState,
        no: int,
        kind: str,
        time_ns: int,
        step: int | None,
        data: Mapping[str, Any],
        changes: Mapping[str, Any] | None = None,
        failure: Failure | None = None,
        size: int = 0,
    ) -> None:
        state.event = no
        now_ns = self._touch(run)
        size = size or size_of(data)
        event = RunEvent(state.writer, run.next_arrival(), no, kind, time_ns, step, data, size)
        begun = time.perf_counter()
        transitions = run.take_event(event, now_ns)
        self.counts.events += 1
        self.counts.judged_s += time.perf_counter() - begun
        self._submit(run, state, event=event, transitions=transitions, changes=changes, failure=failure)

    def _accept_alive(self, run: ActiveRun, state: WriterState, message: Alive) -> None:
        """Note that the process is alive, even if its step does not advance."""
        message.phase = message.phase[:LONGEST_PHASE]
        run.heartbeat.alive(message, self._touch(run))
        run.summary.alive(state.writer.writer_no, message)
        self.hub.changed(run.id)

    def _accept_finish(
        self, run: ActiveRun, state: WriterState, message: Finish, rejection: Refused | None, done: Done
    ) -> list[Refused]:
        """Accept the finish of a writer. It takes effect once all records that it refers to have arrived."""
        if message.no <= state.event:
            return []
        if rejection is not None:
            self._reject_event(run, state, message.no, rejection)
            return [rejection]
        state.held = message
        state.waiting.add(done)
        self._try_end(run, state)
        return []

    def _try_end(self, run: ActiveRun, state: WriterState) -> None:
        held = state.held
        if held is None or held.records > state.seq + 1:
            return
        self._report_rate(run, state)
        state.held, state.finished = None, True
        error = validation.error_of(held, self.limits)
        data = {"state": held.state, "records": held.records, "error": error}
        changes = self._ending(run, state, held.state, error)
        time_ns, step, now_ns, failure = held.t + state.offset_ns, run.summary.last_step, self.clock(), None
        if changes:
            run.rests_until_ns = 0
        if changes and changes["state"] is RunState.FAILED:
            reported: dict[str, Any] = {"step": step, "time_ns": time_ns, "now_ns": now_ns}
            failure = failure_of(run.id, state.writer.attempt_no, error, **reported)
            run.rests_until_ns = min(time_ns, now_ns) + int(self.settings.restart_grace_s * 1e9)
        if changes and not run.rests(now_ns):
            data["run_ended"] = True
        self._put_event(run, state, held.no, "finish", time_ns, step, data, changes, failure)

    def _ending(
        self, run: ActiveRun, state: WriterState, word: str, error: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the changes to the run when a writer ends; none while other ranks or attempts continue."""
        failed = word == RunState.FAILED
        superseded = state.writer.attempt_no < run.summary.metadata.attempt
        if run.state.ended or superseded or (not failed and run.others_continue(state)):
            return {}
        now_ns = self.clock()
        metadata = run.summary.metadata
        metadata.state, metadata.ended_ns = RunState(word), now_ns
        metadata.error = dict(error) if failed else None
        run.summary.parting = None
        return {"state": metadata.state, "ended_ns": now_ns, "error": metadata.error}

    def disconnected(self, writer: Writer, *, silent_s: float = 0.0) -> None:
        """Handle the end of one connection of this writer, which had been silent for ``silent_s``."""
        run = self.registry.active.get(writer.run_id)
        state = run.writers.get(writer.writer_no) if run else None
        if run is None or state is None or state.writer is not writer:
            return
        state.connections -= 1
        if not state.connections:
            state.held = None
            run.summary.gone(writer.writer_no)
        if not run.connected:
            run.heartbeat.silent_since_ns = self.clock() - int(silent_s * 1e9)
        self.hub.changed(run.id)

    def durable(self, writer: Writer) -> tuple[int, int]:
        """Return the highest durable record and event numbers of this writer, as an ack reports them."""
        _, state = self._known(writer)
        return state.durable_seq, state.durable_event

    # Watchdog

    def _own_clock(self) -> Clock:
        clock = Clock()
        clock.jumped = self._clock_was_set
        return clock

    def _clock_was_set(self, jump_ns: int) -> None:
        """Shift all start times by the same amount as the clock."""
        self.started_ns += jump_ns
        if self._oldest_ns is not None:
            self._oldest_ns += jump_ns
        for run in self.registry.active.values():
            run.shift(jump_ns)
        for tell in self.on_clock_set:
            tell(jump_ns)

    def apply(
        self, run_id: str, findings: Iterable[Finding], changes: Mapping[str, Any] | None = None
    ) -> None:
        """Apply findings and changes of a run that do not result from a record."""
        run = self.registry.active.get(run_id)
        if run is None:
            return
        transitions = run.note(findings, self.clock())
        if changes and "state" in changes:
            run.summary.metadata.state = RunState(changes["state"])
        if transitions or changes:
            self._submit(run, None, transitions=transitions, changes=changes)

    def close(self, run_id: str) -> None:
        """Resolve the alerts of a failed run after its grace period ended without another attempt."""
        run = self.registry.active.get(run_id)
        if run is None:
            return
        run.rests_until_ns = 0
        if run.book.unsettled:
            self._add_event(run, CLOSED, {"state": run.state}, {"state": run.state})

    def steps_per_s(self, run_id: str) -> float | None:
        """Return the throughput of a run in memory, or None if unknown."""
        run = self.registry.active.get(run_id)
        return None if run is None else run.summary.steps_per_s(self.clock())

    def add_event(self, run_id: str, kind: str, data: Mapping[str, Any]) -> None:
        """Add a server event to a run, for its rules. It is stored and replayed like any other event."""
        run = self.registry.active.get(run_id)
        if run is not None:
            self._add_event(run, kind, data)

    def _add_event(
        self, run: ActiveRun, kind: str, data: Mapping[str, Any], changes: Mapping[str, Any] | None = None
    ) -> None:
        arrival, now_ns = run.next_arrival(), self.clock()
        event = RunEvent(Writer(run.id, SERVER, 0, 0), arrival, arrival, kind, now_ns, None, data)
        transitions = run.take_event(event, now_ns)
        self._submit(run, None, event=event, transitions=transitions, changes=changes)

    def tidy(self, run: ActiveRun, now_ns: int) -> None:
        """Remove an ended run and disconnected writers from memory; the run's row stays in the fleet."""
        for state in run.writers.values():
            if now_ns - state.over_rate_ns >= REFUSED_EVERY_NS:
                self._report_rate(run, state)
        run.prune()
        quiet = now_ns - run.summary.metadata.last_seen_ns > KEPT_AFTER_END_NS and not run.rests(now_ns)
        if run.state.ended and quiet and not run.pending and not run.connected:
            self.registry.retire(run.id)

    def forget(self, run_id: str) -> None:
        """Drop a deleted run from memory; its clients must repeat their handshakes."""
        self.restorer.skip(run_id)
        self.registry.drop(run_id)
        self.hub.changed(run_id)

    # Durability

    def _touch(self, run: ActiveRun) -> int:
        now_ns = self.clock()
        run.summary.metadata.last_seen_ns = now_ns
        return now_ns

    def _known(self, writer: Writer) -> tuple[ActiveRun, WriterState]:
        run = self.registry.active.get(writer.run_id)
        state = run.writers.get(writer.writer_no) if run else None
        # Compared by identity: if a deleted run was created again, its numbers belong to other processes.
        if run is None or state is None or state.writer is not writer:
            raise UnknownWriterError(f"writer: expected one of a run in memory, got run {writer.run_id}")
        return run, state

    def _submit(
        self,
        run: ActiveRun,
        state: WriterState | None,
        *,
        batch: RecordBatch | None = None,
        event: RunEvent | None = None,
        rejected_to_seq: tuple[Writer, int] | None = None,
        transitions: tuple[Transition, ...] = (),
        changes: Mapping[str, Any] | None = None,
        failure: Failure | None = None,
    ) -> None:
        """Submit everything that must become durable together; the end of a run also saves its rule state."""
        now_ns, snapshot, changes = self.clock(), None, changes or {}
        saved = self._saved(run, now_ns, anyway=event is not None and bool(changes))
        if saved is not None:
            snapshot, changes = saved, {**changes, "summary": run.saved}
        reached = (state.seq, state.event) if state else (NONE_YET, NONE_YET)
        commit = Commit(run, state, run.arrival, *reached, transitions)
        done = partial(self._commits.notify, commit)
        run.pending += 1
        if self._oldest_ns is None:
            self._oldest_ns = now_ns
        made = WriteBatch(
            run.id, batch, event, rejected_to_seq, transitions, failure, snapshot, changes, done
        )
        self.store.submit(made)

    def _saved(self, run: ActiveRun, now_ns: int, *, anyway: bool) -> SavedRuleState | None:
        settings = self.settings
        pause_ns, after_ns = int(settings.rule_state_pause_s * 1e9), int(settings.rule_state_s * 1e9)
        records = settings.rule_state_records
        return run.save_rules(now_ns, records=records, pause_ns=pause_ns, after_ns=after_ns, anyway=anyway)

    def _await(self, state: WriterState, done: Done) -> None:
        """Call ``done`` each time more of this writer becomes durable, or now if everything is."""
        if state.settled:
            done()
        else:
            state.waiting.add(done)

    def _settle(self, commits: list[Commit]) -> None:
        """Publish what a group commit made durable."""
        self._oldest_ns = None if not self.store.backlog_bytes else self.clock()
        arrivals: dict[str, int] = {}
        states: dict[WriterState, None] = {}
        for commit in commits:
            commit.run.pending -= 1
            commit.run.durable_arrival = max(commit.run.durable_arrival, commit.arrival)
            arrivals[commit.run.id] = commit.run.durable_arrival
            if commit.writer is not None:
                commit.writer.durable_seq = max(commit.writer.durable_seq, commit.seq)
                commit.writer.durable_event = max(commit.writer.durable_event, commit.event)
                states[commit.writer] = None
            for transition in commit.transitions:
                self.hub.alert(transition)
        for run_id, arrival in arrivals.items():
            self.hub.committed(run_id, arrival)
        for state in states:
            _call(state)
        self.pressure.eased()

    # Back-pressure

    async def ready_for_more(self) -> None:
        """Return when the backlog is below its limit."""
        await self.pressure.wait()

    def lag_ms(self) -> int:
        """Return roughly how long the oldest accepted record has waited to become durable."""
        return 0 if self._oldest_ns is None else (self.clock() - self._oldest_ns) // 1_000_000


def _call(state: WriterState) -> None:
    """Call all waiting callbacks, and forget them if nothing is in progress."""
    waiting = list(state.waiting)
    if state.settled and state.held is None:
        state.waiting.clear()
    for done in waiting:
        done()


def _refusal(rejection: Refused) -> dict[str, Any]:
    return {
        "scope": rejection.scope,
        "code": rejection.code,
        "expected": rejection.expected,
        "got": rejection.got,
    }
