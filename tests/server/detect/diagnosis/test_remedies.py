"""Tests of which remedies and causes fit a run."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tocsin_server.core.models import Diagnosis


def exploded(watch: Any, **columns: list[float]) -> Diagnosis:
    """The diagnosis of a gradient norm that rises from 1 to a million at record 1200."""
    run = watch()
    norm = [1 + 0.01 * (step % 7) for step in range(1200)] + [1e6] * 10
    run.records(grad_norm=norm, loss=[4.5 + 0.01 * (step % 7) for step in range(1210)], **columns)
    diagnosis = run.firing("grad-explosion")[0].diagnosis
    assert isinstance(diagnosis, Diagnosis)
    return diagnosis


def texts(diagnosis: Diagnosis) -> str:
    """Cause, alternatives and remedies in one string."""
    remedies = [f"{each.text} {each.code}" for each in diagnosis.remedies]
    return "\n".join([diagnosis.cause, *diagnosis.alternatives, *remedies]).lower()


@pytest.mark.parametrize("share", [1.0, 1e-2])
def test_a_learning_rate_near_its_peak_may_be_the_cause(watch: Any, share: float) -> None:
    """The peak is in the first records, which the history has dropped since."""
    assert "learning rate" in texts(exploded(watch, lr=[1e-2] * 100 + [1e-2 * share] * 1110))


def test_a_learning_rate_far_below_its_peak_is_no_cause(watch: Any) -> None:
    assert "learning rate" not in texts(exploded(watch, lr=[1e-2] * 100 + [5e-6] * 1110))


def test_a_learning_rate_that_rises_at_the_onset_may_be_the_cause(watch: Any) -> None:
    """It is a thousandth of what it becomes, not of what it was."""
    assert "learning rate" in texts(exploded(watch, lr=[1e-5] * 1200 + [1.0] * 10))


def nonfinite(watch: Any, **columns: list[float]) -> Diagnosis:
    """The diagnosis of a loss and a gradient norm that become NaN at record 200."""
    run = watch()
    loss = [1 + 0.01 * (step % 7) for step in range(200)] + [math.nan] * 30
    run.records(loss=loss, grad_norm=loss, **columns)
    diagnosis = run.firing("nonfinite-loss")[0].diagnosis
    assert isinstance(diagnosis, Diagnosis)
    return diagnosis


@pytest.mark.parametrize("word", ["fp16", "float16", "scaler", "rfft2", "fft", "l1"])
def test_a_run_without_a_loss_scale_gets_no_advice_about_one(watch: Any, word: str) -> None:
    assert word not in texts(nonfinite(watch)).replace("bfloat16", "")


@pytest.mark.parametrize(
    ("saved", "action"),
    [
        (False, "Stop. Resume from a checkpoint before step "),
        (True, "Stop. Resume from 150.pt (step 150); "),
    ],
)
def test_a_run_with_a_scale_of_zero_is_to_be_stopped_first(watch: Any, saved: bool, action: str) -> None:
    """Every update is skipped, so that tuning cannot help; the checkpoint is named if it is known."""
    run = watch()
    if saved:
        run.event("checkpoint", 150, path="ckpt/150.pt")
    loss = [1 + 0.01 * (step % 7) for step in range(200)] + [math.nan] * 60
    scale = [2.0 ** max(-20, 16 - max(0, step - 200)) if step < 240 else 0.0 for step in range(260)]
    run.records(loss=loss, grad_norm=loss, scale=scale)
    alerts = [alert for alert in run.firing("scaler-at-floor") if alert.diagnosis]
    assert alerts[-1].diagnosis.remedies[0].text.startswith(action)


def test_a_run_whose_scale_collapsed_far_is_to_be_stopped_first(watch: Any) -> None:
    """With 2^-44 every gradient that fp16 can hold underflows to 0."""
    run = watch()
    loss = [1 + 0.01 * (step % 7) for step in range(200)] + [math.nan] * 60
    scale = [2.0 ** (16 - max(0, step - 199)) for step in range(260)]
    run.records(loss=loss, grad_norm=loss, scale=scale, skipped=[float(step >= 200) for step in range(260)])
    newest = run.firing("scaler-collapse")[-1].diagnosis
    assert newest.remedies[0].text.startswith("Stop. Resume from")


def test_no_checkpoint_is_named_before_the_first_step(watch: Any) -> None:
    """Nothing was saved before a loss that is NaN from the beginning."""
    run = watch()
    run.records(loss=[math.nan] * 60, grad_norm=[math.nan] * 60)
    newest = run.firing("nonfinite-loss")[-1].diagnosis
    assert newest.remedies[0].text == "Stop. Fix the cause and start again; no update can succeed any more."
    assert "before step 0" not in texts(newest)
