"""Loops of two optimizers, with and without scalers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_  # imported before any hook, as in scripts

from tests.hook.truth import EVERY, Params, Truth, batches, grad_scaler, here, model, norm_of


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.g, self.d = model(0), model(1)
        self.up = nn.Linear(1, 8)


def gan(truth: Truth) -> nn.Module:
    """The critic first, then the generator through the critic; the critic's remaining gradients are
    zeroed."""
    pair = Pair()
    g_params: Params = [*pair.g.parameters(), *pair.up.parameters()]
    opt_d = torch.optim.Adam(pair.d.parameters(), lr=0.01)
    opt_g = torch.optim.Adam(g_params, lr=0.02)
    for batch in batches(20):
        opt_d.zero_grad()
        fake = pair.up(pair.g(batch))
        loss_d = pair.d(fake.detach()).mean() - pair.d(batch).mean()
        loss_d.backward()
        norm = truth.sampled(pair.d.parameters())
        opt_d.step()
        truth.note(opt_d, [loss_d], norm=norm)
        opt_g.zero_grad()
        loss_g = -pair.d(fake).mean()
        loss_g.backward()
        norm = norm_of(g_params) if (truth.count - 1) % EVERY == 0 else None
        opt_g.step()
        truth.note(opt_g, [loss_g], norm=norm, suffix="/g", advance=False)
    return pair


def _gan_scaled(truth: Truth, *, scalers: int) -> nn.Module:
    pair = Pair()
    g_params: Params = [*pair.g.parameters(), *pair.up.parameters()]
    opt_d = torch.optim.SGD(pair.d.parameters(), lr=0.01)
    opt_g = torch.optim.SGD(g_params, lr=0.02)
    made = [grad_scaler(init_scale=2.0**12, growth_interval=6) for _ in range(scalers)]
    scaler_d, scaler_g = made[0], made[-1]
    for batch in batches(24, hot=(4, 13)):
        opt_d.zero_grad()
        with torch.autocast(here(), dtype=torch.float16):
            fake = pair.up(pair.g(batch))
            loss_d = (pair.d(fake.detach()) - pair.d(batch)).float().pow(2).mean()
        scaler_d.scale(loss_d).backward()
        scaler_d.unscale_(opt_d)
        _scaled_step(truth, scaler_d, opt_d, loss_d, list(pair.d.parameters()))
        if scaler_d is not scaler_g:
            truth.updated(scaler_d)
        opt_g.zero_grad()
        with torch.autocast(here(), dtype=torch.float16):
            loss_g = (pair.d(fake) * (1 + batch.abs().mean())).float().pow(2).mean()
        scaler_g.scale(loss_g).backward()
        scaler_g.unscale_(opt_g)
        _scaled_step(truth, scaler_g, opt_g, loss_g, g_params, suffix="/g")
        truth.updated(scaler_g)
    assert any(row.get("skipped/g") for row in truth.rows)
    return pair


def _scaled_step(
    truth: Truth,
    scaler: torch.amp.GradScaler,
    optimizer: torch.optim.Optimizer,
    loss: Tensor,
    params: Params,
    suffix: str = "",
) -> None:
    """Clip, step and note it. The gradients are already unscaled."""
    norm = norm_of(params)
    clip_grad_norm_(params, 1.0)
    finite = math.isfinite(norm)
    scaler.step(optimizer)
    truth.note(
        optimizer,
        [loss],
        norm=norm,
        scale=scaler.get_scale(),
        stepped=finite,
        skipped=not finite,
        found_inf=float(not finite),
        suffix=suffix,
        advance=not suffix,
    )


def gan_one_scaler(truth: Truth) -> nn.Module:
    return _gan_scaled(truth, scalers=1)


def gan_two_scalers(truth: Truth) -> nn.Module:
    return _gan_scaled(truth, scalers=2)


def shared_losses(truth: Truth) -> nn.Module:
    """Two losses through two models, then both optimizers: both losses contribute to both gradients."""
    one, two = model(0), model(1)
    both = nn.ModuleList([one, two])
    opt_a = torch.optim.SGD(one.parameters(), lr=0.01)
    opt_b = torch.optim.SGD(two.parameters(), lr=0.02)
    for batch in batches(20):
        opt_a.zero_grad()
        opt_b.zero_grad()
        a, b = one(batch).mean(), two(batch).mean()
        losses = [2 * a.pow(2) + 3 * b.pow(2), (a - b).pow(2)]
        losses[0].backward(retain_graph=True)
        losses[1].backward()
        norms = [truth.sampled(one.parameters()), truth.sampled(two.parameters())]
        opt_a.step()
        truth.note(opt_a, losses, norm=norms[0], divided=True)
        opt_b.step()
        truth.note(opt_b, losses, norm=norms[1], suffix="/opt2", advance=False, divided=True)
    return both
