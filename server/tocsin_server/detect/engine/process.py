"""One process of a run as the engine knows it: its streams, and the watch of people's rules over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tocsin_server.detect.custom.batch_evaluator import BatchEvaluator
from tocsin_server.detect.engine.plan import NO_PLAN, Plan
from tocsin_server.detect.engine.state_codec import SavedWriter
from tocsin_server.detect.engine.stream import Stream
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.interface.rule import Episode, RuleSettings, RunRule
from tocsin_server.detect.rules.catalog import run_rules


class Process:
    """The streams of one writer, and from which record on it pursues several losses."""

    def __init__(self, attempt: int, rank: int, plan: Plan = NO_PLAN) -> None:
        self.attempt = attempt
        self.rank = rank
        self.evaluator = BatchEvaluator(plan.rules)
        self.streams: dict[str, Stream] = {}
        self.rivals: dict[str, int] = {}
        """Optimizers with a loss of their own, and from which record on."""
        self.compared: set[str] = set()
        self.inherited_episodes: dict[str, dict[str, Episode]] = {}
        """Open episodes of the attempt before, by suffix and rule, for streams that are yet to come."""
        self.carried_states: dict[str, dict[str, bytes]] = {}
        """What rules of the attempt before left, alike."""

    def succeeds(self, other: Process) -> bool:
        """Whether this is the restart of what ``other`` was part of."""
        return other.attempt < self.attempt or (other.attempt == self.attempt and other.rank == self.rank)

    def carry_over(self, rule_id: str, subject: str, successor: Process) -> None:
        """The open episode of a rule about a subject goes to ``heir``."""
        for stream in self.streams.values():
            for rule in stream.rules:
                if rule.info.id == rule_id and rule.subject == subject:
                    successor.inherited_episodes.setdefault(stream.suffix, {})[rule_id] = rule.let_go()
        episode = self.evaluator.let_go((rule_id, subject))
        if episode is not None:
            successor.evaluator.inherited_episodes[rule_id, subject] = episode

    def let_go(self) -> None:
        """Nothing is open here any more."""
        for stream in self.streams.values():
            for rule in stream.rules:
                rule.let_go()
        self.evaluator.close()

    def end(self) -> None:
        """The run has ended: nothing goes on, not by inheritance either."""
        self.let_go()
        self.inherited_episodes = {}
        for stream in self.streams.values():
            stream.inherited_episodes = {}

    def left(self) -> dict[str, dict[str, bytes]]:
        """What the rules leave to those of the next attempt, by suffix and rule."""
        left = {
            suffix: {rule.info.id: carried for rule in stream.rules if (carried := rule.carried_state())}
            for suffix, stream in self.streams.items()
        }
        return {suffix: estates for suffix, estates in left.items() if estates}

    def change(self, settings: Mapping[str, RuleSettings], plan: Plan, reset: frozenset[str]) -> None:
        """Another plan from here on; rules of ``anew`` forget what they know of the series."""
        for stream in self.streams.values():
            stream.retune(settings, plan.off, reset)
        for inherited in self.inherited_episodes.values():
            for rule in plan.off:
                inherited.pop(rule, None)
        self.evaluator.change(plan.rules, reset)

    def save(self) -> SavedWriter:
        """All that is remembered of the process."""
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
        """Goes on from a snapshot."""
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
    """The rules of scope ``run`` that are on; those of ``anew`` begin afresh, their open episodes go on."""
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
