"""Cache the rule configuration in memory, and apply changes to all runs that they concern.

A change is added to a run as a server event (``detect/engine/plan.py``), which is stored and replayed like
any other. Changes by this process take effect immediately. Changes by another process (the command line, a
second server) are detected within ``LOOK_S`` by a version that every change increments.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tocsin_server.core.errors import FieldError
from tocsin_server.core.models import RULE_CHANGED
from tocsin_server.detect.custom.threshold import CustomRule
from tocsin_server.detect.custom.tuning import EVERYWHERE, Tuning, read_tuning
from tocsin_server.detect.engine import plan as plans
from tocsin_server.detect.engine.plan import Plan
from tocsin_server.rules.documents import rule_of
from tocsin_server.runs.active_run import ActiveRun
from tocsin_server.runs.registry import RunRegistry
from tocsin_server.runs.run_summary import RunMetadata
from tocsin_server.store import rules
from tocsin_server.store.periodic_jobs import PeriodicJob
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.rules import Act, CustomRuleRow, TuningRow

log = logging.getLogger("tocsin.rules")

FAILED = f"{RULE_CHANGED}the rule was switched off for this run, because it did not end or raised an error"
LOOK_S = 1.0
"""Interval at which the version is checked."""


class EventSink(Protocol):
    """The part of ``ServerChanges`` that adds events to runs."""

    registry: RunRegistry

    def add_event(self, run_id: str, kind: str, data: Mapping[str, Any]) -> None: ...
    def resolve(self, run: ActiveRun, rules: Collection[str], reason: str) -> None: ...


@dataclass(frozen=True)
class RuleConfig:
    """The rule configuration read from the database in one transaction."""

    version: Any = None
    rules: tuple[CustomRule, ...] = ()
    tunings: dict[tuple[str, str], Tuning] = field(default_factory=dict)
    """By built-in rule and project."""
    acts: dict[str, Act] = field(default_factory=dict)
    """The newest change of each rule, of the last few hundred changes."""

    def tuning_of(self, rule: str, project: str) -> Tuning:
        """Return the tuning of a built-in rule that is in effect in a project."""
        everywhere = self.tunings.get((rule, EVERYWHERE), Tuning())
        return self.tunings.get((rule, project), Tuning()).over(everywhere)

    def plan_of(self, metadata: RunMetadata) -> Plan:
        """Return the rules that are in effect for a run."""
        names, tags = (metadata.name, metadata.id), tuple(metadata.tags)
        mine = (rule for rule in self.rules if rule.enabled and rule.concerns(metadata.project, names, tags))
        tuned = {
            rule: self.tuning_of(rule, metadata.project)
            for rule, project in self.tunings
            if project in (EVERYWHERE, metadata.project)
        }
        return Plan(
            tuple(mine), {rule: made for rule, made in sorted(tuned.items()) if not made.says_nothing}
        )


NOTHING = RuleConfig()


def rule_config_of(
    own: Iterable[CustomRuleRow], tuned: Iterable[TuningRow], acts: Iterable[Act], version: Any
) -> RuleConfig:
    """Build the configuration from rows. A row that this version cannot read is logged and skipped."""
    found: list[CustomRule] = []
    for row in own:
        try:
            found.append(rule_of(row))
        except FieldError as error:
            log.warning("rule %s is left out: %s", row.id, error)
    made: dict[tuple[str, str], Tuning] = {}
    for kept in tuned:
        try:
            made[kept.rule, kept.project] = read_tuning(kept.rule, kept.body)
        except FieldError as error:
            log.warning("settings of rule %s are left out: %s", kept.rule, error)
    newest: dict[str, Act] = {}
    for act in acts:
        newest.setdefault(act.subject, act)
    return RuleConfig(version, tuple(found), made, newest)


class Rulebook:
    """The current rule configuration, and the runs that have not been updated to it."""

    def __init__(self, reader: StoreReader, work: PeriodicJob | None = None) -> None:
        self.now = NOTHING
        self.work = work or PeriodicJob("rules")
        self._behind: set[str] = set()
        self._reader = reader
        self._turn: asyncio.Lock | None = None

    def read(self) -> RuleConfig:
        """Read the configuration in one transaction."""
        with self._reader.consistent() as connection:
            return rule_config_of(
                rules.read_custom_rules(connection),
                rules.tunings(connection),
                rules.acts(connection),
                rules.version(connection),
            )

    def read_version(self) -> Any:
        """Read only the version."""
        with self._reader.consistent() as connection:
            return rules.version(connection)

    async def load(self) -> None:
        """Load the current configuration."""
        self.now = await asyncio.to_thread(self.read)

    async def refresh(self, order: EventSink) -> None:
        """Reload the configuration, and update every run in memory."""
        self._turn = self._turn or asyncio.Lock()
        async with self._turn:
            await self.load()
            self._behind = set(order.registry.active)
            self.catch_up(order)

    def catch_up(self, order: EventSink) -> None:
        """Update the runs that do not have the current rules; those that fail are retried later."""
        for run_id in list(self._behind):
            if not self.work.rests(f"run {run_id}"):
                with self.work.isolated(f"run {run_id}"):
                    run = order.registry.active.get(run_id)
                    if run is not None:
                        self.brief(order, run)
                    self._behind.discard(run_id)

    def brief(self, order: EventSink, run: ActiveRun) -> None:
        """Update the rules of a run if they differ from the current ones."""
        if run.state.ended:
            return
        barred = order.registry.processes.barred(run.id)
        configured, known = self.now.plan_of(run.summary.metadata), run.plan
        wanted = configured.without(barred)
        if wanted == known:
            return
        why = {name: self._why(name, configured) for name in wanted.reset_rules(known)}
        off = wanted.reset_rules(configured)
        order.add_event(run.id, plans.KIND, {**wanted.plain(), "why": {**why, **dict.fromkeys(off, FAILED)}})
        order.resolve(run, off, FAILED)

    def _why(self, rule: str, plan: Plan) -> str:
        """Return what happened to a rule, for the history of its alert."""
        act = self.now.acts.get(rule)
        who = f" by {act.actor}" if act is not None else ""
        known = next((other for other in self.now.rules if other.id == rule), None)
        if rule in plan.by_id:
            return f"{RULE_CHANGED}the rule {rule} was changed{who}"
        if rule in plan.off or (known is not None and not known.enabled):
            return f"{RULE_CHANGED}the rule {rule} was switched off{who}"
        if known is not None:
            return f"{RULE_CHANGED}the rule {rule} no longer applies to this run"
        what = "deleted" if rule not in plan.tunings else "changed"
        return f"{RULE_CHANGED}the rule {rule} was {what}{who}"


async def poll_rules(rulebook: Rulebook, order: EventSink, *, interval_s: float = LOOK_S) -> None:
    """Check for changes by other processes until cancelled. If that fails, the known rules stay in effect."""

    async def look() -> None:
        if await asyncio.to_thread(rulebook.read_version) != rulebook.now.version:
            await rulebook.refresh(order)
        else:
            rulebook.catch_up(order)

    await rulebook.work.keep(look, interval_s)
