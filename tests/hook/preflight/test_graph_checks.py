"""Findings from the loss graph: masked values, clamps, operations that overflow in float16."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.hook.preflight.checked import checked, found, net, unseen


@pytest.mark.parametrize("count", [1, 7])
def test_nan_to_num_is_counted_exactly(count: int) -> None:
    """Each call is one node of the graph."""
    model = net()

    def forward() -> Tensor:
        out: Tensor = model(torch.ones(4, 6))
        for _ in range(count):
            out = torch.nan_to_num(out)
        return out.mean()

    (finding,) = found(checked(model, forward, steps=2), "masked-values")
    assert (finding["severity"], finding["got"]) == ("warning", f"{count} times")


def test_clamps_are_counted() -> None:
    """clamp, clamp_min and clamp_max, with numbers and with tensors."""
    model = net()

    def forward() -> Tensor:
        out = model(torch.ones(4, 6)).clamp(-1, 1).clamp_min(-2).clamp_max(2)
        clamped: Tensor = out.clamp(torch.tensor(-3.0), torch.tensor(3.0))
        return clamped.mean()

    (finding,) = found(checked(model, forward), "clamped-values")
    assert (finding["severity"], finding["got"]) == ("info", "4 times")


def test_an_fft_with_float16_is_reported() -> None:
    """Also a functional one, which is not in a list of modules; in float32 alone there is no finding."""
    model = net()

    def forward(half: bool = True) -> Any:
        with torch.autocast("cpu", torch.float16, enabled=half):
            out = model(torch.ones(4, 6))
        return torch.fft.irfft2(torch.fft.rfft2(out.float()), s=(4, 2)).mean()

    (finding,) = found(checked(model, forward), "fp16-unsafe")
    assert finding["subject"] == "FFT x 2 in float32 next to float16 operations"
    assert found(checked(model, lambda: forward(False)), "fp16-unsafe") == []


def test_powers_in_float16_are_reported() -> None:
    """The dtype that the node computed counts, not the present state of autocast."""
    model = net().half()
    x = torch.ones(4, 6, dtype=torch.float16)
    outbox = checked(model, lambda: model(x).pow(2).mean())
    (finding,) = found(outbox, "fp16-unsafe")
    assert finding["subject"] == "Pow x 1 (float16)"
    assert "an eps within float16 operations" in unseen(outbox)


def test_float16_without_a_scaler_is_reported() -> None:
    """With a scaler it is not, and a scaler without float16 is reported as needless."""
    model = net()
    scaler = torch.amp.GradScaler("cpu")

    def half() -> Any:
        with torch.autocast("cpu", torch.float16):
            return model(torch.ones(4, 6)).float().mean()

    assert len(found(checked(model, half), "scaler-missing")) == 1
    assert found(checked(model, lambda: scaler.scale(half())), "scaler-missing") == []
    outbox = checked(model, lambda: scaler.scale(model(torch.ones(4, 6)).mean()))
    assert len(found(outbox, "scaler-needless")) == 1
