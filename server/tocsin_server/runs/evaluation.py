"""Pass what runs accepted to their rules, in the order of each run, and submit it with the findings.

Numbers are assigned when a message is accepted, because the next message is checked with them. The rest
waits for the turn of the item: evaluation, alerts, summary, saved state, and what is submitted to the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocsin.protocol import NONE_YET
from tocsin_server.core.memory_size import COLUMN, FIXED
from tocsin_server.core.models import Finding, RecordBatch, RunEvent, SavedRuleState, Writer
from tocsin_server.core.settings import Settings
from tocsin_server.core.stats import IngestCounts
from tocsin_server.runs.active_run import ActiveRun, WriterState
from tocsin_server.runs.durability import Durability, Reached
from tocsin_server.runs.evaluators import Evaluated
from tocsin_server.runs.turns import Done

Item = RecordBatch | RunEvent


@dataclass(frozen=True, slots=True)
class Prepared:
    """An event whose turn it is, with the findings of the server itself and the changes to its run."""

    event: RunEvent
    findings: Iterable[Finding] = ()
    changes: Mapping[str, Any] = field(default_factory=dict)


class Evaluation:
    """The way from an accepted batch or event to what is submitted to the store."""

    def __init__(
        self,
        settings: Settings,
        durability: Durability,
        counts: IngestCounts,
        reload: Callable[[ActiveRun, Done], None],
        failed: Callable[[ActiveRun, Sequence[str]], None],
    ) -> None:
        """Create it.

        Args:
            settings: When rule states are saved.
            durability: Receives what was evaluated.
            counts: Counts the time that rules take.
            reload: Loads the rules of a run whose process ended, then calls its argument.
            failed: Called with a run and its rules that raised.
        """
        self._durability = durability
        self._counts = counts
        self._reload = reload
        self._failed = failed
        self._saving = {
            "records": settings.rule_state_records,
            "pause_ns": int(settings.rule_state_pause_s * 1e9),
            "after_ns": int(settings.rule_state_s * 1e9),
        }

    def batch(
        self,
        run: ActiveRun,
        state: WriterState,
        batch: RecordBatch,
        now_ns: int,
        rejected_to_seq: tuple[Writer, int] | None,
    ) -> None:
        """Evaluate and submit an accepted batch."""
        reached = reached_by(state)

        def begin(done: Done) -> None:
            def answered(result: Evaluated, saved: SavedRuleState | None) -> None:
                self._durability.submit(
                    run,
                    state,
                    reached=reached,
                    batch=batch,
                    rejected_to_seq=rejected_to_seq,
                    transitions=run.answered(batch, result, now_ns),
                    saved=saved,
                )

            self._evaluate(run, batch, now_ns, answered, done)

        self._durability.accepted(now_ns)
        run.turns.add(begin, FIXED + (COLUMN + 8 * batch.n) * (2 + len(batch.columns)))

    def rejected(self, run: ActiveRun, state: WriterState, rejected_to_seq: tuple[Writer, int]) -> None:
        """Submit that records were rejected, after everything that was accepted before."""
        reached = reached_by(state)
        self.beside(
            run,
            lambda: self._durability.submit(run, state, reached=reached, rejected_to_seq=rejected_to_seq),
        )

    def event(
        self,
        run: ActiveRun,
        state: WriterState | None,
        prepare: Callable[[], Prepared],
        now_ns: int,
        size: int = 0,
    ) -> None:
        """Evaluate and submit an accepted event.

        Args:
            run: The run.
            state: The writer that sent it, or None if the server did.
            prepare: Returns the event, and what depends on everything before it.
            now_ns: When the server accepted it.
            size: Bytes of memory that it holds.
        """
        reached = reached_by(state)

        def begin(done: Done) -> None:
            prepared = prepare()
            event, changes = prepared.event, prepared.changes

            def answered(result: Evaluated, saved: SavedRuleState | None) -> None:
                self._durability.submit(
                    run,
                    state,
                    reached=reached,
                    event=event,
                    transitions=run.answered(event, result, now_ns, prepared.findings),
                    changes=changes,
                    saved=saved,
                )

            self._evaluate(run, event, now_ns, answered, done, save=bool(changes))

        self._durability.accepted(now_ns)
        run.turns.add(begin, FIXED + size)

    def beside(self, run: ActiveRun, action: Callable[[], None]) -> None:
        """Do something that needs no rules, after everything that was accepted before."""

        def begin(done: Done) -> None:
            try:
                if not run.dropped:
                    action()
            finally:
                done()

        run.turns.add(begin)

    def _evaluate(
        self,
        run: ActiveRun,
        item: Item,
        now_ns: int,
        answered: Callable[[Evaluated, SavedRuleState | None], None],
        done: Done,
        *,
        save: bool = False,
    ) -> None:
        run.begin(item, now_ns)
        save = run.due_for_saving(now_ns, **self._saving, anyway=save)

        def receive(result: Evaluated) -> None:
            try:
                self._counts.evaluated_s += result.seconds
                if not run.dropped:
                    saved = None
                    if result.state is not None:
                        saved = SavedRuleState(run.id, item.arrival, result.state)
                    answered(result, saved)
                    if result.failed:
                        self._failed(run, result.failed)
            finally:
                done()

        def ask() -> None:
            run.evaluator.evaluate(item, receive, save=save, lost=lambda: self._reload(run, ask))

        ask()


def reached_by(state: WriterState | None) -> Reached:
    """Return the highest accepted numbers of a writer, which are durable once what it sent now is."""
    return (NONE_YET, NONE_YET) if state is None else (state.seq, state.event)
