"""Run the record path: validate, evaluate and submit each message of a client, in one call.

Everything here runs on the event loop. A batch is evaluated when it is accepted; ``durability`` publishes its
alerts and lets the client's connection send an ack only after both are committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from tocsin.protocol import Alive, Event, Finish, Hello, Refused
from tocsin_server.core.clock import Clock
from tocsin_server.core.errors import TocsinError
from tocsin_server.core.models import RecordBatch, Writer
from tocsin_server.core.settings import Settings
from tocsin_server.core.stats import IngestCounts
from tocsin_server.runs.active_run import LONGEST_PHASE, ActiveRun, Done, WriterState
from tocsin_server.runs.admission import Admission, Handshakes, Waits
from tocsin_server.runs.commit_queue import Pressure
from tocsin_server.runs.durability import Durability
from tocsin_server.runs.evaluation import Evaluation
from tocsin_server.runs.evaluators import LocalEvaluator
from tocsin_server.runs.event_acceptance import EventAcceptor
from tocsin_server.runs.fair_share import FairShare
from tocsin_server.runs.pubsub import Hub
from tocsin_server.runs.registry import RunRegistry
from tocsin_server.runs.restoring import Restorer
from tocsin_server.runs.rule_assignments import Rulebook
from tocsin_server.runs.rule_process import RemoteEvaluator
from tocsin_server.runs.rule_processes import RuleProcesses, share_of_core
from tocsin_server.runs.server_changes import ServerChanges
from tocsin_server.runs.validation.frames import TooLarge
from tocsin_server.runs.validation.limits import HIGHEST, MOST_RECORDS, limits_of
from tocsin_server.runs.validation.message import validate
from tocsin_server.runs.validation.records import Position, ValidatedRecords
from tocsin_server.store.periodic_jobs import PeriodicJobs
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.writer import StoreWriter

LOOK_S = 1.0
"""Interval of checking how long the rules took, and of retries."""


class UnknownWriterError(TocsinError):
    """The writer did no handshake with this process, or its run was deleted: it must connect again."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """An admitted client and its durable sequence numbers."""

    writer: Writer
    seq: int
    events: int


@dataclass(frozen=True, slots=True)
class Accepted:
    """The outcome of one message: rejections to report, its weight in records, and the event, if any."""

    refused: Sequence[Refused] = ()
    weight: int = 0
    event: Event | None = None


class Pipeline:
    """The path of a client's messages: from its handshake to what is submitted to the store."""

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
        self.registry = RunRegistry(
            settings,
            reader,
            self.jobs.round("restoring runs"),
            RuleProcesses(settings.rule_processes),
        )
        self.pressure = Pressure(writer, settings, self.registry.waiting)
        self.share = FairShare()
        self.rulebook = Rulebook(reader, self.jobs.round("rules"))
        self.handshakes = Handshakes(settings.backlog_bytes)
        self.started_ns = self.clock()
        self.store = writer
        self.counts = IngestCounts()
        self.restorer = Restorer(self._restored, self.jobs.round("restoring runs"))
        self.durability = Durability(writer, hub, self.pressure, self._now)
        self.evaluation = Evaluation(settings, self.durability, self.counts, self._reload, self._failed)
        self._balancing: asyncio.Task[None] | None = None
        self._moves = self.jobs.round("rule processes")
        self._reloads = self.jobs.round("loading rules again")
        self._reloading: set[asyncio.Task[None]] = set()
        self._stopping = False
        self.on_clock_set: list[Callable[[int], None]] = []
        """Called on the event loop with the number of ns by which the clock was set."""
        self._admission = Admission(writer, self.registry)
        self._events = EventAcceptor(settings, self.limits, self.evaluation, self.counts, self._now)
        self.changes = ServerChanges(
            self.registry, self.restorer, self._events, self.evaluation, self.durability, hub, self._now
        )

    def _now(self) -> int:
        return self.clock()

    # Lifecycle

    async def start(self) -> None:
        """Create the summaries of all runs, and start to restore those that have not ended.

        With hundreds of runs this takes seconds. A client does not wait for it, because its handshake
        restores its own run. Until a run is restored, it is not evaluated and its alerts do not change.
        """
        self.started_ns = self.clock()
        self.durability.start()
        self.registry.guard.start()
        self.registry.processes.start()
        self._balancing = asyncio.create_task(self._balance(), name="rule processes")
        await self.rulebook.load()
        self.restorer.start(await self.registry.seed())

    async def stop(self) -> None:
        """Stop restoring, evaluating and publishing. The writer still commits what was evaluated."""
        await self.restorer.stop()
        if self._balancing is not None:
            self._balancing.cancel()
        with suppress(TimeoutError):
            drained = (run.turns.drained() for run in self.registry.active.values())
            await asyncio.wait_for(asyncio.gather(*drained), self.settings.shutdown_s / 2)
        self._stopping = True
        self.registry.guard.stop()
        for task in self._reloading:
            task.cancel()
        await self.registry.processes.stop()
        self.durability.stop()

    async def _restored(self, run_id: str) -> None:
        self.rulebook.brief(self.changes, await self._admission.present(run_id, self.started_ns))

    # Client messages

    async def open(
        self, hello: Hello, now_ns: int | None = None, *, bound_to: str = "", waits: Waits | None = None
    ) -> Admitted:
        """Accept a training process after its checked handshake.

        Args:
            hello: The validated handshake.
            now_ns: Unix time; the server's clock by default.
            bound_to: The only project that its token may write to; empty for any.
            waits: See :meth:`Admission.admit`.

        Raises:
            TryLaterError: The database fails, or the run was deleted meanwhile.
            ForeignRunError: The run belongs to another project than ``bound_to``.
        """
        now_ns = self.clock() if now_ns is None else now_ns
        run, state = await self._admission.admit(hello, now_ns, bound_to=bound_to, waits=waits)
        self.restorer.skip(run.id)
        self.rulebook.brief(self.changes, run)
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
        position = Position(
            state.writer, run.arrival + 1, state.seq, state.event, state.offset_ns, run.series
        )
        checked = validate(frame, position, self.limits)
        message, refused = checked.message, list[Refused]()
        if isinstance(message, ValidatedRecords):
            refused = self._accept_records(run, state, message, checked.gap)
        elif isinstance(message, Event):
            refused = self._events.accept(run, state, message, checked.refusal, checked.size)
        elif isinstance(message, Finish):
            refused = self._events.accept_finish(run, state, message, checked.refusal, done)
        elif isinstance(message, Alive):
            self._accept_alive(run, state, message)
            return Accepted()
        else:
            refused = self._accept_too_large(run, state, message)
        self.durability.notify(state, done)
        return Accepted(refused, checked.weight, message if isinstance(message, Event) else None)

    def _accept_records(
        self, run: ActiveRun, state: WriterState, valid: ValidatedRecords, gap: int
    ) -> list[Refused]:
        self.counts.refused += len(valid.rejected)
        if valid.last_seq is None or valid.last_seq <= state.seq:
            return list(valid.rejected)
        reported = [*valid.rejected, *self._notice(state, valid.batch)]
        self.counts.gaps += gap
        self._take(run, state, valid.batch, valid.last_seq)
        self._events.try_end(run, state)
        return reported

    def _take(self, run: ActiveRun, state: WriterState, batch: RecordBatch, last_seq: int) -> None:
        """Evaluate and submit the new records of a message, whose highest number is ``last_seq``."""
        state.seq = last_seq
        now_ns = self.clock()
        run.touch(now_ns)
        self._count(batch)
        whole = batch.n and batch.seq + batch.n - 1 == last_seq
        rejected = None if whole else (state.writer, last_seq)
        if batch.n:
            run.accept_batch(batch, now_ns)
            self.evaluation.batch(run, state, batch, now_ns, rejected)
        elif rejected:
            self.evaluation.rejected(run, state, rejected)

    def _count(self, batch: RecordBatch) -> None:
        counts = self.counts
        counts.batches += 1
        counts.records += batch.n
        counts.points += sum(column.v.size for column in batch.columns.values())

    def _notice(self, state: WriterState, batch: RecordBatch) -> list[Refused]:
        notice = state.order.notice(batch)
        if notice is None or notice.code in state.notices:
            return []
        state.notices.add(notice.code)
        return [notice]

    def _accept_too_large(self, run: ActiveRun, state: WriterState, message: TooLarge) -> list[Refused]:
        """Mark the contents of a rejected message as handled."""
        outline = message.outline
        if message.refusal.scope == "event":
            self._events.reject(run, state, outline.no, message.refusal)
        else:
            self.counts.refused += 1
            last = outline.seq + outline.n - 1
            countable = outline.seq >= 0 and 0 < outline.n <= MOST_RECORDS
            if message.refusal.scope == "records" and countable and state.seq < last < HIGHEST:
                state.seq = last
                self.evaluation.rejected(run, state, (state.writer, last))
        return [message.refusal]

    def _accept_alive(self, run: ActiveRun, state: WriterState, message: Alive) -> None:
        """Note that the process is alive, even if its step does not advance."""
        message.phase = message.phase[:LONGEST_PHASE]
        now_ns = self.clock()
        run.touch(now_ns)
        run.heartbeat.alive(message, now_ns)
        run.summary.alive(state.writer.writer_no, message)
        self.hub.changed(run.id)

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

    def _known(self, writer: Writer) -> tuple[ActiveRun, WriterState]:
        run = self.registry.active.get(writer.run_id)
        state = run.writers.get(writer.writer_no) if run else None
        # Compared by identity: if a deleted run was created again, its numbers belong to other processes.
        if run is None or state is None or state.writer is not writer:
            raise UnknownWriterError(f"writer: expected one of a run in memory, got run {writer.run_id}")
        return run, state

    # Rule processes

    async def _balance(self) -> None:
        """Start rule processes once the rules need them, and move runs there."""
        share = share_of_core()

        async def look() -> None:
            if self.registry.processes.look(share(self.counts.evaluated_s)):
                for run in list(self.registry.active.values()):
                    if isinstance(run.evaluator, LocalEvaluator) and not self._moves.rests(f"run {run.id}"):
                        run.turns.add(partial(self._move, run))
                        await asyncio.sleep(0)
                for run_id in self.registry.processes.uneven():
                    moving = self.registry.active.get(run_id)
                    if moving is not None:
                        moving.turns.add(partial(self._move_on, moving))

        await self._moves.keep(look, LOOK_S)

    def _move(self, run: ActiveRun, done: Done) -> None:
        """Move the rules of a run to a rule process, between two of its batches."""
        local, process = run.evaluator, self.registry.processes.least_loaded()
        if not isinstance(local, LocalEvaluator) or process is None:
            done()
            return
        try:
            state = local.engine.save()
        except Exception as error:  # noqa: BLE001 - the other runs must move
            self._moves.failed(f"run {run.id}", error)
            done()
            return
        self._moves.passed(f"run {run.id}")
        remote = RemoteEvaluator(process, run.id)

        def moved(succeeded: bool) -> None:
            if succeeded:
                run.evaluator = remote
            if run.dropped or not succeeded:
                remote.close()
            done()

        remote.move_here(local.engine.context, state, moved)

    def _move_on(self, run: ActiveRun, done: Done) -> None:
        """Move the rules of a run to the least loaded process, between two of its batches."""
        run.evaluator.close()
        self._reload(run, done)

    def _failed(self, run: ActiveRun, rules: Sequence[str]) -> None:
        """Disable rules that raised repeatedly for a run."""
        if self.registry.processes.raised(run.id, rules):
            self.rulebook.brief(self.changes, run)

    def _reload(self, run: ActiveRun, then: Done) -> None:
        """Load the rules of a run again because their process ended, then call ``then``."""
        if not self._stopping:
            task = asyncio.create_task(self._reloaded(run, then), name=f"rules of {run.id}")
            self._reloading.add(task)
            task.add_done_callback(self._reloading.discard)

    async def _reloaded(self, run: ActiveRun, then: Done) -> None:
        """Do it once everything that was evaluated is durable; repeat it while it fails."""
        subject = f"run {run.id}"
        while not run.dropped:
            try:
                await run.durable()
                await self.registry.reload_rules(run)
            except Exception as error:  # noqa: BLE001 - whatever it is, the run's batches must wait
                self._reloads.failed(subject, error)
                await asyncio.sleep(LOOK_S)
            else:
                self._reloads.passed(subject)
                self.rulebook.brief(self.changes, run)
                then()
                return

    # The server's clock

    def _own_clock(self) -> Clock:
        clock = Clock()
        clock.jumped = self._clock_was_set
        return clock

    def _clock_was_set(self, jump_ns: int) -> None:
        """Shift all start times by the same amount as the clock."""
        self.started_ns += jump_ns
        self.durability.shift(jump_ns)
        for run in self.registry.active.values():
            run.shift(jump_ns)
        for notify in self.on_clock_set:
            notify(jump_ns)
