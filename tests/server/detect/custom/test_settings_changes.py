"""Minimum and maximum settings of every rule: rejected by name, or evaluated without an error."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from functools import cache

import numpy as np
import pytest

from tocsin_server.core.errors import FieldError
from tocsin_server.core.models import Column, RecordBatch, Writer
from tocsin_server.detect.custom.renamed_settings import RENAMED
from tocsin_server.detect.custom.settings_changes import LARGEST, current_names, with_changes
from tocsin_server.detect.custom.tuning import Tuning
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.engine.plan import Plan
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.interface.description import RuleSettings
from tocsin_server.detect.interface.similar_runs import SimilarRun, SimilarRuns
from tocsin_server.detect.rules.catalog import every_settings_type, settings_types

COUNT, SIZE = 1200, 200
TINY, HUGE = (-1, 0, 1e-9, 0.5, 1, 2), (LARGEST, 1e300)
REPEATED = SimilarRuns((SimilarRun("r0", "healthy", "finished", peak_lr=1e-3),))


@cache
def troubles() -> dict[str, list[float]]:
    """Series that contain each problem: spikes, a jump, NaN, overflows, a learning rate restart, a clamp."""
    draw, steps = random.Random(1), range(COUNT)
    loss = [3 * math.exp(-step / 200) + draw.gauss(0, 0.05) + 5 * (step > 900) for step in steps]
    loss[300] = loss[301] = loss[420] = 9.0
    loss[1000:1010] = [math.nan] * 10
    norm = [abs(1 + draw.gauss(0, 0.2)) for _ in steps]
    norm[298], norm[100:160], norm[1000:1030] = 50.0, [0.0] * 60, [math.inf] * 30
    return {
        "loss": loss,
        "grad_norm": norm,
        "lr": [1e-3 * (1.01 + math.cos(step / 100)) * (step < 1100) for step in steps],
        "scale": [2.0 ** (16 - max(0, step - 700) // 10) for step in steps],
        "skipped": [float(step > 700 and step % 10 == 0) for step in steps],
        "step_time": [0.1 if step < 400 else 0.5 for step in steps],
        "loss/D": [-1000.0002] * COUNT,
        "val/psnr": [20 + min(step, 300) / 50 - max(0, step - 300) / 100 for step in steps],
    }


def batches() -> Iterator[RecordBatch]:
    for start in range(0, COUNT, SIZE):
        steps = np.arange(start, start + SIZE, dtype=np.int64)
        columns = {
            name: Column(np.array(values[start : start + SIZE]), None) for name, values in troubles().items()
        }
        yield RecordBatch(Writer("r", 1, 1, 0), start + 1, start, SIZE, steps, steps * 10**8, columns)


def run_rule(rule: str, settings: RuleSettings) -> None:
    """The records above under this rule alone."""
    context = RunContext(run_id="r", clips={"": 10.0}, siblings=REPEATED)
    engine = Engine(context, {rule: settings})
    engine._adopt(Plan((), {other: Tuning(enabled=False) for other in settings_types() if other != rule}))
    for batch in batches():
        engine.observe(batch)


@pytest.mark.parametrize("rule", sorted(settings_types()))
def test_every_setting_is_rejected_or_works(rule: str) -> None:
    """With the smallest and the largest accepted value of each field, no rule raises an exception."""
    kind = settings_types()[rule]
    for item in fields(kind):
        taken: list[RuleSettings] = []
        for value in (*TINY, *HUGE):
            with suppress(FieldError):
                taken.append(with_changes(rule, kind, {item.name: value}))
        assert taken, f"{item.name} takes none of these values"
        for settings in {id(each): each for each in (taken[:1] + taken[-1:])}.values():
            run_rule(rule, settings)  # an engine does not catch what a rule raises


def test_a_window_that_is_too_small_is_rejected() -> None:
    """The error names the field, the smallest accepted value and the given one, before any evaluation."""
    message = "loss-spike: window: expected a whole number of at least 3, got 1"
    with pytest.raises(FieldError, match=message):
        with_changes("loss-spike", every_settings_type()["loss-spike"], {"window": 1})


@pytest.mark.parametrize("rule", sorted(RENAMED))
def test_the_old_name_of_a_setting_still_works(rule: str) -> None:
    kind = every_settings_type()[rule]
    names = {item.name for item in fields(kind)}
    assert names.isdisjoint(RENAMED[rule])
    for old, name in RENAMED[rule].items():
        assert with_changes(rule, kind, {old: getattr(kind(), name)}) == kind()


def test_the_old_and_the_current_name_of_a_setting_exclude_each_other() -> None:
    with pytest.raises(FieldError, match="loss-spike: new_baseline_records: expected no adopt, its old name"):
        current_names("loss-spike", {"adopt": 100, "new_baseline_records": 200})


def test_a_setting_is_called_what_it_does() -> None:
    """A name has a word that says what is set, a unit, and an explanation that can be read alone."""
    for rule, kind in every_settings_type().items():
        for item in fields(kind):
            assert item.metadata["unit"], f"{rule}: {item.name}"
            assert re.fullmatch(r"[A-Z\d].{14,}[^.]", item.metadata["help"]), f"{rule}: {item.name}"
            assert item.name not in ("alone", "apart", "beyond", "back", "adopt")
