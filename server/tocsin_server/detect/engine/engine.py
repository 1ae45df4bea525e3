"""The engine turns the records of a run into findings, without I/O and without a clock of the server.

Its state is a function of the records and events in their order of arrival. The findings are the same
however the records are split into batches and whenever the state was saved and restored.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec

from tocsin_server.core.models import (
    RULE_CHANGED,
    Finding,
    RecordBatch,
    RunEvent,
    Writer,
)
from tocsin_server.detect.custom.batch_evaluator import RUN_SCOPE, SCOPE, AbsenceEvaluator, RuleRef
from tocsin_server.detect.engine.deferral import Deferral, ranges_of
from tocsin_server.detect.engine.episodes import Episodes
from tocsin_server.detect.engine.plan import KIND as PLAN
from tocsin_server.detect.engine.plan import NO_PLAN, Plan
from tocsin_server.detect.engine.process import Process, rules_of_run
from tocsin_server.detect.engine.state_codec import VERSION, EngineState, EngineStateError, read, written
from tocsin_server.detect.engine.stream import SavedRule, Stream
from tocsin_server.detect.interface.blocks import PACE
from tocsin_server.detect.interface.context import PRECISION, RunContext
from tocsin_server.detect.interface.description import RuleSettings
from tocsin_server.detect.interface.layers import VECTORS as LAYERS
from tocsin_server.detect.interface.ranks import RankBarrier
from tocsin_server.detect.interface.rule import (
    FIRING,
    PENDING,
    RECOVERING,
    RESOLVED,
    Rule,
    RuleResult,
    RunRule,
)
from tocsin_server.detect.interface.similar_runs import CLOSED, SERVER
from tocsin_server.detect.interface.similar_runs import KIND as SIMILAR_RUNS
from tocsin_server.detect.interface.view import WIDE, View, beside, layout, moment, split
from tocsin_server.detect.rules.catalog import catalogue

__all__ = ["Engine", "EngineStateError", "catalogue"]

RUN = -1
"""Writer number for the results of rules of scope ``run``."""

Emission = tuple[int, int, int, Stream, Rule[Any, Any] | RuleRef, RuleResult]
"""Batch row, order within the row, number within the stream, stream, rule, result."""
REST = 4
"""Number of batches after which it is determined again whether records may wait."""
LAST = 1 << 16
"""Order within a row from which custom rules report, after the built-in ones."""


class Engine:
    """Checks one run. ``settings`` maps rule identifiers to settings that differ from the defaults."""

    def __init__(self, run: RunContext, settings: Mapping[str, RuleSettings] | None = None) -> None:
        self.context = run
        self.plan = NO_PLAN
        self._own_settings = dict(settings or {})
        self._settings: Mapping[str, RuleSettings] = self._own_settings
        """Includes the settings of the plan."""
        self._absences = AbsenceEvaluator(())
        self._writers: dict[int, Process] = {}
        self._removed: set[int] = set()
        """Writers of much earlier attempts, whose state was dropped."""
        self._episodes = Episodes(run, NO_PLAN, self._failed)
        self._newest = (0, 0)
        """Step and time of the newest record of a primary optimizer."""
        self._barrier = RankBarrier()
        self._run_rules: list[RunRule[Any, Any]] = []
        self._deferral: Deferral | None = None
        """Records that wait to be checked with later ones."""
        self._rests = 0
        """Number of batches until records may wait again."""
        self.failures: list[tuple[str, Exception]] | None = None
        """Receives the rules that raise, with their exceptions; None: the first exception is raised.

        A diagnosis that raises is received without a rule.
        """
        self._adopt(NO_PLAN)

    def observe(self, batch: RecordBatch) -> list[Finding]:
        """Check a batch of records and return the new findings.

        Records that cannot lead to a finding may wait for later ones, see :class:`Deferral`.
        """
        if batch.n == 0:
            return []
        deferral = self._deferral
        if deferral is not None and deferral.add(batch, calm=True):
            return []
        joined = deferral is not None and deferral.n > 0 and deferral.add(batch, calm=False)
        if deferral is not None and deferral.n == 0:
            self._rests = PACE
        findings = self._check_deferred()
        if not joined:
            findings += self._check_batch(batch)
        if batch.n < PACE:
            self._defer(batch)
        return findings

    def _check_batch(self, batch: RecordBatch) -> list[Finding]:
        if self._superseded(batch.writer):
            return []
        process = self._process(batch.writer)
        places = layout(tuple(batch.columns), self.context.components)
        views = split(batch, places)
        wide = beside(batch, places, begun=WIDE in process.streams)
        if wide is not None:
            views[WIDE] = wide
        emitted = self._check(process, batch.seq, views)
        if self.plan.rules:
            emitted += self._custom_results(batch, process, views.get(""))
        return self._findings(batch.writer, batch.seq, batch.n, views.get(""), emitted)

    def _check(self, process: Process, seq: int, views: Mapping[str, View]) -> list[Emission]:
        """Return the results of the built-in rules; ``seq`` is the number of the first record."""
        emitted: list[Emission] = []
        for order, (suffix, view) in enumerate(views.items()):
            stream = process.streams.get(suffix) or process.begin(
                Stream(suffix, self.context, self._settings, self.plan.off)
            )
            for number, rule, result in stream.check(view):
                emitted.append((result.row, order, number, stream, rule, result))
            self._take_failures(stream)
            if suffix and suffix != WIDE and suffix not in process.compared:
                process.compare(suffix, view, views.get(""), seq)
        return emitted

    def _take_failures(self, stream: Stream) -> None:
        failed, stream.failed = stream.failed, []
        for rule, error in failed:
            self._failed(rule, error)

    def _failed(self, rule: str, error: Exception) -> None:
        if self.failures is None:
            raise error
        self.failures.append((rule, error))

    # Records that wait

    def _defer(self, batch: RecordBatch) -> None:
        """Let the records after ``batch`` wait if they may. If the last try was in vain, rest for a while."""
        if self._rests:
            self._rests -= 1
            return
        process = self._writers.get(batch.writer.writer_no)
        if process is None or self.plan.rules or self._run_rules_open():
            return
        self._rests = REST
        if self._barrier.alone(batch.writer.writer_no):
            places = layout(tuple(batch.columns), self.context.components)
            ranges = ranges_of(process, places)
            if ranges is not None:
                self._rests = 0
                self._deferral = Deferral(batch, places, ranges, process)

    def _check_deferred(self) -> list[Finding]:
        """Check the records that wait, and let no more wait."""
        waiting, self._deferral = self._deferral, None
        if waiting is None or waiting.n == 0:
            return []
        seq, views = waiting.seq - waiting.n, waiting.views()
        emitted = self._check(self._writers[waiting.writer.writer_no], seq, views)
        return self._findings(waiting.writer, seq, waiting.n, views[""], emitted)

    def observe_event(self, event: RunEvent) -> list[Finding]:
        """Apply an event of the run and return the new findings; ``finish`` checks the buffered records."""
        if event.kind in (SIMILAR_RUNS, PLAN, CLOSED) and event.writer.writer_no != SERVER:
            return []
        waited = self._check_deferred()
        if event.kind == PLAN:
            return waited + self._replan(event)
        if event.writer.writer_no != SERVER and self._superseded(event.writer):
            return waited
        before, attempt = self.context, event.writer.attempt_no
        context = before.learn(event.kind, event.step, event.data, attempt=attempt)
        if context is not before:
            self._learn(context)
        at = moment(0, self._newest[0] if event.step is None else event.step, event.time_ns)
        for rule in self._run_rules:
            self._pass(rule, rule.on_event, at, event)
        found = waited + [finding for rule in self._run_rules for finding in self._on_run_rule(rule)]
        if event.kind == PRECISION and context is not before:
            found += self._withdraw(str(event.data.get("name")), before, event)
        if event.kind == LAYERS:
            found += self._episodes.locate(*self._latest(), event.time_ns)
        if event.kind == "finish":
            found += self._finish(event.writer)
        if event.kind == CLOSED or (event.kind == "finish" and event.data.get("run_ended")):
            self._close()
        return found

    # Applying a plan of rules

    def _adopt(self, plan: Plan, reset: frozenset[str] = frozenset()) -> None:
        """Apply ``plan`` from here on; rules in ``reset`` lose their statistics."""
        self.plan = self._episodes.plan = plan
        self._settings = {**self._own_settings, **plan.settings}
        self._run_rules = rules_of_run(self._run_rules, self.context, self._settings, plan.off, reset)
        for process in self._writers.values():
            process.change(self._settings, plan, reset)
        self._absences.change(plan.rules, reset)

    def bar(self, rules: Collection[str]) -> None:
        """Evaluate these rules no more. The next plan must disable them, too."""
        if rules:
            self._adopt(self.plan.without(rules))

    def _replan(self, event: RunEvent) -> list[Finding]:
        """Apply changed rules: resolve alerts of removed rules with a reason, and update severities."""
        before, plan = self.plan, Plan.from_plain(event.data)
        reset = plan.reset_rules(before)
        ended = {rule for rule in reset if rule in plan.off or rule in before.by_id}
        why = event.data.get("why") or {}
        reasons = {rule: str(why.get(rule, f"{RULE_CHANGED}the rule was changed")) for rule in ended}
        found = self._episodes.end(reasons, event.time_ns, self._newest[0])
        self._adopt(plan, reset)
        return found + self._episodes.with_new_severity(before, event.time_ns)

    def _withdraw(self, series: str, before: RunContext, event: RunEvent) -> list[Finding]:
        """Withdraw findings that assumed exact values, if the log prints the series with few decimals."""
        quantum = self.context.quanta.get(series, 0.0)
        if quantum <= before.quanta.get(series, 0.0):
            return []
        rules = {
            rule
            for process in self._writers.values()
            for stream in process.streams.values()
            for rule in stream.unproved(series)
        }
        return self._episodes.withdraw(rules, series, quantum, event.time_ns, self._newest[0])

    def _custom_results(
        self, batch: RecordBatch, process: Process, primary: View | None
    ) -> Iterator[Emission]:
        """Return the results of the custom rules, each at the newest training record up to it."""
        stream = process.streams.get("") or self._primary()
        results = [*process.evaluator.take(batch), *self._absences.take(batch)]
        for order, (ref, result) in enumerate(results):
            number = stream.count - 1
            if primary is not None:
                number += bisect_right(primary.rows, result.row) - primary.n
            yield result.row, LAST + order, number, stream, ref, result

    def _close(self) -> None:
        """Close all episodes at the end of the run; a later attempt reports them again as new."""
        for rule in self._run_rules:
            rule.let_go()
        for writer in self._writers.values():
            writer.end()
        self._absences.close()
        self._episodes.clear()

    def _learn(self, context: RunContext) -> None:
        self.context = self._episodes.context = context
        for rule in self._run_rules:
            rule.context = context
        for writer in self._writers.values():
            for stream in writer.streams.values():
                stream.learn(context)

    def _finish(self, writer: Writer) -> list[Finding]:
        """Check the last records of a writer that ended, which are too few for a block."""
        known = self._writers.get(writer.writer_no)
        found: list[Finding] = []
        if known is None:
            return found
        for stream in known.streams.values():
            for number, rule, result in stream.finish():
                found += self._on_result(
                    writer.writer_no, known, 1 << 62, (0, 0, number, stream, rule, result)
                )
            self._take_failures(stream)
        return found

    # From the results of a batch to findings

    def _findings(
        self, writer: Writer, seq: int, n: int, primary: View | None, emitted: list[Emission]
    ) -> list[Finding]:
        """Return the findings in the order of the records, including those of rules of scope ``run``.

        Args:
            writer: Where the records come from.
            seq: Number of the first record.
            n: Number of records.
            primary: The records of the primary optimizer.
            emitted: The results of the rules.
        """
        findings: list[Finding] = []
        place, no = 0, writer.writer_no
        if len(emitted) > 1:
            emitted.sort(key=lambda item: item[:2])
        if primary is not None and writer.attempt_no > self._barrier.attempt:
            self._resumed(writer, primary, findings)
        alone = self._barrier.alone(no)
        for item in emitted:
            if primary is not None:
                place = self._rest(writer, alone, primary, place, item[0], findings)
            findings += self._on_result(no, self._writers[no], seq, item)
        if primary is not None:
            self._rest(writer, alone, primary, place, n, findings)
            self._newest = (primary.step[-1], primary.time_ns[-1])
            if alone:
                self._barrier.note(no, primary)
        return findings

    def _resumed(self, writer: Writer, primary: View, findings: list[Finding]) -> None:
        """Report a new attempt to the rules of scope ``run``."""
        self._barrier.resumed(writer.attempt_no)
        at = moment(primary.rows[0], primary.step[0], primary.time_ns[0])
        for rule in self._run_rules:
            self._pass(rule, rule.resumed, at, writer.attempt_no, self._barrier.furthest)
            findings += self._on_run_rule(rule, self._place(writer, primary, 0))

    def _rest(
        self, writer: Writer, alone: bool, primary: View, place: int, row: int, findings: list[Finding]
    ) -> int:
        """Pass the records before batch row ``row`` to the rules of scope ``run``.

        They are skipped if no such rule has an open episode and only one process is live.
        """
        if alone and not self._run_rules_open():
            return bisect_left(primary.rows, row)
        while place < primary.n and primary.rows[place] < row:
            for rule in self._run_rules:
                if rule.episode.state:
                    self._pass(rule, rule.rest, primary, place)
                    findings += self._on_run_rule(rule, self._place(writer, primary, place))
            if not alone:
                self._compared(writer, primary, place, findings)
            place += 1
        return place

    def _run_rules_open(self) -> bool:
        """Return whether a rule of scope ``run`` has an open episode. Called for every batch, so a plain
        loop.
        """
        for rule in self._run_rules:  # noqa: SIM110
            if rule.episode.state:
                return True
        return False

    def _pass(self, rule: RunRule[Any, Any], receive: Callable[..., None], *what: Any) -> None:
        """Pass something to a rule of scope ``run``, which starts again if it raises."""
        try:
            receive(*what)
        except Exception as error:  # noqa: BLE001 - the other rules do not depend on it
            rule.take()
            rule.discontinuity()
            self._failed(rule.info.id, error)

    def _place(self, writer: Writer, primary: View, place: int) -> tuple[Stream, int]:
        """Return the stream of ``primary``, which is fully processed, and the number of a record in it."""
        stream = self._writers[writer.writer_no].streams[""]
        return stream, stream.count - primary.n + place

    def _compared(self, writer: Writer, primary: View, place: int, findings: list[Finding]) -> None:
        """Pass the steps that all processes have reported to the rules that compare ranks."""
        no, attempt, rank = writer.writer_no, writer.attempt_no, writer.rank
        for reports in self._barrier.take(no, attempt, rank, primary, place):
            at = moment(primary.rows[place], reports.step, reports.time_ns)
            for rule in self._run_rules:
                self._pass(rule, rule.reported, at, reports)
                findings += self._on_run_rule(rule, self._place(writer, primary, place))

    # Writers

    def _superseded(self, writer: Writer) -> bool:
        """Return whether a later attempt already trains when this process sends for the first time.

        The records that it buffered on disk are history: an alert about them could never resolve.
        """
        known = writer.writer_no in self._writers or writer.writer_no in self._removed
        return writer.attempt_no < self._barrier.attempt and not known

    def _process(self, writer: Writer) -> Process:
        known = self._writers.get(writer.writer_no)
        if known is not None:
            return known
        made = Process(writer.attempt_no, writer.rank, self.plan)
        earlier = {no for no, other in self._writers.items() if made.succeeds(other)}
        self._carry_over(earlier, writer.writer_no, made)
        for no in [no for no, other in self._writers.items() if other.attempt < made.attempt - 1]:
            del self._writers[no]
            self._removed.add(no)
        self._writers[writer.writer_no] = made
        return made

    def _carry_over(self, earlier: set[int], successor: int, made: Process) -> None:
        """Move the open episodes of the previous attempt to the first writer of the new one."""
        for subject in self._episodes.subjects():
            owner = subject.carry_over(successor, earlier)
            if owner is not None:
                self._writers[owner].carry_over(subject.rule, subject.name, made)
        for no in earlier:
            self._writers[no].let_go()
        before = [
            other for no, other in self._writers.items() if no in earlier and other.attempt < made.attempt
        ]
        if before:
            nearest = min(before, key=lambda other: (-other.attempt, abs(other.rank - made.rank)))
            made.carried_states = nearest.left()

    # Results and findings

    def _on_result(self, no: int, writer: Process, seq: int, item: Emission) -> Iterator[Finding]:
        _, _, number, stream, rule, result = item
        subject = self._episodes.subject(rule.info.id, rule.subject)
        if subject.reported is None and self._withheld(writer, seq + result.row, rule, result):
            return
        begins = subject.reported is None or subject.reported.state == PENDING
        joined = subject.add(RUN if rule.info.scope == RUN_SCOPE else no, result)
        if joined is None:
            return
        yield from self._episodes.changed(stream, number, subject, joined)
        if joined.state == FIRING and begins and rule.info.scope not in (SCOPE, RUN_SCOPE):
            at = moment(result.row, result.step, result.time_ns)
            for run_rule in self._run_rules:
                self._pass(run_rule, run_rule.began, at, subject.rule, subject.name, joined)
                yield from self._on_run_rule(run_rule, (stream, number))

    def _on_run_rule(
        self, rule: RunRule[Any, Any], place: tuple[Stream, int] | None = None
    ) -> Iterator[Finding]:
        """Yield the findings of a rule of scope ``run``.

        ``place`` is a stream and the number of the newest record to use for the diagnosis; by default
        the newest record of the first writer.
        """
        for result in rule.take():
            subject = self._episodes.subject(rule.info.id, rule.subject)
            joined = subject.add(RUN, result)
            if joined is not None:
                stream, number = place or self._latest()
                yield from self._episodes.changed(stream, number, subject, joined)

    def _latest(self) -> tuple[Stream, int]:
        """Return the stream of a primary optimizer and the number of its newest record."""
        stream = self._primary()
        return stream, stream.count - 1

    def _primary(self) -> Stream:
        """Return the stream of a primary optimizer, for the diagnosis of a finding about the whole run."""
        for writer in self._writers.values():
            if "" in writer.streams:
                return writer.streams[""]
        return Stream("", self.context, self._settings)

    def _withheld(
        self, writer: Process, seq: int, rule: Rule[Any, Any] | RuleRef, result: RuleResult
    ) -> bool:
        """Return whether the rule may not start an episode.

        Either it is inhibited, or it does not apply to losses in GAN or reinforcement training.
        """
        if result.state in (RECOVERING, RESOLVED):
            return True
        moves_by_itself = self.context.is_reinforcement or writer.rivalled(seq, self.context)
        if not rule.info.adversarial and moves_by_itself:
            return True
        return self._episodes.inhibits(rule.info.inhibited_by)

    # Snapshots

    def save(self) -> bytes:
        """Return the whole state, from which :meth:`restore` continues after a server restart."""
        self._check_deferred()  # leads to no finding
        writers = {no: writer.save() for no, writer in self._writers.items()}
        for rule in self._run_rules:
            rule.complete()
        run_rules = {
            rule.info.id: SavedRule(msgspec.msgpack.encode(rule.state), rule.episode)
            for rule in self._run_rules
        }
        body = EngineState(
            VERSION,
            self.context.learned(),
            writers,
            self._episodes.subjects(),
            run_rules,
            self._newest,
            self._barrier,
            self.plan.plain(),
            self._absences.save() if self._absences.rules else None,
            sorted(self._removed),
        )
        return written(body)

    @classmethod
    def restore(
        cls, run: RunContext, body: bytes, settings: Mapping[str, RuleSettings] | None = None
    ) -> Engine:
        """Restore an engine from ``body``.

        Args:
            run: Metadata of the run.
            body: What :meth:`save` returned.
            settings: Settings that differ from the defaults, by rule.

        Raises:
            EngineStateError: The snapshot is damaged or from an incompatible version.
        """
        saved = read(body)
        try:
            return cls._restored(run, saved, settings)
        except Exception as error:  # any exception from a rule means that its state is incompatible
            raise EngineStateError(f"rule state: {type(error).__name__}: {error}") from error

    @classmethod
    def _restored(
        cls, run: RunContext, saved: EngineState, settings: Mapping[str, RuleSettings] | None
    ) -> Engine:
        engine = cls(run.relearn(saved.learned), settings)
        engine._adopt(Plan.from_plain(saved.plan))
        for no, source in saved.writers.items():
            engine._writers[no] = Process.load(source, engine.context, engine._settings, engine.plan)
        engine._removed = set(saved.removed)
        if saved.absences is not None:
            engine._absences.load(saved.absences)
        for rule in engine._run_rules:
            kept = saved.run_rules.get(rule.info.id)
            if kept is not None:
                rule.load(kept.state, kept.episode)
        engine._newest, engine._barrier = saved.newest, saved.barrier
        engine._episodes.load(saved.subjects)
        return engine
