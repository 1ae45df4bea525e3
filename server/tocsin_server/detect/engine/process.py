"""The engine's state for one process of a run: its streams and its custom rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tocsin_server.detect.custom.batch_evaluator import BatchEvaluator
from tocsin_server.detect.engine.plan import NO_PLAN, Plan
from tocsin_server.detect.engine.state_codec import SavedWriter
from tocsin_server.detect.engine.stream import Stream
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.interface.description import RuleSettings
from tocsin_server.detect.interface.rule import Episode, RunRule
from tocsin_server.detect.interface.view import View
from tocsin_server.detect.rules.catalog import run_rules


class Process:
    """The streams of one writer, and the record from which several optimizers have their own loss."""

    def __init__(self, attempt: int, rank: int, plan: Plan = NO_PLAN) -> None:
        self.attempt = attempt
        self.rank = rank
        self.evaluator = BatchEvaluator(plan.rules)
        self.streams: dict[str, Stream] = {}
        self.rivals: dict[str, int] = {}
        """Optimizers with their own loss, and the first record at which they had it."""
        self.compared: set[str] = set()
        self.inherited_episodes: dict[str, dict[str, Episode]] = {}
        """Open episodes of the previous attempt, by suffix and rule, for streams that do not exist yet."""
        self.carried_states: dict[str, dict[str, bytes]] = {}
        """States carried over from the previous attempt, by suffix and rule."""

    def begin(self, stream: Stream) -> Stream:
        """Add a stream, which continues what the previous attempt left."""
        stream.inherited_episodes = self.inherited_episodes.pop(stream.suffix, {})
        stream.carried_states = self.carried_states.pop(stream.suffix, {})
        self.streams[stream.suffix] = stream
        return stream

    def compare(self, suffix: str, view: View, primary: View | None, seq: int) -> None:
        """Store the record from which another optimizer has its own loss, as in a GAN.

        Two optimizers with one shared objective report the same loss at the same step. A loss that
        could not be attributed to an optimizer (``loss/0``) does not count.

        Args:
            suffix: The optimizer.
            view: Its records in a batch.
            primary: The records of the primary optimizer in the batch.
            seq: Number of the first record of the batch.
        """
        if view.loss is None or suffix.isdigit() or "" not in self.streams:
            return
        at = next((index for index, loss in enumerate(view.loss) if loss is not None), None)
        if at is None:
            return
        self.compared.add(suffix)
        stream, step = self.streams[""], view.step[at]
        newest = stream.count - 1
        if primary is not None:
            newest -= sum(row > view.rows[at] for row in primary.rows)
        same = stream.history.between("loss", step, step + 1, upto=newest)
        if view.loss[at] not in [loss for _, loss in same]:
            self.rivals[suffix] = seq + view.rows[at]

    def rivalled(self, seq: int, context: RunContext) -> bool:
        """Return whether several optimizers have separate losses at record ``seq``."""
        rivals = self.rivals.items()
        return any(seq >= since and not context.is_component(suffix) for suffix, since in rivals)

    def succeeds(self, other: Process) -> bool:
        """Return whether this process replaces ``other``, from an earlier attempt or with the same rank."""
        return other.attempt < self.attempt or (other.attempt == self.attempt and other.rank == self.rank)

    def carry_over(self, rule_id: str, subject: str, successor: Process) -> None:
        """Move the open episode of a rule and subject to ``successor``."""
        for stream in self.streams.values():
            for rule in stream.rules:
                if rule.info.id == rule_id and rule.subject == subject:
                    successor.inherited_episodes.setdefault(stream.suffix, {})[rule_id] = rule.let_go()
        episode = self.evaluator.let_go((rule_id, subject))
        if episode is not None:
            successor.evaluator.inherited_episodes[rule_id, subject] = episode

    def let_go(self) -> None:
        """Drop all open episodes."""
        for stream in self.streams.values():
            for rule in stream.rules:
                rule.let_go()
        self.evaluator.close()

    def end(self) -> None:
        """Drop all episodes at the end of the run, including inherited ones."""
        self.let_go()
        self.inherited_episodes = {}
        for stream in self.streams.values():
            stream.inherited_episodes = {}

    def left(self) -> dict[str, dict[str, bytes]]:
        """Return the states that the rules carry over to the next attempt, by suffix and rule."""
        left = {
            suffix: {rule.info.id: carried for rule in stream.rules if (carried := rule.carried_state())}
            for suffix, stream in self.streams.items()
        }
        return {suffix: states for suffix, states in left.items() if states}

    def change(self, settings: Mapping[str, RuleSettings], plan: Plan, reset: frozenset[str]) -> None:
        """Apply another plan from here on; rules in ``reset`` lose their statistics.

        Args:
            settings: Settings that differ from the defaults, by rule.
            plan: The plan to apply.
            reset: Rules that lose their statistics.
        """
        for stream in self.streams.values():
            stream.retune(settings, plan.off, reset)
        for inherited in self.inherited_episodes.values():
            for rule in plan.off:
                inherited.pop(rule, None)
        self.evaluator.change(plan.rules, reset)

    def save(self) -> SavedWriter:
        """Return the state of the process for a snapshot."""
        return SavedWriter(
            attempt=self.attempt,
            rank=self.rank,
            rivals=self.rivals,
            compared=sorted(self.compared),
            inherited_episodes=self.inherited_episodes,
            carried_states=self.carried_states,
            streams={suffix: stream.save() for suffix, stream in self.streams.items()},
            evaluator=self.evaluator.save() if self.evaluator.rules else None,
        )

    @classmethod
    def load(
        cls, saved: SavedWriter, context: RunContext, settings: Mapping[str, RuleSettings], plan: Plan
    ) -> Process:
        """Restore a process from a snapshot."""
        process = cls(saved.attempt, saved.rank, plan)
        process.rivals, process.compared = saved.rivals, set(saved.compared)
        process.inherited_episodes, process.carried_states = saved.inherited_episodes, saved.carried_states
        for suffix, body in saved.streams.items():
            stream = process.streams[suffix] = Stream(suffix, context, settings, plan.off)
            stream.load(body)
        if saved.evaluator is not None:
            process.evaluator.load(saved.evaluator)
        return process


def rules_of_run(
    known: Iterable[RunRule[Any, Any]],
    context: RunContext,
    settings: Mapping[str, RuleSettings],
    off: frozenset[str],
    reset: frozenset[str],
) -> list[RunRule[Any, Any]]:
    """Return the enabled rules of scope ``run``.

    Rules in ``reset`` are created again and keep their open episodes.

    Args:
        known: The rules of the run so far, whose state is kept.
        context: Metadata of the run.
        settings: Settings that differ from the defaults, by rule.
        off: Rules that are disabled.
        reset: Rules that lose their statistics.
    """
    before = {rule.info.id: rule for rule in known}
    rules = []
    for kind in run_rules():
        name = kind.info.id
        rule = before.get(name)
        if rule is None or name in reset:
            made = kind(settings.get(name) or kind.settings_type(), context, "")
            made.episode = rule.let_go() if rule is not None else made.episode
            rule = made
        if name not in off:
            rules.append(rule)
    return rules
