"""Like symptoms, swapped causes: the diagnosis names the right one first."""

from __future__ import annotations

import pytest

from tests.matrix import ALL
from tests.scenarios.causes.faults import SCENARIOS, Fault, Scenario, training
from tests.scenarios.causes.judging import Named, named
from tests.scenarios.evaluation import evaluated, per_variant, trained

CHOSEN = SCENARIOS if ALL else SCENARIOS[::10]
"""Every tenth in ``make test``."""
HEALTHY = {"fp32": Fault(), "fp16": Fault(scale=2.0**10), "fp16 from a high scale": Fault(scale=2.0**24)}


@per_variant
def outcome(scenario: Scenario) -> Named:
    return named(scenario, evaluated(trained(training(scenario.fault))))


@pytest.mark.parametrize("scenario", CHOSEN, ids=str)
def test_the_cause_is_among_the_first_two(scenario: Scenario) -> None:
    found = outcome(scenario)
    assert found.place in (1, 2), f"{found.rule}: {found.texts}"


@pytest.mark.parametrize("fault", HEALTHY.values(), ids=HEALTHY)
def test_the_healthy_training_raises_no_alert(fault: Fault) -> None:
    assert evaluated(trained(training(fault))).severe == []


@pytest.mark.skipif(not ALL, reason="all scenarios: TOCSIN_TEST_ALL=1")
def test_the_first_cause_is_right_in_nine_of_ten() -> None:
    """Of those whose cause the records can tell; for the others, one sentence names both."""
    places = [outcome(scenario).place for scenario in SCENARIOS if not scenario.either]
    assert places.count(1) >= 0.9 * len(places)
