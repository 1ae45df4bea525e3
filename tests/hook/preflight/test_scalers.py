"""Settings of loss scalers that cannot work."""

from __future__ import annotations

import pytest
import torch

from tests.hook.preflight.checked import checked, found, net, scaled
from tocsin.preflight.scalers import faults, skipped_share


def test_a_scaler_that_cannot_keep_its_scale() -> None:
    """The settings of the scaler in use are checked; torch's defaults cause no finding."""
    model = net()
    for interval, count in ((1, 1), (2000, 0)):
        scaler = torch.amp.GradScaler("cpu", growth_interval=interval)
        outbox = checked(model, scaled(scaler, model))
        assert len(found(outbox, "scaler-settings")) == count
        del scaler


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        ({}, None),
        ({"init_scale": 0.0}, "init_scale"),
        ({"init_scale": float("inf")}, "init_scale"),
        ({"init_scale": 2.0**30}, "init_scale"),
        ({"growth_factor": 1.0}, "growth_factor"),
        ({"backoff_factor": 1.0}, "backoff_factor"),
        ({"backoff_factor": 0.99}, "backoff_factor"),
        ({"growth_interval": 0.0}, "growth_interval"),
        ({"growth_interval": 2.0}, "growth_interval"),
        ({"growth_interval": 100.0}, None),
    ],
)
def test_settings_of_a_scaler(change: dict[str, float], setting: str | None) -> None:
    """torch's defaults with one of them changed."""
    usual = {"init_scale": 2.0**16, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000.0}
    found = [name for name, _, _ in faults(**{**usual, **change})]
    assert found == ([setting] if setting else [])


def test_a_start_that_is_too_high_hides_no_other_fault() -> None:
    """The scale comes down from it; an interval that is too short is still found."""
    fault = {"init_scale": 2.0**30, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2.0}
    assert [name for name, _, _ in faults(**fault)] == ["init_scale", "growth_interval"]


def test_the_share_of_skipped_steps() -> None:
    """Doubled every step and halved on overflow, every second step is lost."""
    assert skipped_share(2.0, 0.5, 1) == 0.5
    assert skipped_share(2.0, 0.5, 2000) == pytest.approx(1 / 2001)
