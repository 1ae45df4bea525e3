"""Which records wait to be checked with later ones; test_batches.py shows that findings stay the same."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

from tocsin_server.core.models import AlertState, Column, RecordBatch, RunEvent, Writer
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext

KNOWN = 200
"""Number of records after which the rules know the levels of a healthy run."""


def record(step: int, values: dict[str, float] | None = None, *, rank: int = 0) -> RecordBatch:
    """Return a batch of one healthy record, with other ``values`` where given."""
    draw = random.Random(step)
    series = {"loss": 2.0 + draw.gauss(0, 0.05), "grad_norm": draw.lognormvariate(0, 0.3)} | (values or {})
    columns = {name: Column(np.array([value])) for name, value in series.items()}
    at = np.array([step], dtype=np.int64)
    return RecordBatch(Writer("r_1", rank, 1, rank), step, step, 1, at, at * 10**9, columns)


@pytest.fixture
def engine() -> Engine:
    """Return an engine that knows a healthy run."""
    engine = Engine(RunContext(run_id="r_1"))
    for step in range(KNOWN):
        engine.observe(record(step))
    return engine


def rule_of(engine: Engine, name: str) -> Any:
    """Return a rule of the primary optimizer."""
    return next(rule for rule in engine._writers[0].streams[""].rules if rule.info.id == name)


def checks(engine: Engine, batches: list[RecordBatch], monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many times the rules run for ``batches``."""
    calls, check = 0, engine._check

    def counted(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        return check(*given)

    monkeypatch.setattr(engine, "_check", counted)
    for batch in batches:
        engine.observe(batch)
    return calls


def test_healthy_records_are_checked_in_blocks(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """320 records are 20 blocks; a few records are higher than any rule stated before."""
    assert checks(engine, [record(KNOWN + step) for step in range(320)], monkeypatch) < 60


def test_evaluations_of_a_metric_do_not_stop_the_waiting(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two evaluations, records wait as before."""
    evaluated = [record(KNOWN + step, {} if step % 100 else {"val/acc": 0.5}) for step in range(320)]
    assert checks(engine, evaluated, monkeypatch) < 100


def test_records_of_several_live_processes_do_not_wait(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules that compare ranks see each record at once."""
    both = [record(KNOWN + step, rank=rank) for step in range(20) for rank in (0, 1)]
    assert checks(engine, both, monkeypatch) >= len(both) - 1


@pytest.mark.parametrize("values", [{"loss": math.nan}, {"grad_norm": math.inf}])
def test_a_record_that_is_not_finite_is_reported_at_once(engine: Engine, values: dict[str, float]) -> None:
    """The records that wait are checked before it."""
    for step in range(KNOWN, KNOWN + 5):
        assert not engine.observe(record(step))
    found = engine.observe(record(KNOWN + 5, values))
    assert any(one.state is AlertState.FIRING and one.step == KNOWN + 5 for one in found)


def test_which_rules_are_awake_is_not_determined_at_each_nan(engine: Engine) -> None:
    """It matters only for calm records, so 200 records with NaN ask a rule far fewer times."""
    asked = 0

    class Asked(type(rule_of(engine, "nonfinite-loss"))):  # type: ignore[misc]
        def asleep(self) -> bool:
            nonlocal asked
            asked += 1
            return bool(super().asleep())

    rule_of(engine, "nonfinite-loss").__class__ = Asked
    for step in range(KNOWN, KNOWN + 200):
        engine.observe(record(step, {"loss": math.nan}))
    assert 0 < asked <= 50


def test_an_event_sees_the_records_before_it(engine: Engine) -> None:
    """A message without a step belongs to the newest record, whether it waited or not."""
    for step in range(KNOWN, KNOWN + 5):
        engine.observe(record(step))
    engine.observe_event(RunEvent(Writer("r_1", 0, 1, 0), 0, 0, "message", 0, None, {"text": "x"}))
    assert engine._newest[0] == KNOWN + 4
