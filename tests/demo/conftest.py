"""Run each training of the demo once, short, and read its data back from a real server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.matrix import ALL

Values = dict[str, list[Any]]
LONGEST_S = 600.0
SEEDS = [None, 11, 12] if ALL else [None]
"""Seeds of the trainings; None is the demo's own seed."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Add each seed, if there are several, to the names of the tests that train."""
    if len(SEEDS) > 1 and "trained" in metafunc.fixturenames:
        metafunc.parametrize(
            "demo_seed", SEEDS, indirect=True, ids=lambda seed: f"seed {seed}", scope="module"
        )


@pytest.fixture(scope="module")
def demo_seed(request: pytest.FixtureRequest) -> int | None:
    """The seed of the module's trainings."""
    seed: int | None = getattr(request, "param", None)
    return seed


@pytest.fixture(scope="module")
def trained(shared_tower: Any, demo_seed: int | None) -> Callable[[str, str, int], tuple[Values, list[Any]]]:
    """``trained(module, run name, steps)``: series -> values in order of step, and the run's alerts."""

    def train(module: str, name: str, steps: int) -> tuple[Values, list[Any]]:
        pace = ["--steps", str(steps), "--steps-per-s", "0"]
        if demo_seed is not None:
            pace += ["--seed", str(demo_seed)]
        with shared_tower.training("-m", f"tocsin_server.demo.trainings.{module}", *pace) as process:
            assert process.wait(LONGEST_S) == 0
        run = shared_tower.run_named(name)["id"]
        return columns(shared_tower.records(run)), shared_tower.alerts(run)

    return train


def columns(records: list[dict[str, Any]]) -> Values:
    """Return records as series: each step's value once, in order of step."""
    found: dict[str, dict[int, Any]] = {}
    for record in records:
        for name, value in record["values"].items():
            found.setdefault(name, {})[record["step"]] = value
    return {name: [values[step] for step in sorted(values)] for name, values in found.items()}
