"""Healthy real trainings, shortened: each trains, and raises no alert."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.matrix import represented
from tests.scenarios.evaluation import seeded
from tocsin_server.core.models import AlertState, Column, RecordBatch, Severity, Writer
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext

STEPS, FEW = 400, 150
MAY_WARN = {"rare-class"}
"""Kinds whose first heavy batches raise a warning with some seeds, never a critical alert."""


def _trainings(name: str) -> Any:
    path = Path(__file__).parent / "healthy" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"healthy_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"healthy_{name}"] = module
    spec.loader.exec_module(module)
    return module


TRAININGS, UNUSUAL = _trainings("trainings"), _trainings("unusual")


def batch_of(records: list[dict[str, float]], seq: int) -> RecordBatch:
    """Return records as a batch; names that only some have are sparse."""
    columns = {}
    for name in sorted({name for record in records for name in record} - {"step"}):
        rows = [row for row, record in enumerate(records) if name in record]
        values = np.array([records[row][name] for row in rows])
        columns[name] = Column(values, None if len(rows) == len(records) else np.array(rows, dtype=np.uint32))
    steps = np.array([int(record["step"]) for record in records], dtype=np.int64)
    return RecordBatch(Writer("r_1", 1, 1, 0), seq, seq, len(records), steps, steps * 10**9, columns)


@pytest.mark.parametrize("name", represented(TRAININGS.NAMES, *TRAININGS.NAMES[::6]))
def test_a_healthy_training_raises_no_alert(name: str) -> None:
    """Every rule sees every record; no alert at warning or above."""
    records = list(TRAININGS.healthy(name, seed=seeded(3), steps=STEPS))
    assert len(records) == STEPS
    assert alarms(records, TRAININGS.DECLARED.get(name, ())) == []


@pytest.mark.parametrize("name", represented(UNUSUAL.NAMES, *UNUSUAL.NAMES[::6]))
def test_a_healthy_training_of_an_unusual_kind_raises_no_alert(name: str) -> None:
    """Targets that are replaced, weights that are increased, batches of one sample, half precision."""
    least = Severity.CRITICAL if name in MAY_WARN else Severity.WARNING
    assert alarms(list(UNUSUAL.healthy(name, seed=seeded(3), steps=FEW)), (), least) == []


def alarms(records: list[dict[str, float]], schedulers: Any, least: Severity = Severity.WARNING) -> list[str]:
    """Return what fires at that severity or above."""
    assert all(math.isfinite(record["loss"]) for record in records)
    engine = Engine(RunContext(planned_steps=len(records), schedulers=schedulers))
    found = [
        item
        for at in range(0, len(records), 50)
        for item in engine.observe(batch_of(records[at : at + 50], at))
    ]
    loud = [item for item in found if item.severity.level >= least.level and item.state is AlertState.FIRING]
    return [f"{item.rule}: {item.summary}" for item in loud]
