"""Where the rules of a run are evaluated: in this process, or in a rule process (``rule_process``)."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from tocsin_server.core.checkpoints import Checkpoint
from tocsin_server.core.models import Finding, RecordBatch, RunEvent
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.engine.plan import NO_PLAN, Plan
from tocsin_server.detect.interface.context import RunContext

log = logging.getLogger("tocsin.rules")

Item = RecordBatch | RunEvent


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What the rules of a run reported about one item."""

    findings: Sequence[Finding] = ()
    state: bytes | None = None
    """The state of the rules after the item, if it was requested."""
    seconds: float = 0.0
    """How long the rules took."""
    crash: str = ""
    """The traceback if a rule raised."""
    failed: Sequence[str] = ()
    """The rules that raised. The others saw the item."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the handshake of a new attempt says about it; see :meth:`RunContext.from_environment`."""

    world_size: int
    planned_steps: int | None
    environment: Mapping[str, Any]


class Evaluator(Protocol):
    """The rules of one run."""

    @property
    def plan(self) -> Plan: ...

    @property
    def checkpoints(self) -> Sequence[Checkpoint]: ...

    def evaluate(
        self, item: Item, then: Callable[[Evaluated], None], *, save: bool = False, lost: Callable[[], None]
    ) -> None:
        """Evaluate an item and pass the result to ``then``, now or later.

        Args:
            item: A batch or an event.
            then: Receives the result.
            save: Return the state of the rules, too.
            lost: Called instead of ``then`` if the process that evaluates the rules has ended. They must be
                loaded again.
        """

    def replay(self, items: Sequence[Item]) -> list[str]:
        """Evaluate items that are stored already, and return the tracebacks of rules that raised.

        Called on a thread while the run is loaded.
        """

    def inform(self, attempt: Attempt, done: Callable[[], None]) -> None:
        """Continue with the optimizers, scalers and schedules of a new attempt, then call ``done``."""

    def close(self) -> None:
        """Drop the rules of the run."""


class RuleEvaluator(Protocol):
    """The part of ``detect.engine.Engine`` that a run uses."""

    def observe(self, batch: RecordBatch) -> list[Finding]: ...
    def observe_event(self, event: RunEvent) -> list[Finding]: ...
    def save(self) -> bytes: ...


def evaluated(engine: RuleEvaluator, item: Item, *, save: bool) -> Evaluated:
    """Return what an engine reports about an item. A rule that raises loses no record."""
    begun = time.perf_counter()
    findings: list[Finding] = []
    state, crash = None, ""
    try:
        findings = engine.observe_event(item) if isinstance(item, RunEvent) else engine.observe(item)
    except Exception:  # noqa: BLE001 - reported
        crash = traceback.format_exc()
    if save:
        try:
            state = engine.save()
        except Exception:  # noqa: BLE001 - reported
            crash = crash or traceback.format_exc()
    failures: list[tuple[str, Exception]] = getattr(engine, "failures", None) or []
    if failures and not crash:
        crash = "".join(traceback.format_exception(failures[0][1]))
    failed = [rule for rule, _ in failures if rule]
    failures.clear()
    return Evaluated(findings, state, time.perf_counter() - begun, crash, failed)


def engine_of(context: RunContext, state: bytes | None, barred: Collection[str] = ()) -> Engine:
    """Return the rules of a run, from a saved state if there is one. Raises EngineStateError.

    If one of them raises, the others continue.
    """
    engine = Engine(context) if state is None else Engine.restore(context, state)
    engine.failures = []
    engine.bar(barred)
    return engine


def informed(engine: Any, attempt: Attempt) -> Any:
    """Return the same rules with the optimizers, scalers and schedules of a new attempt."""
    if not isinstance(engine, Engine):
        return engine
    known = engine.context
    context = RunContext.from_environment(
        known.run_id,
        known.project,
        attempt.world_size,
        attempt.planned_steps or known.planned_steps,
        attempt.environment,
    )
    try:
        return engine_of(context, engine.save())
    except Exception:
        log.exception("rules of run %s could not be updated for its new attempt", context.run_id)
        return engine


class LocalEvaluator:
    """Rules that are evaluated in this process, at once."""

    def __init__(self, engine: Any, guard: AbstractContextManager[None]) -> None:
        """Create it.

        Args:
            engine: The rules of the run.
            guard: Active while they evaluate an item.
        """
        self.engine = engine
        self._guard = guard

    @property
    def plan(self) -> Plan:
        """The rules in effect."""
        return getattr(self.engine, "plan", NO_PLAN)

    @property
    def checkpoints(self) -> Sequence[Checkpoint]:
        """The newest checkpoints of the run."""
        context = getattr(self.engine, "context", None)
        return () if context is None else context.checkpoints

    def evaluate(
        self, item: Item, then: Callable[[Evaluated], None], *, save: bool = False, lost: Callable[[], None]
    ) -> None:
        """See :class:`Evaluator`."""
        with self._guard:
            result = evaluated(self.engine, item, save=save)
        then(result)

    def replay(self, items: Sequence[Item]) -> list[str]:
        """See :class:`Evaluator`."""
        results = [evaluated(self.engine, item, save=False) for item in items]
        return [result.crash for result in results if result.crash]

    def inform(self, attempt: Attempt, done: Callable[[], None]) -> None:
        """See :class:`Evaluator`."""
        self.engine = informed(self.engine, attempt)
        done()

    def close(self) -> None:
        """See :class:`Evaluator`."""
