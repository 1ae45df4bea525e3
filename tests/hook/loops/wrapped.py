"""Loops in which something else calls the step: a hook, a wrapper, a closure, a compiled function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.checkpoint import checkpoint

from tests.hook.truth import (
    EVERY,
    Truth,
    batches,
    grad_scaler,
    half_loss,
    model,
    norm_of,
    train,
)


def _after_accumulation(param: nn.Parameter, hook: Callable[[Any], None]) -> None:
    if not hasattr(param, "register_post_accumulate_grad_hook"):
        pytest.skip("torch before 2.1 has no such hook")
    param.register_post_accumulate_grad_hook(hook)


def in_backward(truth: Truth) -> nn.Module:
    """One optimizer per parameter, stepped by its hook as soon as its gradient is complete."""
    net = model()
    optimizers = {param: torch.optim.AdamW([param], lr=0.01) for param in net.parameters()}
    squares: list[float] = []

    def step(param: Tensor) -> None:
        squares.append(float(param.grad.double().pow(2).sum()) if param.grad is not None else 0.0)
        optimizers[param].step()  # type: ignore[index]
        optimizers[param].zero_grad()  # type: ignore[index]

    for param in net.parameters():
        _after_accumulation(param, step)
    for batch in batches(20):
        squares.clear()
        loss = net(batch).pow(2).mean()
        loss.backward()
        norm = math.sqrt(sum(squares)) if truth.count % EVERY == 0 else None
        truth.note(next(iter(optimizers.values())), [loss], norm=norm)
    optimizers.clear()  # torch keeps the hook and everything that it refers to
    return net


def in_backward_of_the_last_micro_step(truth: Truth) -> nn.Module:
    """Gradient accumulation: the hooks step only in every second backward."""
    net = model()
    optimizers = {param: torch.optim.SGD([param], lr=0.01) for param in net.parameters()}
    squares: list[float] = []
    losses: list[Tensor] = []

    def step(param: Tensor) -> None:
        if len(losses) == 2:
            squares.append(float(param.grad.double().pow(2).sum()) if param.grad is not None else 0.0)
            optimizers[param].step()  # type: ignore[index]
            optimizers[param].zero_grad()  # type: ignore[index]

    for param in net.parameters():
        _after_accumulation(param, step)
    for batch in batches(40):
        losses.append(net(batch).pow(2).mean())
        losses[-1].backward()
        if len(losses) == 2:
            norm = math.sqrt(sum(squares)) if truth.count % EVERY == 0 else None
            truth.note(next(iter(optimizers.values())), losses, norm=norm)
            losses.clear()
            squares.clear()
    optimizers.clear()
    return net


def in_backward_with_rates_of_their_own(truth: Truth) -> nn.Module:
    """The same, with a clip of each gradient and a different learning rate for each parameter."""
    net = model()
    params = list(net.parameters())
    rates = {param: 0.01 / (k + 1) for k, param in enumerate(params)}
    optimizers = {param: torch.optim.SGD([param], lr=rate) for param, rate in rates.items()}
    norms: list[float] = []

    def step(param: Tensor) -> None:
        norms.append(float(clip_grad_norm_([param], 0.01)))
        optimizers[param].step()  # type: ignore[index]
        optimizers[param].zero_grad(set_to_none=False)  # type: ignore[index]

    order: list[float] = []
    for param in params:
        _after_accumulation(param, lambda param: order.append(rates[param]))
        _after_accumulation(param, step)
    for batch in batches(20):
        norms.clear()
        order.clear()
        loss = net(batch).pow(2).mean()
        loss.backward()
        first = optimizers[params[0]]
        truth.note(first, [loss], norm=math.hypot(*norms), rates=order)
    optimizers.clear()
    return net


def sharpness_aware(truth: Truth) -> nn.Module:
    """SAM: the first pass moves the weights along its gradient and drops it, the second one is applied."""

    class Sam(torch.optim.Optimizer):
        def __init__(self, params: Any, rho: float, lr: float) -> None:
            super().__init__(params, {"rho": rho, "lr": lr})
            self.base = torch.optim.SGD(self.param_groups, lr=lr)
            self.param_groups = self.base.param_groups

        @torch.no_grad()
        def first_step(self) -> None:
            total = norm_of(self.param_groups[0]["params"])
            for param in self.param_groups[0]["params"]:
                self.state[param]["old"] = param.clone()
                param.add_(param.grad * (0.05 / (total + 1e-12)))
            self.zero_grad()

        @torch.no_grad()
        def second_step(self) -> None:
            for param in self.param_groups[0]["params"]:
                param.copy_(self.state[param]["old"])
            self.base.step()
            self.zero_grad()

    net = model()
    optimizer = Sam(net.parameters(), rho=0.05, lr=0.05)
    for batch in batches(20):
        net(batch).pow(2).mean().backward()
        optimizer.first_step()
        loss = net(batch).pow(2).mean()
        loss.backward()
        norm = truth.sampled(net.parameters())
        optimizer.second_step()
        truth.note(optimizer, [loss], norm=norm)
    return net


def lookahead(truth: Truth) -> nn.Module:
    """A wrapper that steps another optimizer: one step, with the wrapper's learning rate."""

    class Lookahead(torch.optim.Optimizer):
        def __init__(self, inner: torch.optim.Optimizer) -> None:
            super().__init__(inner.param_groups, inner.defaults)
            self.inner, self.count = inner, 0
            self.slow = [param.detach().clone() for param in self.param_groups[0]["params"]]

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            self.inner.step()
            self.count += 1
            if self.count % 5 == 0:
                for slow, param in zip(self.slow, self.param_groups[0]["params"], strict=True):
                    slow.lerp_(param, 0.5)
                    param.copy_(slow)

    net = model()
    optimizer = Lookahead(torch.optim.Adam(net.parameters(), lr=0.01))
    return train(truth, optimizer, net)


