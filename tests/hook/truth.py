"""Training loops that measure themselves by hand. They share no code with the hook.

Every loop trains a small model with real torch and notes, at each attempted step, what a
person would have written down: values read from the tensors before and after. Overflows are
real: activations and losses too large for float16, never a scale that is written to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_  # imported before any hook, as scripts do

Row = dict[str, float]
Params = list[nn.Parameter]

EVERY = 16


class Truth:
    """Rows in the order in which steps were attempted, and scale changes."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.changes: list[tuple[int, float, float]] = []
        self.count = 0

    def note(
        self,
        optimizer: torch.optim.Optimizer,
        losses: list[Tensor],
        *,
        norm: float | None,
        stepped: bool = True,
        skipped: bool = False,
        scale: float | None = None,
        found_inf: float | None = None,
        rates: list[float] | None = None,
        suffix: str = "",
        advance: bool = True,
    ) -> None:
        if advance:
            self.count += 1
        step = max(self.count - 1, 0)
        row = {"loss": math.fsum(float(loss.detach()) for loss in losses), "loss_n": float(len(losses))}
        facts = {"grad_norm": norm, "scale": scale, "found_inf": found_inf}
        row.update({name: value for name, value in facts.items() if value is not None})
        row.update(stepped=float(stepped), skipped=float(skipped))
        for k, rate in enumerate(rates if rates is not None else lrs(optimizer)):
            row[f"lr/g{k}" if k else "lr"] = rate
        self.rows.append({"step": step, **{_named(name, suffix): value for name, value in row.items()}})

    def sampled(self, params: Iterable[nn.Parameter]) -> float | None:
        """The norm where a hook that sees no clip would sample it: every 16th attempt."""
        return norm_of(params) if self.count % EVERY == 0 else None

    def updated(self, scaler: torch.amp.GradScaler) -> None:
        before = scaler.get_scale()
        scaler.update()
        if scaler.get_scale() != before:
            self.changes.append((self.count - 1, before, scaler.get_scale()))


def _named(name: str, suffix: str) -> str:
    head, slash, group = name.partition("/")
    return head + suffix + slash + group


def norm_of(params: Iterable[nn.Parameter]) -> float:
    """The total 2-norm, in float64, one element after the other."""
    total = 0.0
    for param in params:
        if param.grad is not None:
            total += float(param.grad.double().pow(2).sum())
    return math.sqrt(total) if not math.isnan(total) else math.nan


def lrs(optimizer: torch.optim.Optimizer) -> list[float]:
    return [float(group["lr"]) for group in optimizer.param_groups]


def model(seed: int = 0, width: int = 8) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))


def batches(count: int, *, hot: Iterable[int] = (), width: int = 8) -> Iterator[Tensor]:
    """Seeded batches; a hot one is large enough for gradients that float16 cannot hold."""
    numbers = torch.Generator().manual_seed(1)
    hot = set(hot)
    for k in range(count):
        batch = torch.randn(4, width, generator=numbers)
        yield batch * 3e4 if k in hot else batch


def half_loss(net: nn.Module, batch: Tensor) -> Tensor:
    """A forward in float16 and a loss that grows with the batch."""
    with torch.autocast("cpu", dtype=torch.float16):
        out = net(batch)
    loss: Tensor = (out.float() * (1 + batch.abs().mean())).pow(2).mean()
    return loss


def weights_of(net: nn.Module) -> list[Tensor]:
    return [param.detach().clone() for param in net.parameters()]


def moved(before: list[Tensor], net: nn.Module) -> bool:
    return any(not torch.equal(old, new) for old, new in zip(before, net.parameters(), strict=True))


# --- one optimizer, no scaler


def plain(truth: Truth) -> nn.Module:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for batch in batches(40):
        optimizer.zero_grad()
        loss = net(batch).pow(2).mean()
        loss.backward()
        norm = truth.sampled(net.parameters())
        optimizer.step()
        truth.note(optimizer, [loss], norm=norm)
    return net


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
        clip_grad_norm_(net.parameters(), math.inf)  # a norm logged too late
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
            truth.note(optimizer, losses, norm=norm)
            losses = []
    return net


def tensor_rate(truth: Truth) -> nn.Module:
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=torch.tensor(0.01), foreach=False)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    for batch in batches(20):
        optimizer.zero_grad()
        loss = net(batch).pow(2).mean()
        loss.backward()
        norm, rates = truth.sampled(net.parameters()), lrs(optimizer)
        optimizer.step()
        schedule.step()
        truth.note(optimizer, [loss], norm=norm, rates=rates)
    return net


def groups_and_schedule(truth: Truth) -> nn.Module:
    net = model()
    first, _, last = net
    groups = [{"params": first.parameters(), "lr": 0.1}, {"params": last.parameters(), "lr": 0.01}]
    optimizer = torch.optim.SGD(groups)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 5)
    for batch in batches(20):
        optimizer.zero_grad()
        loss = net(batch).pow(2).mean()
        loss.backward()
        norm, rates = truth.sampled(net.parameters()), lrs(optimizer)
        optimizer.step()
        schedule.step()
        truth.note(optimizer, [loss], norm=norm, rates=rates)
    return net


