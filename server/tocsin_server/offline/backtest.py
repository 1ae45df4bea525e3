"""Backtests: run one rule over stored runs and log files (docs/how-to/backtest.md).

Only reads. The records per run and the total time are limited; the result reports what was left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tocsin.importers import open_log
from tocsin_server.core.errors import FieldError
from tocsin_server.core.models import Alert, RecordBatch, RunEvent, Writer
from tocsin_server.detect.custom import threshold
from tocsin_server.detect.custom.threshold import CustomRule
from tocsin_server.detect.engine.plan import KIND as RULES
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.interface.description import RuleSettings
from tocsin_server.detect.interface.similar_runs import SERVER
from tocsin_server.detect.rules.catalog import catalogue
from tocsin_server.offline.backtest_score import Tally, Tested
from tocsin_server.offline.replay import Evaluator, Replay
from tocsin_server.runs.registry import context_of
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import StoredRun

MOST_ALERTS = 1000
"""Maximum stored alerts of a run that are considered in the test of a draft."""


@dataclass(frozen=True)
class Bounds:
    """Limits of a backtest: records per run, seconds in total."""

    records: int = 10_000_000
    seconds: float = 1e9


def built_in_only(received: Iterable[RecordBatch | RunEvent]) -> Iterator[RecordBatch | RunEvent]:
    """Yield the data of a run without the users' changes to rules, so that all rules have defaults."""
    return (item for item in received if isinstance(item, RecordBatch) or item.kind != RULES)


def only(rule: CustomRule, run_id: str) -> RunEvent:
    """Return the event that applies a custom rule to a run and disables all built-in rules."""
    built_in = {info.id: {"enabled": False} for info in catalogue() if info.clock == "steps"}
    plan = {"rules": [threshold.brief(rule) | {"enabled": True}], "builtin": built_in}
    return RunEvent(Writer(run_id, SERVER, 0, 0), 0, 0, RULES, 0, None, plan)


@dataclass
class Backtest:
    """A built-in rule with changed settings, or the draft of a custom rule.

    For a built-in rule all other rules run too, with defaults; they show which steps were healthy. A draft
    is evaluated alone and compared with the stored alerts of the run, so that it can follow every edit.
    """

    rule: str
    settings: RuleSettings = field(default_factory=RuleSettings)
    bounds: Bounds = field(default_factory=Bounds)
    clock: Callable[[], float] = time.monotonic
    draft: CustomRule | None = None

    def __post_init__(self) -> None:
        self._ends = self.clock() + self.bounds.seconds

    def of_run(self, reader: StoreReader, stored_run: StoredRun) -> Tested:
        """Test a stored run, evaluated as the server does, including restarts."""
        run_id, others = stored_run.id, list[Alert]()
        evaluator = Evaluator(context_of(stored_run), self._changed, from_start=False)
        if self.draft is not None:
            evaluator.take(only(self.draft, run_id))
            found = (stored.alert for stored in reader.alerts(run_id, limit=MOST_ALERTS))
            others = [alert for alert in found if alert.rule != self.rule]
        received = built_in_only(reader.recovery(run_id, from_start=True).replay)
        return self._over(run_id, evaluator, received, others)

    def of_file(self, path: Path) -> Tested:
        """Test a log file; each launch in it counts as a separate run.

        Raises:
            UnreadableLogError: The file cannot be read.
        """
        log = open_log(path)
        context = RunContext(run_id=str(path), planned_steps=log.planned_steps)
        received = Replay(str(path)).take(log.items())
        return self._over(str(path), Evaluator(context, self._changed), received)

    @property
    def _changed(self) -> Mapping[str, RuleSettings]:
        return {} if self.draft is not None else {self.rule: self.settings}

    def _over(
        self,
        name: str,
        evaluator: Evaluator,
        received: Iterable[RecordBatch | RunEvent],
        others: Sequence[Alert] = (),
    ) -> Tested:
        """Evaluate each launch separately, because their steps are independent."""
        tested = Tested(name)
        launches: dict[str, Tally] = {}
        for item in self._bounded(tested, received):
            self._take(evaluator, item)
            if isinstance(item, RecordBatch):
                launches.setdefault(evaluator.run_id, Tally()).take(item)
        evaluator.finish()
        for launch, tally in launches.items():
            own = [alert for alert in evaluator.alerts if alert.run_id == launch]
            tested.add(tally.result(name, self.rule, [*own, *others]))
        tested.left_out = evaluator.left_out
        return tested

    def _take(self, evaluator: Evaluator, item: RecordBatch | RunEvent) -> None:
        try:
            evaluator.take(item)
        except (ArithmeticError, ValueError, IndexError, TypeError) as error:
            raise FieldError(
                f"{self.rule}: settings", "a valid combination of values", f"{type(error).__name__}: {error}"
            ) from error

    def _bounded(
        self, tested: Tested, received: Iterable[RecordBatch | RunEvent]
    ) -> Iterator[RecordBatch | RunEvent]:
        """Yield ``received`` within the bounds; if it is cut off, ``tested.cut`` says why."""
        records = 0
        for item in received:
            n = item.n if isinstance(item, RecordBatch) else 0
            if records + n > self.bounds.records:
                tested.cut = f"only the first {records} records were evaluated"
                return
            records += n
            if self.clock() > self._ends:
                tested.cut = f"the {self.bounds.seconds:g} s of a backtest ran out"
                return
            yield item
