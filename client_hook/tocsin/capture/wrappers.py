"""Find the optimizer behind a wrapper: the one that has the parameter groups and makes the steps.

Accelerate, Lightning and Fabric wrap the script's optimizer in an object of a subclass of ``Optimizer`` whose
``__init__`` never ran: it has no groups, and torch calls no hook around its ``step``. It only passes calls
on, so it is not a separate optimizer.
"""

from __future__ import annotations

from typing import Any

import torch

DEPTH = 8
"""Maximum number of nested wrappers."""
_INSIDE = ("optimizer", "_optimizer", "base_optimizer", "optim")


def is_optimizer(value: Any) -> bool:
    """Return whether its type is an optimizer's; only the type is checked, because an object may run code."""
    return issubclass(type(value), torch.optim.Optimizer)


def is_whole(optimizer: Any) -> bool:
    """Return whether it is an optimizer that holds its parameter groups itself, not a wrapper."""
    return is_optimizer(optimizer) and "param_groups" in optimizer.__dict__


def inner_of(optimizer: Any) -> Any:
    """Return the optimizer behind ``optimizer``: itself if it is not a wrapper, None if there is none.

    A wrapper around several optimizers has none: each of them steps by itself.
    """
    for _ in range(DEPTH):
        if is_whole(optimizer):
            return optimizer
        optimizer = _wrapped_by(optimizer)
        if optimizer is None:
            break
    return None


def _wrapped_by(wrapper: Any) -> Any:
    held = getattr(wrapper, "__dict__", {})
    named = next((held[name] for name in _INSIDE if held.get(name) is not None), None)
    if named is not None:
        return named
    inside = {id(one): one for one in held.values() if is_optimizer(one)}
    return next(iter(inside.values())) if len(inside) == 1 else None
