"""Loops as frameworks write them: the optimizer in a wrapper, and backwards that are not steps."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_  # imported before any hook, as in frameworks

from tests.hook.truth import Truth, batches, grad_scaler, half_loss, model, norm_of, torch_is_before


class Delegating(torch.optim.Optimizer):
    """Like Accelerate's wrapper: an ``Optimizer`` by class whose own ``__init__`` never ran."""

    def __init__(self, optimizer: torch.optim.Optimizer, scaler: Any = None) -> None:
        self.optimizer, self.scaler = optimizer, scaler
        self.syncs = True

    param_groups = property(lambda self: self.optimizer.param_groups)
    state = property(lambda self: self.optimizer.state)
    defaults = property(lambda self: self.optimizer.defaults)

    def zero_grad(self, set_to_none: bool = True) -> None:
        if self.syncs:
            self.optimizer.zero_grad(set_to_none)

    def step(self, closure: Any = None) -> Any:
        if not self.syncs:
            return None
        if self.scaler is None:
            return self.optimizer.step(closure)
        self.scaler.step(self.optimizer, closure)
        return self.scaler.update()


class Imitating:
    """Like Lightning's and Fabric's wrapper: it takes the class of what it wraps."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        wrapped = type(optimizer)
        self.__class__ = type("Imitating" + wrapped.__name__, (Imitating, wrapped), {})

    def step(self, closure: Any = None) -> Any:
        return self._optimizer.step(closure)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)


def _adamw(net: nn.Module, *, fused: bool) -> torch.optim.Optimizer:
    if fused and torch_is_before(2, 4):
        pytest.skip("torch before 2.4 has fused optimizers for CUDA only")
    return torch.optim.AdamW(net.parameters(), lr=0.01, fused=fused)


def delegating_fused_clip(truth: Truth) -> nn.Module:
    """The default Hugging Face Trainer: a fused optimizer in a wrapper, clip, step, then the module's
    zero_grad."""
    net = model()
    optimizer = Delegating(_adamw(net, fused=True))
    for batch in batches(20):
        loss = net(batch).pow(2).mean()
        loss.backward()
        norm = norm_of(net.parameters())
        clip_grad_norm_(net.parameters(), 0.05)
        optimizer.step()
        net.zero_grad()
        truth.note(optimizer, [loss], norm=norm)
    return net


def delegating_scaled_clip(truth: Truth) -> nn.Module:
    """GradScaler and clip with a wrapped optimizer, with overflows."""
    net = model()
    scaler = grad_scaler(init_scale=2.0**14, growth_interval=5)
    optimizer = Delegating(_adamw(net, fused=False), scaler)
    for batch in batches(30, hot=(0, 6, 7, 12)):
        loss = half_loss(net, batch)
        scaler.scale(loss).backward()
        scale = scaler.get_scale()
        scaler.unscale_(optimizer.optimizer)
        norm = norm_of(net.parameters())
        clip_grad_norm_(net.parameters(), 1.0)
        finite = math.isfinite(norm)
        optimizer.step()
        truth.note(
            optimizer,
            [loss],
            norm=norm,
            scale=scale,
            stepped=finite,
            skipped=not finite,
            found_inf=float(not finite),
        )
        if scaler.get_scale() != scale:
            truth.changes.append((truth.count - 1, scale, scaler.get_scale()))
        optimizer.zero_grad()
    assert any(row["skipped"] for row in truth.rows)
    return net


def delegating_accumulation(truth: Truth) -> nn.Module:
    """The script calls zero_grad after each micro-step; the wrapper does so once per step."""
    net = model()
    optimizer = Delegating(_adamw(net, fused=True))
    losses: list[torch.Tensor] = []
    for k, batch in enumerate(batches(40)):
        optimizer.syncs = k % 4 == 3
        losses.append(net(batch).pow(2).mean() / 4)
        losses[-1].backward()
        if optimizer.syncs:
            norm = norm_of(net.parameters())
            clip_grad_norm_(net.parameters(), 0.05)
        optimizer.step()
        if optimizer.syncs:
            truth.note(optimizer, losses, norm=norm, divided=True)
            losses = []
        optimizer.zero_grad()
    return net


def imitating_fused_clip(truth: Truth) -> nn.Module:
    """Lightning: forward, zero_grad, backward and clip in the closure of a wrapper of the same class."""
    net = model()
    optimizer: Any = Imitating(_adamw(net, fused=True))
    for batch in batches(20):
        seen: list[Any] = []

        def closure(batch: torch.Tensor = batch, seen: list[Any] = seen) -> torch.Tensor:
            loss: torch.Tensor = net(batch).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            seen[:] = [loss, norm_of(net.parameters())]
            clip_grad_norm_(net.parameters(), 0.05)
            return loss

        optimizer.step(closure)
        truth.note(optimizer, seen[:1], norm=seen[1])
    return net


def saliency(truth: Truth) -> nn.Module:
    """Every fifth step an evaluation computes gradients of its inputs, and drops those of the weights."""
    net = model()
    optimizer = _adamw(net, fused=False)
    for k, batch in enumerate(batches(20)):
        if k % 5 == 4:
            shown = batch.clone().requires_grad_()
            net(shown).sum().backward()
            assert shown.grad is not None
        optimizer.zero_grad()
        loss = net(batch).pow(2).mean()
        loss.backward()
        norm = truth.sampled(net.parameters())
        optimizer.step()
        truth.note(optimizer, [loss], norm=norm)
    return net