def subclass_of_subclass(truth: Truth) -> nn.Module:
    """An optimizer whose ``step`` calls ``super().step()`` through two levels."""

    class Decayed(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    class Loud(Decayed):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    net = model()
    optimizer = Loud(net.parameters(), lr=0.1)
    return train(truth, optimizer, net)


def closure_by_keyword(truth: Truth) -> nn.Module:
    """As in Lightning: forward, zero_grad and backward inside ``optimizer.step(closure=...)``."""
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for batch in batches(20):
        losses: list[Tensor] = []

        def training_step(batch: Tensor = batch, losses: list[Tensor] = losses) -> Tensor:
            loss: Tensor = net(batch).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            losses.append(loss)
            return loss

        optimizer.step(closure=training_step)
        norm = norm_of(net.parameters()) if truth.count % EVERY == 0 else None
        truth.note(optimizer, losses, norm=norm)
    return net


def closure_with_clip_and_scaler(truth: Truth) -> nn.Module:
    """As in Lightning with float16: the closure first, then unscale, clip, ``scaler.step``, update."""
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    scaler = grad_scaler(init_scale=2.0**18, growth_interval=4)
    for batch in batches(24, hot=(6, 7)):

        def training_step(batch: Tensor = batch) -> Tensor:
            loss = half_loss(net, batch)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            return loss

        loss, scale = training_step(), scaler.get_scale()
        scaler.unscale_(optimizer)
        norm = norm_of(net.parameters())
        clip_grad_norm_(net.parameters(), 1.0)
        finite = math.isfinite(norm)
        scaler.step(optimizer)
        truth.note(
            optimizer,
            [loss],
            norm=norm,
            scale=scale,
            stepped=finite,
            skipped=not finite,
            found_inf=float(not finite),
        )
        truth.updated(scaler)
    assert any(row["skipped"] for row in truth.rows)
    return net


def wrapping_schedulers(truth: Truth) -> nn.Module:
    """A chain of schedulers, each of which wraps ``optimizer.step`` to count its calls."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=5)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 15)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, fall], [5])
    return train(truth, optimizer, net, schedule=schedule)


def _checkpointed(truth: Truth, *, reentrant: bool) -> nn.Module:
    net = model()
    first, middle, last = net

    def forward(batch: Tensor) -> Tensor:
        hidden = checkpoint(first, batch.requires_grad_(), use_reentrant=reentrant)
        out: Tensor = last(checkpoint(middle, hidden, use_reentrant=reentrant))
        return out

    return train(truth, torch.optim.SGD(net.parameters(), lr=0.1), net, forward=forward)


def checkpointed(truth: Truth) -> nn.Module:
    return _checkpointed(truth, reentrant=False)


def checkpointed_reentrant(truth: Truth) -> nn.Module:
    return _checkpointed(truth, reentrant=True)


def compiled_model(truth: Truth) -> nn.Module:
    net = model()
    forward = torch.compile(net, backend="aot_eager")
    return train(truth, torch.optim.SGD(net.parameters(), lr=0.1), net, forward=forward, clip=0.1)


def parametrized(truth: Truth) -> nn.Module:
    """Weights that are computed from other weights: the optimizer's parameters are the originals."""
    net = model()
    nn.utils.parametrizations.orthogonal(net[0])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return train(truth, optimizer, net)
