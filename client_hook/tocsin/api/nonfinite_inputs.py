"""Describe the inputs of a batch that are not finite, for the event that goes with ``nonfinite/batch``.

Only values in host memory are read, and only once the batch is known to be bad: nothing waits for a device.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any

LISTED = 8
"""Maximum number of inputs that are described, and of leaves of a nested batch that are examined."""
LEAVES = 256


def describe(batch: Any) -> list[dict[str, Any]]:
    """Return name, NaN, +Inf and -Inf counts and size of each input that is not finite."""
    found: list[dict[str, Any]] = []
    for name, leaf in _leaves(batch):
        counts = _counts(leaf)
        if counts is not None and any(counts[:3]) and len(found) < LISTED:
            found.append({"name": name, **dict(zip(("nan", "pinf", "ninf", "of"), counts, strict=True))})
    return found


def _leaves(batch: Any) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of nested lists, tuples and mappings, such as ``image``, ``1`` or ``views.0``."""
    waiting, left = [("", batch)], LEAVES
    while waiting and left:
        path, one = waiting.pop(0)
        left -= 1
        if isinstance(one, Mapping):
            waiting += [(_under(path, key), value) for key, value in list(one.items())[:LEAVES]]
        elif isinstance(one, (list, tuple)):
            waiting += [(_under(path, key), value) for key, value in enumerate(one[:LEAVES])]
        else:
            yield path or "batch", one


def _under(path: str, key: Any) -> str:
    return f"{path}.{key}"[:160] if path else str(key)[:160]


def _counts(leaf: Any) -> tuple[int, int, int, int] | None:
    """Return the counts of NaN, +Inf, -Inf and all elements, for a tensor, array or float in host memory."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and isinstance(leaf, torch.Tensor):
        if not leaf.is_floating_point() or not leaf.is_cpu or leaf.is_sparse:
            return None
        leaf = leaf.detach()
        pinf, ninf = int((leaf == math.inf).sum()), int((leaf == -math.inf).sum())
        return int(leaf.isnan().sum()), pinf, ninf, leaf.numel()
    if numpy is not None and isinstance(leaf, numpy.ndarray) and leaf.dtype.kind == "f":
        pinf, ninf = int((leaf == math.inf).sum()), int((leaf == -math.inf).sum())
        return int(numpy.isnan(leaf).sum()), pinf, ninf, leaf.size
    if isinstance(leaf, float):
        return int(leaf != leaf), int(leaf == math.inf), int(leaf == -math.inf), 1
    return None
