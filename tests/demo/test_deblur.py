"""The training of the demo that ends in a scaler collapse."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import pytest

from tests.matrix import LONG

pytestmark = [LONG, pytest.mark.timeout(700)]  # 800 steps, half a minute of CPU
STEPS = 800
"""The collapse ended by step 754 at the latest, over six seeds and two sets of kernels."""
NON_FINITE = {"NaN", "Infinity", "-Infinity"}


@pytest.fixture(scope="module")
def run(trained: Callable[..., Any]) -> Any:
    return trained("deblur", "restorer-fp16", STEPS)


def overflows(run: Any) -> list[int]:
    """Return the steps that were skipped, except at startup."""
    return [step for step, skipped in enumerate(run[0]["skipped"]) if skipped and step > 30]


def test_it_is_healthy_for_hundreds_of_steps(run: Any) -> None:
    """Its loss falls and nothing overflows until the learning rate is too high."""
    losses = run[0]["loss"]
    assert overflows(run)[0] > 300
    assert median(losses[200:300]) < 0.8 * median(losses[:20])


def test_it_collapses(run: Any) -> None:
    """The scale falls from 65536 to a useless value, without growing in between."""
    scales = run[0]["scale"]
    assert scales[30] >= 1024
    assert scales[-1] < 2**-16
    assert scales[30:] == sorted(scales[30:], reverse=True)


def test_it_does_not_recover(run: Any) -> None:
    """At the end every step is skipped and every loss is NaN or infinite, at any scale."""
    assert all(run[0]["skipped"][-50:])
    assert set(run[0]["loss"][-50:]) <= NON_FINITE


def test_its_alerts_name_the_learning_rate(run: Any) -> None:
    """Loss and norm rose around the first overflow. The fp16 operation is the alternative cause.

    Where no update can succeed any more, to stop is the first action.
    """
    rules = {"scaler-collapse", "scaler-overflow-burst"}
    chain = [alert for alert in run[1] if alert["rule"] in rules and alert["onset_step"] > 300]
    assert {alert["rule"] for alert in chain} == rules
    for alert in chain:
        found = alert["diagnosis"]
        assert found["cause"].startswith("Likely a learning rate that is too high"), alert["rule"]
        texts = [remedy["text"] for remedy in found["remedies"]]
        tuning = [text for text in texts if not text.startswith("Stop.")]
        assert tuning[0].startswith("Divide the learning rate")
        assert any("autocast" in remedy["code"] for remedy in found["remedies"])


def test_the_timeline_begins_with_the_episode(run: Any) -> None:
    """A clip that never acts was reported at the start; it is not part of the collapse hundreds of steps
    later."""
    (collapse,) = [alert for alert in run[1] if alert["rule"] == "scaler-collapse"]
    (clip,) = [alert for alert in run[1] if alert["rule"] == "clip-ineffective"]
    assert clip["onset_step"] < 100 < collapse["diagnosis"]["timeline"][0][0]


def test_the_alert_has_the_onset_of_the_collapse(run: Any) -> None:
    """The collapse is critical, and its onset is an overflow with no other in the hundred steps before it."""
    found = [alert for alert in run[1] if alert["rule"] == "scaler-collapse"]
    assert [alert["severity"] for alert in found] == ["critical"]
    onset = found[0]["onset_step"]
    assert onset in overflows(run)
    assert not [step for step in overflows(run) if onset - 100 <= step < onset]
