"""Whether the weights are still finite: looked at every 256 steps, without waiting for a device.

One pass over all weights of all optimizers, their largest absolute value each; a NaN or an infinity comes
through. On the host its cost is measured: where it is more than SHARE of the steps between, it is done half
as often. Sharded weights: this rank's part. The script's own ``run.check(weights=...)`` ends it.
"""

from __future__ import annotations

from time import monotonic_ns, perf_counter_ns
from typing import Any

import torch
from torch import Tensor

from .ledger import Ledger
from .staging import capturing, read

NAME = "nonfinite/weights"
EVERY, RAREST = 256, 1 << 16
SHARE = 0.01


class Weights:
    """The look at one run's weights."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._every = EVERY
        self._last_ns = monotonic_ns()
        self._over = False
        ledger.appointments.make(EVERY, self._look)

    def stop(self) -> None:
        """The script looks itself."""
        self._over = True

    def _look(self) -> None:
        ledger, primary = self._ledger, self._ledger.primary
        if self._over or primary is None:
            return
        began = perf_counter_ns()
        flag = None if ledger.quiet or capturing() else nonfinite_weights(ledger)
        if flag is not None:
            ledger.reporter.ride({NAME: flag})
        now = monotonic_ns()
        self._every = rarer(self._every, perf_counter_ns() - began, now - self._last_ns)
        self._last_ns = now
        ledger.appointments.make(primary.number + self._every, self._look)


def rarer(every: int, took_ns: int, since_ns: int) -> int:
    """``every`` doubled until a look of ``took_ns`` is at most SHARE of the steps between two."""
    while since_ns > 0 and took_ns > SHARE * since_ns and every < RAREST:
        every, since_ns = 2 * every, 2 * since_ns
    return every


def nonfinite_weights(ledger: Ledger) -> Any:
    """1.0 where a weight is NaN or infinite, else 0.0; on a device a scalar there. None: no weights."""
    kinds: dict[Any, list[Tensor]] = {}
    for stepper in ledger.steppers.values():
        optimizer = stepper.ref()
        for group in optimizer.param_groups if optimizer is not None else ():
            for param in group["params"]:
                weight = getattr(param, "_local_tensor", param).detach()
                plain = weight.is_floating_point() and not weight.is_sparse and weight.numel()
                if plain and (weight.is_cpu or weight.is_cuda):
                    kinds.setdefault((weight.device, weight.dtype), []).append(weight)
    flags = [_flag(weights) for weights in kinds.values()]
    host = [flag for flag in flags if type(flag) is float]
    device = [flag for flag in flags if isinstance(flag, Tensor)]
    if not device or 1.0 in host:
        return max(host, default=None)
    found = device[0]
    for flag in device[1:]:
        found = found.maximum(flag.to(found.device, non_blocking=True))
    return found


def _flag(weights: list[Tensor]) -> Any:
    """The largest of each, joined: times zero it is NaN exactly if one is not finite."""
    with torch.no_grad():
        largest = torch.stack(torch._foreach_norm(weights, float("inf"))) * 0
        total = largest.float().sum()
        return read(total != total)
