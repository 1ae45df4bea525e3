"""Tests of the rule loss-saturated."""

from __future__ import annotations

import random
from typing import Any

import pytest

RULE = "loss-saturated"


def moving(count: int, height: float = 3.0) -> list[float]:
    draw = random.Random(1)
    return [height * (1 + draw.gauss(0, 0.1)) for _ in range(count)]


@pytest.mark.parametrize(
    ("loss", "severity", "cause"),
    [
        (-1000.0002, "critical", "clamp"),
        (0.0, "critical", "from the start"),
        (1.3862944, "warning", "chance level"),
        (0.7312, "warning", "no longer depends on the batch"),
    ],
)
def test_the_cause_of_a_constant_loss_depends_on_its_value(
    watch: Any, loss: float, severity: str, cause: str
) -> None:
    """A clamp at a round number, targets at 0, chance level at ln 4, otherwise a detached graph."""
    run = watch()
    run.records(loss=[loss] * 64, every=40)
    finding = run.firing(RULE)[-1]
    assert (finding.severity, finding.onset_step) == (severity, 0)
    assert cause in finding.diagnosis.cause


def test_two_losses_at_mirror_values_are_one_clamp(watch: Any) -> None:
    """Critic and generator at minus and plus 1000: each alert names the other."""
    run = watch()
    run.records(loss=[1000.0] * 64, more={"loss/D": [-1000.0002] * 64})
    assert any("with the opposite sign" in finding.diagnosis.cause for finding in run.firing(RULE))


def test_a_loss_that_fell_to_zero_is_info(watch: Any) -> None:
    """Hinge losses end at exactly 0."""
    run = watch()
    run.records(loss=moving(200) + [0.0] * 100, grad_norm=[1.0] * 300)
    assert run.severities(RULE) == ["info"]


@pytest.mark.parametrize("loss", [[0.0012] * 200, [1.0 - 1e-7 * step for step in range(200)]])
def test_rounding_and_tiny_improvements_raise_no_alert(watch: Any, loss: list[float]) -> None:
    """Four decimals of a small loss; a full batch that falls a little at each step."""
    run = watch()
    run.records(loss=loss)
    assert run.firing(RULE) == []


def test_resolved_when_it_moves(watch: Any) -> None:
    """A hundred updates that differ."""
    run = watch()
    run.records(loss=[5.0] * 64 + moving(160))
    assert run.states(RULE) == ["firing", "recovering", "resolved"]


def test_rare_excursions_from_a_clamp_do_not_resolve(watch: Any) -> None:
    """A critic at -1000: a record in hundreds is a little above, or far off, and the alert stays firing."""
    loss = [-25.0 * step for step in range(40)] + [-1000.0002] * 1200
    for step, value in ((100, -999.67), (101, -999.94), (140, -990.0), (145, -999.4), (500, -640.0)):
        loss[step] = value
    run = watch()
    run.records(loss=loss)
    assert run.states(RULE) == ["firing"]


def test_a_loss_that_leaves_for_good_resolves_it(watch: Any) -> None:
    """Back at the clamp now and then delays the end, by no more than the updates since."""
    run = watch()
    run.records(loss=[-1000.0] * 80 + moving(5, -500.0) + [-1000.0] * 2 + moving(160, -500.0))
    assert run.states(RULE) == ["firing", "recovering", "resolved"]


@pytest.mark.parametrize(
    ("every", "loss", "expected"),
    [
        (100, [1000.0002, 1000.0], ["warning"]),
        (1, [1000.0, 1000.0], []),
        (100, [10.0, 10.0], []),
        (100, [983.1, 983.1], []),
        (100, [3.0, 1000.0, 1000.0], []),
    ],
    ids=["a clamp", "one batch twice", "two digits", "no round number", "in mid-run"],
)
def test_two_records_of_an_excerpt(watch: Any, every: int, loss: list[float], expected: list[str]) -> None:
    """Far apart, at a large round number, with nothing before: a clamp; otherwise no alert."""
    run = watch()
    run.records(start=100, every=every, loss=loss)
    run.event("finish")
    assert run.severities(RULE) == expected


LN_1000 = 6.9077553


def test_chance_level_while_the_rate_warms_up_raises_no_alert(watch: Any) -> None:
    """A head whose weights start at 0 guesses until the learning rate is high enough."""
    run = watch()
    run.records(loss=[LN_1000] * 900, every=5, lr=[1e-6 * (step + 1) for step in range(900)])
    assert run.firing(RULE) == []


def test_chance_level_in_the_first_updates_raises_no_alert(watch: Any) -> None:
    """A hundred records within the first hundred steps are too early."""
    run = watch()
    run.records(loss=[LN_1000] * 100)
    assert run.firing(RULE) == []


def test_the_last_of_four_decimals_may_flicker(watch: Any) -> None:
    """0.7312 and 0.7313 in turn is a constant loss, as it is printed."""
    run = watch()
    run.records(loss=[0.7312, 0.7313] * 40)
    assert run.severities(RULE) == ["warning"]
