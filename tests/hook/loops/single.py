"""Loops of one optimizer without a scaler."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_  # imported before any hook, as in scripts

from tests.hook.truth import Truth, batches, closure_step, here, model, norm_of, train


def plain(truth: Truth) -> nn.Module:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    return train(truth, optimizer, net, 40)


def zero_after(truth: Truth) -> nn.Module:
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for batch in batches(20):
        loss = net(batch).pow(2).mean()
        loss.backward()
        norm = truth.sampled(net.parameters())
        optimizer.step()
        optimizer.zero_grad()
        truth.note(optimizer, [loss], norm=norm)
    return net


def module_zero(truth: Truth) -> nn.Module:
    """``net.zero_grad(set_to_none=False)`` instead of the optimizer's."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in batches(20):
        net.zero_grad(set_to_none=False)
        loss = net(batch).pow(2).mean()
        loss.backward()
        norm = truth.sampled(net.parameters())
        optimizer.step()
        truth.note(optimizer, [loss], norm=norm)
    return net


def clip(truth: Truth) -> nn.Module:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for batch in batches(20):
        optimizer.zero_grad()
        loss = net(batch).pow(2).mean()
        loss.backward()
        norm = norm_of(net.parameters())
        clip_grad_norm_(net.parameters(), 0.05)
        clip_grad_norm_(net.parameters(), 0.01)  # a second clip is not the norm
        optimizer.step()
        truth.note(optimizer, [loss], norm=norm)
        clip_grad_norm_(net.parameters(), math.inf)  # a norm that is logged too late
    return net


def accumulation(truth: Truth) -> nn.Module:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    losses: list[Tensor] = []
    for k, batch in enumerate(batches(60)):
        losses.append(net(batch).pow(2).mean() / 3)
        losses[-1].backward()
        if k % 3 == 2:
            norm = truth.sampled(net.parameters())
            optimizer.step()
            optimizer.zero_grad()
            truth.note(optimizer, losses, norm=norm, divided=True)
            losses = []
    return net


def accumulation_undivided(truth: Truth) -> nn.Module:
    """As in YOLO: nothing is divided, and the number of micro-steps grows."""
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    losses: list[Tensor] = []
    for k, batch in enumerate(batches(60)):
        losses.append(net(batch).pow(2).mean())
        losses[-1].backward()
        if len(losses) == 1 + k // 20:
            norm = truth.sampled(net.parameters())
            optimizer.step()
            optimizer.zero_grad()
            truth.note(optimizer, losses, norm=norm)
            losses = []
    return net


def accumulation_cut_short(truth: Truth) -> nn.Module:
    """Each epoch's last step has fewer micro-steps than the number that its losses were divided by."""
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for _ in range(3):
        losses: list[Tensor] = []
        for k, batch in enumerate(batches(10)):
            losses.append(net(batch).pow(2).mean() / 4)
            losses[-1].backward()
            if k % 4 == 3 or k == 9:
                norm = truth.sampled(net.parameters())
                optimizer.step()
                optimizer.zero_grad()
                truth.note(optimizer, [4 * loss for loss in losses], norm=norm)
                truth.rows[-1].pop("loss_sum")
                losses = []
    return net


def tensor_rate(truth: Truth) -> nn.Module:
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=torch.tensor(0.01), foreach=False)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    return train(truth, optimizer, net, schedule=schedule)


def groups_and_schedule(truth: Truth) -> nn.Module:
    net = model()
    first, _, last = net
    groups = [{"params": first.parameters(), "lr": 0.1}, {"params": last.parameters(), "lr": 0.01}]
    optimizer = torch.optim.SGD(groups)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 5)
    return train(truth, optimizer, net, schedule=schedule)


def closure(truth: Truth) -> nn.Module:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in batches(20):
        closure_step(truth, optimizer, net, batch)
    return net


def lbfgs(truth: Truth) -> nn.Module:
    """Several evaluations per step, each of which clears the gradients; those of the last one remain."""
    net = model()
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=4)
    for batch in batches(6):
        closure_step(truth, optimizer, net, batch)
    return net


def bfloat(truth: Truth) -> nn.Module:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for batch in batches(20):
        optimizer.zero_grad()
        with torch.autocast(here(), dtype=torch.bfloat16):
            loss = net(batch).pow(2).mean()
        loss.backward()
        norm = truth.sampled(net.parameters())
        optimizer.step()
        truth.note(optimizer, [loss], norm=norm)
    return net


def infinite_norm_skipped_by_hand(truth: Truth) -> nn.Module:
    """The loop of the post-mortem in float32: clip; if the norm is infinite, zero_grad and continue."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for k, batch in enumerate(batches(24)):
        loss = (net(batch) * (1e30 if k in (5, 6, 11) else 1.0)).pow(2).mean()
        loss.backward()
        norm = norm_of(net.parameters())
        total = clip_grad_norm_(net.parameters(), 1.0)
        if not torch.isfinite(total):
            truth.note(optimizer, [loss], norm=norm, stepped=False)
            optimizer.zero_grad()
            continue
        optimizer.step()
        truth.note(optimizer, [loss], norm=norm)
        optimizer.zero_grad()
    return net


def dropped_after_backward(truth: Truth) -> nn.Module:
    """Occasionally a backward is followed by zero_grad at the next batch, without a step: it does not count
    as one."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for k, batch in enumerate(batches(20)):
        optimizer.zero_grad()
        loss = net(batch).pow(2).mean()
        loss.backward()
        if k % 7 == 3:
            continue
        norm = truth.sampled(net.parameters())
        optimizer.step()
        truth.note(optimizer, [loss], norm=norm)
    return net
