"""Test a custom rule over stored runs while it is being edited: where would it have fired? Only reads.

Only this rule is evaluated; the stored alerts of the runs show which steps were healthy. A test
therefore takes a fraction of a backtest of all rules and can follow every edit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tocsin_server.core.models import Alert, RecordBatch, RunEvent, Writer
from tocsin_server.detect.custom import glob, threshold
from tocsin_server.detect.custom.backtest import Tally, Tested
from tocsin_server.detect.custom.threshold import CustomRule
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.engine.plan import KIND as RULES
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.interface.similar_runs import SERVER
from tocsin_server.detect.rules.catalog import catalogue
from tocsin_server.offline.backtest import Bounds, bounded, built_in_only
from tocsin_server.runs.alert_state import AlertBook
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import StoredRun

MOST_FIRINGS = 1000
MOST_SERIES = 8
"""Maximum series of a run in the answer, for charts."""
MOST_ALERTS = 1000


@dataclass
class Trial:
    """One custom rule under test."""

    rule: CustomRule
    bounds: Bounds = field(default_factory=Bounds)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._ends = self.clock() + self.bounds.seconds

    def of_run(self, reader: StoreReader, stored_run: StoredRun) -> Tested:
        """Test a stored run, including restarts."""
        tested, tally = Tested(stored_run.id), Tally()
        judge = Alone(self.rule, stored_run.id)
        received = built_in_only(reader.recovery(stored_run.id, from_start=True).replay)
        for item in bounded(tested, received, self.bounds, self._over):
            judge.take(item)
            if isinstance(item, RecordBatch):
                tally.take(item)
        others = [stored.alert for stored in reader.alerts(stored_run.id, limit=MOST_ALERTS)]
        mine = [alert for alert in others if alert.rule != self.rule.id]
        tested.add(tally.judged(stored_run.id, self.rule.id, [*judge.fired, *mine]))
        tested.left_out = judge.left_out
        return tested

    def series_of(self, stored: StoredRun) -> list[str]:
        """Return the first few series of a run that the rule watches."""
        found = (series.name for series in stored.series if glob.matches(self.rule.series, series.name))
        return sorted(found)[:MOST_SERIES]

    def _over(self) -> bool:
        return self.clock() > self._ends


class Alone:
    """An engine that evaluates a single custom rule, and its alerts."""

    def __init__(self, rule: CustomRule, run_id: str) -> None:
        self._engine = Engine(RunContext(run_id=run_id))
        self._book = AlertBook(run_id)
        self._fired: dict[str, Alert] = {}
        self.left_out = 0
        reported = {"rules": [threshold.brief(rule) | {"enabled": True}], "builtin": dict(_all_off())}
        self._engine.observe_event(RunEvent(Writer(run_id, SERVER, 0, 0), 0, 0, RULES, 0, None, reported))

    @property
    def fired(self) -> list[Alert]:
        """The alerts that fired, in the order in which they fired."""
        return list(self._fired.values())

    def take(self, item: RecordBatch | RunEvent) -> None:
        """Evaluate a batch or an event."""
        engine = self._engine
        said = engine.observe(item) if isinstance(item, RecordBatch) else engine.observe_event(item)
        for finding in said:
            for transition in self._book.apply(finding, finding.time_ns):
                self._keep(transition.alert)

    def _keep(self, alert: Alert) -> None:
        if alert.fired_ns is None:
            return
        if alert.id not in self._fired and len(self._fired) >= MOST_FIRINGS:
            self.left_out += 1
            return
        self._fired[alert.id] = alert


def _all_off() -> Iterator[tuple[str, dict[str, bool]]]:
    for info in catalogue():
        if info.clock == "steps":
            yield info.id, {"enabled": False}
