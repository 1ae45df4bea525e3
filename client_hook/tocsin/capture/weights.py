"""Check every 256 steps whether the weights are finite, without waiting for a device.

The largest absolute value of each weight is computed; NaN and infinity propagate. On the host the cost is
measured: if it is more than SHARE of the training time, the check is done half as often. Of sharded weights,
this rank's part is checked. ``run.check(weights=...)`` replaces this check.
"""

from __future__ import annotations

from time import monotonic_ns, perf_counter_ns
from typing import Any

import torch
from torch import Tensor

from .ledger import Ledger
from .reading import capturing

NAME = "nonfinite/weights"
EVERY, RAREST = 256, 1 << 16
SHARE = 0.01


class WeightsCheck:
    """Check the weights of one run periodically."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._every = EVERY
        self._last_ns = monotonic_ns()
        self._over = False
        ledger.step_scheduler.schedule(EVERY, self._look)

    def stop(self) -> None:
        """Stop, because the script checks the weights itself."""
        self._over = True

    def _look(self) -> None:
        ledger, primary = self._ledger, self._ledger.primary
        if self._over or primary is None:
            return
        began = perf_counter_ns()
        flag = None if ledger.quiet or capturing() else nonfinite_weights(ledger)
        if flag is not None:
            ledger.reporter.add_to_next_record({NAME: flag})
        now = monotonic_ns()
        self._every = rarer(self._every, perf_counter_ns() - began, now - self._last_ns)
        self._last_ns = now
        ledger.step_scheduler.schedule(primary.number + self._every, self._look)


def rarer(every: int, took_ns: int, since_ns: int) -> int:
    """Return ``every``, doubled until a check that takes ``took_ns`` costs at most SHARE.

    Args:
        every: Current number of steps between checks.
        took_ns: Time of the last check, ns.
        since_ns: Time since the check before it, ns.
    """
    while since_ns > 0 and took_ns > SHARE * since_ns and every < RAREST:
        every, since_ns = 2 * every, 2 * since_ns
    return every


def nonfinite_weights(ledger: Ledger) -> Any:
    """Return 1.0 if a weight is NaN or infinite, else 0.0; on a device a scalar; None without weights."""
    kinds: dict[Any, list[Tensor]] = {}
    for tracker in ledger.trackers.values():
        optimizer = tracker.ref()
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
    """Return whether a weight is not finite: the sum of the largest values times zero is then NaN."""
    with torch.no_grad():
        largest = torch.stack(torch._foreach_norm(weights, float("inf"))) * 0
        total = largest.float().sum()
        flag = total != total
        return float(flag) if flag.is_cpu else flag
