"""Loops of one optimizer with a GradScaler, in float16."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_  # imported before any hook, as in scripts

from tests.hook.truth import (
    EVERY,
    Truth,
    batches,
    grad_scaler,
    half_loss,
    model,
    moved,
    norm_of,
    torch_is_before,
    weights_of,
)


def _scaled(truth: Truth, *, clips: bool, fused: bool, accumulate: int = 1) -> nn.Module:
    net = model()
    if fused and torch_is_before(2, 4):
        pytest.skip("torch before 2.4 has fused optimizers for CUDA only")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=fused)
    scaler = grad_scaler(init_scale=2.0**18, growth_interval=4)
    losses: list[Tensor] = []
    for k, batch in enumerate(batches(40 * accumulate, hot=(9, 10, 11, 30))):
        losses.append(half_loss(net, batch) / accumulate)
        scaler.scale(losses[-1]).backward()
        if k % accumulate != accumulate - 1:
            continue
        scale, before, norm = scaler.get_scale(), weights_of(net), None
        if clips:
            scaler.unscale_(optimizer)
            norm = norm_of(net.parameters())
            clip_grad_norm_(net.parameters(), 1.0)
        elif truth.count % EVERY == 0:
            norm = norm_of(net.parameters()) / scale
        finite = all(
            bool(torch.isfinite(param.grad).all()) for param in net.parameters() if param.grad is not None
        )
        scaler.step(optimizer)
        assert moved(before, net) == finite
        truth.note(
            optimizer,
            losses,
            norm=norm,
            scale=scale,
            stepped=finite,
            skipped=not finite,
            found_inf=float(not finite),
            divided=True,
        )
        truth.updated(scaler)
        optimizer.zero_grad()
        losses = []
    assert {True, False} == {row["stepped"] == 1 for row in truth.rows}
    return net


def scaled(truth: Truth) -> nn.Module:
    return _scaled(truth, clips=False, fused=False)


def scaled_clip(truth: Truth) -> nn.Module:
    return _scaled(truth, clips=True, fused=False)


def scaled_fused(truth: Truth) -> nn.Module:
    return _scaled(truth, clips=False, fused=True)


def scaled_fused_clip(truth: Truth) -> nn.Module:
    return _scaled(truth, clips=True, fused=True)


def scaled_accumulation(truth: Truth) -> nn.Module:
    return _scaled(truth, clips=True, fused=False, accumulate=3)


def scaled_sum(truth: Truth) -> nn.Module:
    """Arithmetic on scaled losses: the objective is the same as without scaling."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    scaler = grad_scaler(init_scale=2.0**10)
    for batch in batches(10):
        optimizer.zero_grad()
        one, two = half_loss(net, batch), half_loss(net, batch * 0.5)
        ((scaler.scale(one) + scaler.scale(two)) / 2).backward()
        scale = scaler.get_scale()
        norm = norm_of(net.parameters()) / scale if truth.count % EVERY == 0 else None
        scaler.step(optimizer)
        truth.note(optimizer, [(one + two) / 2], norm=norm, scale=scale, found_inf=0.0)
        truth.updated(scaler)
    return net


def scaler_disabled(truth: Truth) -> nn.Module:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = grad_scaler(enabled=False)
    for batch in batches(20):
        optimizer.zero_grad()
        loss = net(batch).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = norm_of(net.parameters())
        clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        truth.note(optimizer, [loss], norm=norm)
    return net


def scaled_norm_skipped_by_hand(truth: Truth) -> nn.Module:
    """The scaled gradients are clipped; if the norm is infinite, zero_grad and continue, without update."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    scaler = grad_scaler(init_scale=2.0**14, growth_interval=5)
    for batch in batches(30, hot=(0, 6, 7, 12)):
        loss = half_loss(net, batch)
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        norm = norm_of(net.parameters()) / scale
        total = clip_grad_norm_(net.parameters(), 1.0)
        if not torch.isfinite(total):
            truth.note(optimizer, [loss], norm=norm, scale=scale, stepped=False)
            optimizer.zero_grad()
            continue
        scaler.step(optimizer)
        truth.note(optimizer, [loss], norm=norm, scale=scale, found_inf=0.0)
        truth.updated(scaler)
        optimizer.zero_grad()
    assert any(row["stepped"] == 0 for row in truth.rows)
    return net


def unscaled_norm_skipped_by_hand(truth: Truth) -> nn.Module:
    """unscale_ and clip; if the norm is infinite, update and continue, with zero_grad at the next batch."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    scaler = grad_scaler(init_scale=2.0**14, growth_interval=5)
    for batch in batches(30, hot=(0, 6, 7, 12)):
        optimizer.zero_grad()
        loss = half_loss(net, batch)
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.unscale_(optimizer)
        norm = norm_of(net.parameters())
        total = clip_grad_norm_(net.parameters(), 1.0)
        if not torch.isfinite(total):
            truth.note(optimizer, [loss], norm=norm, scale=scale, stepped=False, found_inf=1.0)
            truth.updated(scaler)
            continue
        scaler.step(optimizer)
        truth.note(optimizer, [loss], norm=norm, scale=scale, found_inf=0.0)
        truth.updated(scaler)
    assert any(row["stepped"] == 0 for row in truth.rows)
    return net
