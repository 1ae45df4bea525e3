"""Tests of the causes of a loss that changes at once: data, learning rate, what is logged, one term."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

QUIET = 400
"""Records before anything happens."""


def noise(level: float, count: int, seed: int) -> list[float]:
    draw = random.Random(seed)
    return [level * draw.lognormvariate(0, 0.1) for _ in range(count)]


def cause(watch: Any, rule: str, **columns: list[float]) -> str:
    """Return the first cause in the last diagnosis of ``rule``."""
    run = watch()
    run.records(**columns)
    diagnosed = [
        finding for finding in run.findings if finding.rule == rule and finding.diagnosis is not None
    ]
    return diagnosed[-1].diagnosis.cause if diagnosed else ""


def scenario(what: str, offset: float = 0.0) -> dict[str, list[float]]:
    """Return columns of a run that is healthy, and then has the problem ``what`` for 150 records."""
    loss, norm, rate = noise(1.0, QUIET, 1), noise(0.5, QUIET, 2), [1e-3] * QUIET
    if what == "data":
        loss, norm, rate = loss + noise(8, 150, 3), norm + noise(6, 150, 4), rate + [1e-3] * 150
    if what == "rate":
        climb = [min(8.0, 1.15**step) for step in range(150)]
        loss, norm, rate = loss + climb, norm + noise(6, 150, 4), rate + [0.02] * 150
    if what == "climb":
        climb = [min(8.0, 1.15**step) for step in range(150)]
        loss, norm, rate = loss + climb, norm + [0.5 * each for each in climb], rate + [1e-3] * 150
    if what == "sum":
        loss, norm, rate = loss + noise(8, 150, 3), norm + noise(0.5, 150, 4), rate + [1e-3] * 150
    return {"loss": [each + offset for each in loss], "grad_norm": norm, "lr": rate}


WORDS = {"data": "Likely different data", "rate": "Likely the learning rate: it rose 20x"}


@pytest.mark.parametrize("offset", [0.0, -1.0, -5.0])
@pytest.mark.parametrize("what", WORDS)
def test_the_same_spike_has_the_cause_of_what_was_done(watch: Any, what: str, offset: float) -> None:
    """Eight times the loss from bad data or a raised rate; the loss positive, around 0 or negative."""
    assert cause(watch, "loss-spike", **scenario(what, offset)).startswith(WORDS[what])


def test_a_loss_that_rises_over_many_steps_is_not_a_data_problem(watch: Any) -> None:
    """At a constant learning rate, loss and norm rise together."""
    assert "a learning rate that is too high" in cause(watch, "loss-spike", **scenario("climb"))


def test_a_summed_loss_is_distinguished_from_one_that_rose(watch: Any) -> None:
    """Eight times the loss with the same gradients; without gradients they cannot be distinguished."""
    columns = scenario("sum")
    assert cause(watch, "loss-spike", **columns).startswith("Likely a change of the logged loss")
    del columns["grad_norm"]
    assert cause(watch, "loss-spike", **columns).startswith("Likely different data")


@pytest.mark.parametrize(("norms", "named"), [((1.0, 1.0), False), ((0.5, 0.2), True)])
def test_a_clipped_norm_does_not_count_as_a_fall(watch: Any, norms: tuple[float, float], named: bool) -> None:
    """The loss jumps and swings. Only a lower norm is a sign that a part passes no gradients."""
    draw = random.Random(3)
    usual, now = ([norm] * count for norm, count in zip(norms, (QUIET, 150), strict=True))
    loss = [*noise(1.0, QUIET, 1), *(8 * draw.lognormvariate(0, 0.6) for _ in range(150))]
    found = cause(watch, "loss-spike", loss=loss, grad_norm=[*usual, *now], lr=[1e-3] * (QUIET + 150))
    assert found
    assert ("passes" in found) is named


def test_a_nan_in_the_first_record_is_not_compared_with_earlier_ones(watch: Any) -> None:
    nothing = cause(watch, "nonfinite-loss", loss=[math.nan] * 30)
    assert nothing.startswith("Likely one batch")
    assert "the records before" not in nothing
    assert "the records before" in cause(watch, "nonfinite-loss", loss=[*noise(1, 200, 1), *[math.nan] * 30])


def test_an_infinite_term_is_distinguished_from_a_bad_batch(watch: Any) -> None:
    """The loss is infinite at every step while its gradients are finite."""
    columns = {"loss": noise(1, 200, 1) + [math.inf] * 50, "grad_norm": noise(0.5, 250, 2)}
    assert cause(watch, "nonfinite-loss", **columns).startswith("Likely one term of the loss")


def test_a_norm_within_its_own_noise_is_not_a_divergence(watch: Any) -> None:
    """Norms that vary tenfold, then a NaN: a high learning rate is not named as the cause."""
    draw = random.Random(7)
    norms = [draw.lognormvariate(0, 1.5) for _ in range(295)] + [4.0] * 5
    columns = {"loss": [*noise(1, 300, 1), *[math.nan] * 30], "grad_norm": [*norms, *[math.nan] * 30]}
    assert cause(watch, "nonfinite-loss", **columns).startswith("Likely one batch, or an unprotected log")


def test_a_second_spike_soon_after_has_its_own_onset(watch: Any) -> None:
    """A resolved alert does not affect the next one."""
    run = watch()
    quiet = noise(1.0, 100, 1)
    run.records(loss=[*quiet, 9.0, *[1.0] * 12, 9.0, *[1.0] * 12, 9.0, *[1.0] * 12])
    onsets = [finding.onset_step for finding in run.firing("loss-spike")]
    assert len(onsets) == len(set(onsets))
