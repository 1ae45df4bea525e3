"""Ground truth that a training loop records itself, and building blocks of the loops in ``loops/``.

It shares no code with the hook: at each attempted step, a loop notes the values that it reads from the
tensors before and after. Overflows are real: activations and losses are too large for float16, and the scale
is never written to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_  # imported before any hook, as in scripts

Row = dict[str, float]
Params = list[nn.Parameter]

EVERY = 16


class Truth:
    """Rows in the order of the attempted steps, and changes of the scale."""

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
        divided: bool = False,
    ) -> None:
        """Note one attempted step.

        ``divided``: the losses are parts of one loss, divided by the number of micro-steps, or its terms.
        """
        if advance:
            self.count += 1
        step = max(self.count - 1, 0)
        total, count = math.fsum(float(loss.detach()) for loss in losses), len(losses)
        row = {"loss": total if divided else total / count, "loss_n": float(count)}
        if count > 1 and not divided:
            row["loss_sum"] = total
        facts = {"grad_norm": norm, "scale": scale, "found_inf": found_inf}
        row.update({name: value for name, value in facts.items() if value is not None})
        row.update(stepped=float(stepped), skipped=float(skipped))
        for k, rate in enumerate(rates if rates is not None else lrs(optimizer)):
            row[f"lr/g{k}" if k else "lr"] = rate
        self.rows.append({"step": step, **{_named(name, suffix): value for name, value in row.items()}})

    def sampled(self, params: Iterable[nn.Parameter]) -> float | None:
        """Return the norm if the hook would sample it without a clip: at every 16th attempt."""
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
    """Return the total 2-norm, summed in float64 element by element."""
    total = 0.0
    for param in params:
        if param.grad is not None:
            total += float(param.grad.double().pow(2).sum())
    return math.sqrt(total) if not math.isnan(total) else math.nan


def lrs(optimizer: torch.optim.Optimizer) -> list[float]:
    return [float(group["lr"]) for group in optimizer.param_groups]


def torch_is_before(major: int, minor: int) -> bool:
    return tuple(map(int, torch.__version__.split(".")[:2])) < (major, minor)


def model(seed: int = 0, width: int = 8) -> nn.Sequential:
    """Return a model with the same weights on every device."""
    torch.manual_seed(seed)
    with torch.device("cpu"):
        net = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))
    return net.to(here())


def here() -> str:
    """Return the kind of device that loops train on: torch's default."""
    return torch.empty(0).device.type


def grad_scaler(**options: Any) -> torch.amp.GradScaler:
    """Return a GradScaler whose scale is on the loop's device."""
    if not hasattr(torch.amp, "GradScaler"):
        pytest.skip("torch before 2.3 has no GradScaler for the CPU")
    return torch.amp.GradScaler(here(), **options)


def batches(count: int, *, hot: Iterable[int] = (), width: int = 8) -> Iterator[Tensor]:
    """Yield seeded batches. A hot one is large enough for gradients that overflow float16."""
    numbers = torch.Generator("cpu").manual_seed(1)
    hot = set(hot)
    for k in range(count):
        batch = torch.randn(4, width, generator=numbers, device="cpu").to(here())
        yield batch * 3e4 if k in hot else batch


def train_step(
    truth: Truth,
    optimizer: torch.optim.Optimizer,
    net: nn.Module,
    batch: Tensor,
    *,
    forward: Callable[[Tensor], Tensor] | None = None,
    clip: float | None = None,
    step: Callable[[], object] | None = None,
    suffix: str = "",
) -> None:
    """Train one step of the usual loop and note it. With ``clip``, every record has a norm."""
    optimizer.zero_grad()
    loss = (forward or net)(batch).pow(2).mean()
    loss.backward()
    if clip is None:
        norm = truth.sampled(net.parameters())
    else:
        norm = norm_of(net.parameters())
        clip_grad_norm_(net.parameters(), clip)
    rates = lrs(optimizer)
    (step or optimizer.step)()
    truth.note(optimizer, [loss], norm=norm, rates=rates, suffix=suffix)


def train(
    truth: Truth,
    optimizer: torch.optim.Optimizer,
    net: nn.Module,
    count: int = 20,
    *,
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
    **options: Any,
) -> nn.Module:
    """Train ``count`` steps with the options of ``train_step``; return the model."""
    for batch in batches(count):
        train_step(truth, optimizer, net, batch, **options)
        if schedule is not None:
            schedule.step()
    return net


def closure_step(truth: Truth, optimizer: torch.optim.Optimizer, net: nn.Module, batch: Tensor) -> None:
    """Train one step whose closure clears the gradients; note the loss of its last evaluation."""
    losses: list[Tensor] = []

    def evaluate() -> Tensor:
        optimizer.zero_grad()
        losses.append(net(batch).pow(2).mean())
        losses[-1].backward()
        return losses[-1]

    optimizer.step(evaluate)  # type: ignore[arg-type]
    norm = norm_of(net.parameters()) if truth.count % EVERY == 0 else None
    truth.note(optimizer, losses[-1:], norm=norm)


def half_loss(net: nn.Module, batch: Tensor) -> Tensor:
    """Return the loss of a float16 forward pass; it grows with the batch."""
    with torch.autocast(here(), dtype=torch.float16):
        out = net(batch)
    loss: Tensor = (out.float() * (1 + batch.abs().mean())).pow(2).mean()
    return loss


def weights_of(net: nn.Module) -> list[Tensor]:
    return [param.detach().clone() for param in net.parameters()]


def moved(before: list[Tensor], net: nn.Module) -> bool:
    return any(not torch.equal(old, new) for old, new in zip(before, net.parameters(), strict=True))
