"""Find the optimizers, scalers and schedulers that exist, and describe them for the handshake."""

from __future__ import annotations

import importlib
import weakref
from typing import Any

import torch

from .ledger import Ledger
from .live_objects import find_objects, has_too_many_objects
from .scaler import scaler_class

ARGUMENTS = 24
LISTED = 32
"""Maximum number of objects of each kind that are described, and of their arguments."""


def discover_optimizers(ledger: Ledger) -> dict[str, list[dict[str, Any]]]:
    """Register the live optimizers, so that the first backward finds its owner, and describe all objects.

    All tracked objects are searched, once at the watch and once at the first record, on the training thread:
    about 0.25 us per object (70 ms of CPU time at 284,000). The models and scalers that the config check
    needs at the end of the same step are kept by weak references. With too many objects, only optimizers that
    step are known, and a warning is logged.
    """
    kinds = _kinds()
    if has_too_many_objects():
        ledger.reporter.warn(
            "tocsin: too many objects to search in this process. Optimizers are described after their first "
            "step, schedulers and models are not. Pass the model: tocsin.watch(model=...)"
        )
    found = find_objects((*kinds.values(), torch.nn.Module))
    ledger.alive = [weakref.ref(one) for one in found if isinstance(one, (torch.nn.Module, kinds["scalers"]))]
    for one in found:
        # An optimizer whose constructor raised may exist without groups. It never steps.
        if isinstance(one, torch.optim.Optimizer) and hasattr(one, "param_groups"):
            ledger.tracker(one)
    schedulers = [one for one in found if isinstance(one, kinds["schedulers"])]
    scalers = [one for one in found if isinstance(one, kinds["scalers"]) and ledger.owns(one)]
    return {
        "optimizers": _optimizers(ledger),
        "scalers": [_scaler(ledger, one) for one in scalers[:LISTED]],
        "schedulers": [_scheduler(ledger, one) for one in schedulers[:LISTED]],
    }


def _kinds() -> dict[str, type]:
    module = importlib.import_module("torch.optim.lr_scheduler")
    return {
        "optimizers": torch.optim.Optimizer,
        "scalers": scaler_class(),
        "schedulers": module.LRScheduler,
    }


def _optimizers(ledger: Ledger) -> list[dict[str, Any]]:
    """Describe each optimizer that has stepped, or all before the first step."""
    trackers = list(ledger.trackers.values())
    chosen = [one for one in trackers if one.name] or trackers
    pairs = [(one.name, one.ref()) for one in chosen[:LISTED]]
    return [_optimizer(name, one) for name, one in pairs if one is not None]


def _optimizer(name: str, optimizer: Any) -> dict[str, Any]:
    groups = optimizer.param_groups
    return {
        "name": name,
        "class": type(optimizer).__name__,
        "module": type(optimizer).__module__,
        "defaults": _simple(optimizer.defaults),
        "groups": len(groups),
        "parameters": sum(size_of(param) for group in groups for param in group["params"]),
    }


def size_of(param: Any) -> int:
    """Return the elements of a parameter; 0 for a lazy module's before its first batch."""
    return 0 if hasattr(param, "materialize") else int(param.numel())


def _scaler(ledger: Ledger, scaler: Any) -> dict[str, Any]:
    """Return a scaler's settings. The scale may be on a device and is not read."""
    enabled = bool(getattr(scaler, "_enabled", True))
    facts = {
        "class": type(scaler).__name__,
        "enabled": enabled,
        "device": str(getattr(scaler, "_device", "")),
    }
    if enabled:
        facts["name"] = ledger.scaler_name(scaler)
        for name in ("init_scale", "growth_factor", "backoff_factor", "growth_interval"):
            facts[name] = getattr(scaler, f"_{name}", None)
    return facts


def _scheduler(ledger: Ledger, scheduler: Any) -> dict[str, Any]:
    """Return a scheduler's class and arguments, and its optimizer."""
    tracker = ledger.trackers.get(id(getattr(scheduler, "optimizer", None)))
    return {
        "optimizer": tracker.name if tracker is not None else "",
        "scheduler": type(scheduler).__name__,
        "arguments": _simple(vars(scheduler)),
    }


def _simple(values: dict[str, Any]) -> dict[str, Any]:
    """Return the plain values of a mapping: numbers, text, flags and short lists of them."""
    out: dict[str, Any] = {}
    for key, value in values.items():
        if not str(key).startswith("_") and _is_simple(value) and len(out) < ARGUMENTS:
            out[str(key)] = list(value) if isinstance(value, (list, tuple)) else value
    return out


def _is_simple(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= 64 and all(
            _is_simple(item) for item in value if not isinstance(item, (list, tuple))
        )
    return value is None or isinstance(value, (bool, int, float, str))