def closure(truth: Truth) -> nn.Module:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in batches(20):
        losses: list[Tensor] = []

        def evaluate(batch: Tensor = batch, losses: list[Tensor] = losses) -> Tensor:
            optimizer.zero_grad()
            losses.append(net(batch).pow(2).mean())
            losses[-1].backward()
            return losses[-1]

        before = truth.count
        optimizer.step(evaluate)
        norm = norm_of(net.parameters()) if before % EVERY == 0 else None
        truth.note(optimizer, losses, norm=norm)
    return net


def lbfgs(truth: Truth) -> nn.Module:
    """Several evaluations a step, each of which clears the gradients: the last one's is what is left."""
    net = model()
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.1, max_iter=4)
    for batch in batches(6):
        losses: list[Tensor] = []

        def evaluate(batch: Tensor = batch, losses: list[Tensor] = losses) -> Tensor:
            optimizer.zero_grad()
            losses.append(net(batch).pow(2).mean())
            losses[-1].backward()
            return losses[-1]

        optimizer.step(evaluate)
        norm = norm_of(net.parameters()) if truth.count % EVERY == 0 else None
        truth.note(optimizer, losses[-1:], norm=norm)
    return net


def bfloat(truth: Truth) -> nn.Module:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for batch in batches(20):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = net(batch).pow(2).mean()
        loss.backward()
        norm = truth.sampled(net.parameters())
        optimizer.step()
        truth.note(optimizer, [loss], norm=norm)
    return net


def infinite_norm_skipped_by_hand(truth: Truth) -> nn.Module:
    """The loop of the post-mortem in float32: clip, see an infinite norm, zero_grad, continue."""
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
    """Backward, then zero_grad at the next batch without a step, now and then."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for k, batch in enumerate(batches(20)):
        optimizer.zero_grad()
        loss = net(batch).pow(2).mean()
        loss.backward()
        if k % 7 == 3:
            truth.note(optimizer, [loss], norm=None, stepped=False)
            continue
        norm = truth.sampled(net.parameters())
        optimizer.step()
        truth.note(optimizer, [loss], norm=norm)
    return net


# --- one optimizer with a scaler


def _scaled(truth: Truth, *, clips: bool, fused: bool, accumulate: int = 1) -> nn.Module:
    net = model()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18, growth_interval=4)
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
    """Arithmetic on scaled losses: the objective is what it was before the scaling."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
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
    scaler = torch.amp.GradScaler("cpu", enabled=False)
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
    """The scaled gradients are clipped; at an infinite norm zero_grad and continue, without update."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=5)
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
    """unscale_, clip, at an infinite norm update, zero_grad at the next batch, continue."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=5)
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


# --- two optimizers


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.g, self.d = model(0), model(1)
        self.up = nn.Linear(1, 8)


def gan(truth: Truth) -> nn.Module:
    """The critic first, then the generator through the critic; the critic's leftovers are zeroed."""
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
        truth.note(opt_g, [loss_g], norm=norm, suffix="/opt2", advance=False)
    return pair


def _gan_scaled(truth: Truth, *, scalers: int) -> nn.Module:
    pair = Pair()
    g_params: Params = [*pair.g.parameters(), *pair.up.parameters()]
    opt_d = torch.optim.SGD(pair.d.parameters(), lr=0.01)
    opt_g = torch.optim.SGD(g_params, lr=0.02)
    made = [torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=6) for _ in range(scalers)]
    scaler_d, scaler_g = made[0], made[-1]
    for batch in batches(24, hot=(4, 13)):
        opt_d.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            fake = pair.up(pair.g(batch))
            loss_d = (pair.d(fake.detach()) - pair.d(batch)).float().pow(2).mean()
        scaler_d.scale(loss_d).backward()
        scaler_d.unscale_(opt_d)
        _scaled_step(truth, scaler_d, opt_d, loss_d, list(pair.d.parameters()))
        if scaler_d is not scaler_g:
            truth.updated(scaler_d)
        opt_g.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss_g = (pair.d(fake) * (1 + batch.abs().mean())).float().pow(2).mean()
        scaler_g.scale(loss_g).backward()
        scaler_g.unscale_(opt_g)
        _scaled_step(truth, scaler_g, opt_g, loss_g, g_params, suffix="/opt2")
        truth.updated(scaler_g)
    assert any(row.get("skipped/opt2") for row in truth.rows)
    return pair


def _scaled_step(
    truth: Truth,
    scaler: torch.amp.GradScaler,
    optimizer: torch.optim.Optimizer,
    loss: Tensor,
    params: Params,
    suffix: str = "",
) -> None:
    """Clip and step, and the note of it, with the gradients already unscaled."""
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
    """Two losses through two models, then both optimizers: both gradients come from both losses."""
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
        truth.note(opt_a, losses, norm=norms[0])
        opt_b.step()
        truth.note(opt_b, losses, norm=norms[1], suffix="/opt2", advance=False)
    return both


LOOPS: dict[str, Callable[[Truth], Any]] = {
    loop.__name__: loop
    for loop in (
        plain,
        zero_after,
        module_zero,
        clip,
        accumulation,
        tensor_rate,
        groups_and_schedule,
        closure,
        lbfgs,
        bfloat,
        infinite_norm_skipped_by_hand,
        dropped_after_backward,
        scaled,
        scaled_clip,
        scaled_fused,
        scaled_fused_clip,
        scaled_accumulation,
        scaled_sum,
        scaler_disabled,
        scaled_norm_skipped_by_hand,
        unscaled_norm_skipped_by_hand,
        gan,
        gan_one_scaler,
        gan_two_scalers,
        shared_losses,
    )
}
