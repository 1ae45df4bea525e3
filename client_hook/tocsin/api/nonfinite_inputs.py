"""Which inputs are not finite, by name and kind: for the event that goes with ``nonfinite/batch``.

Values in host memory only, and only once the batch is known to be bad: a device is never waited for.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any

LISTED = 8
"""Inputs that are described; of a nested batch LEAVES are looked at."""
LEAVES = 256


def describe(batch: Any) -> list[dict[str, Any]]:
    """``{"name", "nan", "pinf", "ninf", "of"}`` of each input that is not finite: counts of its elements."""
    found: list[dict[str, Any]] = []
    for name, leaf in _leaves(batch):
        counts = _counts(leaf)
        if counts is not None and any(counts[:3]) and len(found) < LISTED:
            found.append({"name": name, **dict(zip(("nan", "pinf", "ninf", "of"), counts, strict=True))})
    return found


def _leaves(batch: Any) -> Iterator[tuple[str, Any]]:
    """(path, value) of nested lists, tuples and mappings: ``image``, ``1``, ``views.0``."""
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
    """NaN, +Inf, -Inf and all elements of a tensor, array or float in host memory."""
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
