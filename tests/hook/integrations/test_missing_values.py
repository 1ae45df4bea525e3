"""An engine of a framework's version that lacks a method: one warning names it, the other values arrive."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.hook.captured import watched
from tests.hook.integrations.stand_ins import installed
from tocsin.integrations import framework
from tocsin.integrations.deepspeed import watch_engine
from tocsin.integrations.megatron import watch_optimizer


def engine(**without: Any) -> Any:
    """Return what has the methods of DeepSpeed's engine, except those that are None."""
    parts: dict[str, Any] = {
        "backward": lambda loss: None, "step": lambda: None, "global_steps": 0, "_config": SimpleNamespace(),
        "fp16_enabled": lambda: True, "is_gradient_accumulation_boundary": lambda: True,
        "get_lr": lambda: [0.5], "get_global_grad_norm": lambda: 2.0, "was_step_applied": lambda: True,
        "optimizer": SimpleNamespace(cur_scale=8.0), **without,
    }  # fmt: skip
    return SimpleNamespace(**{name: part for name, part in parts.items() if part is not None})


READ = {
    "get_lr": "lr",
    "get_global_grad_norm": "grad_norm",
    "was_step_applied": "skipped",
    "optimizer": "scale",
}


@pytest.mark.parametrize("lacking", READ)
def test_deepspeed_without_a_method(
    lacking: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framework, "_warned", set())
    with caplog.at_level(logging.WARNING, "tocsin"), watched() as (_, outbox):
        one = engine(**{lacking: None})
        watch_engine(one)
        for _ in range(2):
            one.backward(torch.tensor(3.0))
            one.step()
    expected = {"lr": 0.5, "grad_norm": 2.0, "skipped": 0.0, "scale": 8.0, "loss": 3.0}
    for name, value in expected.items():
        wanted = [] if name == READ[lacking] else [(0, value), (1, value)]
        assert outbox.series(name) == wanted
    (warning,) = caplog.messages
    assert warning.startswith("tocsin: deepspeed")
    assert lacking in warning


class Optimizer:
    """What has the methods of Megatron's optimizer, but no ``get_loss_scale``."""

    grad_scaler = object()
    param_groups = ({"lr": 0.5},)
    config = SimpleNamespace(clip_grad=1.0)

    def scale_loss(self, loss: Any) -> Any:
        """Scale nothing."""
        return loss

    def step(self) -> tuple[bool, float, None]:
        """Return what Megatron's optimizer returns."""
        return True, 2.0, None


def test_megatron_without_a_method(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framework, "_warned", set())
    with caplog.at_level(logging.WARNING, "tocsin"), watched() as (_, outbox):
        optimizer = Optimizer()
        watch_optimizer(optimizer)
        optimizer.step()
        optimizer.step()
    assert (outbox.series("lr"), outbox.series("grad_norm")) == ([(0, 0.5), (1, 0.5)], [(0, 2.0), (1, 2.0)])
    (warning,) = caplog.messages
    assert "optimizer.get_loss_scale cannot be used" in warning


def test_keras_without_the_method_that_sees_the_norm_claims_no_skipped_step(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framework, "_warned", set())
    inner = SimpleNamespace(_backend_update_step=lambda *_: None)  # no _clip_gradients
    scaled = SimpleNamespace(
        inner_optimizer=inner, built=True, dynamic_scale=8.0, scale_loss=lambda loss: loss
    )
    scaled.apply = lambda grads: inner._backend_update_step(grads, [], 0.5)
    model = SimpleNamespace(optimizer=scaled, compute_loss=lambda: torch.tensor(3.0))
    with caplog.at_level(logging.WARNING, "tocsin"), installed("keras") as module:
        step = module.TrainStep(model, None)
        step.is_open = True
        model.compute_loss()
        scaled.apply([torch.ones(2)])
    assert step.close() == {"loss": 3.0, "lr": 0.5, "scale": 8.0, "skipped": 0.0}
    (warning,) = caplog.messages
    assert "_clip_gradients cannot be used" in warning
