"""Optax: the state has each step's values, on one device and on two."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tests.matrix import LONG
from tests.real_trainers.comparison import FOLDER, RELATIVE, ROOT, TRAININGS

CASES = ("plain", "hyperparams", "skips", "accumulates", "sharded", "pmap")
SMALLEST = 1e-8
"""Difference of two rates that count as equal: compiled and uncompiled cosines near 0 round differently."""

pytestmark = LONG


def run(case: str) -> Any:
    """Return what the script prints. A deadlock ends in a failure."""
    path = os.pathsep.join(map(str, [ROOT, FOLDER / "requirements-jax"]))
    line = [sys.executable, str(TRAININGS / "optax_loop.py"), case]
    environ = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def results() -> Callable[[str], Any]:
    """Return a function that trains a case once."""
    return cache(run)


@pytest.mark.parametrize("case", CASES)
def test_every_step_has_the_values_that_jax_computes(results: Callable[[str], Any], case: str) -> None:
    """Loss, norm before clipping and rate; the weights and states are donated."""
    own, recorded = results(case)["own"], results(case)["recorded"]
    assert recorded["step"] == list(range(20 if case == "accumulates" else 60))
    for name, values in own.items():
        pairs = zip(values, recorded[name], strict=True)
        differing = [
            (step, one, other)
            for step, (one, other) in enumerate(pairs)
            if not math.isclose(one, other, rel_tol=RELATIVE, abs_tol=SMALLEST)
            and not (math.isnan(one) and math.isnan(other))
        ]
        assert differing == [], name


@pytest.mark.parametrize("case", CASES)
def test_weights_are_bit_identical(results: Callable[[str], Any], case: str) -> None:
    """With and without the norm in the compiled function."""
    assert results(case)["is_equal"]


def test_a_step_that_is_not_finite_is_a_skipped_one(results: Callable[[str], Any]) -> None:
    """As ``optax.apply_if_finite`` says."""
    assert [step for step, value in enumerate(results("skips")["recorded"]["skipped"]) if value] == [20]


def test_reporting_a_step_does_not_wait_for_its_values(results: Callable[[str], Any]) -> None:
    """Values that are still computed are read later. A restored state continues its count."""
    assert results("slow") == {"has_waited": False, "steps": [41]}
