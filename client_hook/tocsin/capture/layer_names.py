"""How the places of a vector of gradient norms are named and folded, so that its length has a bound. Pure.

Up to MOST parameters each has its own place. Above that they are put together by the beginning of their
names, as deep as it goes (``blocks.3.attn`` before ``blocks.3`` before ``blocks``), else in runs of equal
length; the norm of a group is the root of the sum of the squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

MOST = 256
"""Places of a vector."""
NAME = 160
"""A longer name keeps its end."""
LARGEST = 3.4028234663852886e38
"""The largest float32: finite norms make a finite one."""
NO_GRADIENT = -1.0
"""Stands for a place none of whose parameters had a gradient: no norm is negative."""

_WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


def plain_names(names: Sequence[str]) -> list[str]:
    """Names as the model's author knows them: without what compilation, FSDP and DDP put in."""
    out = []
    for name in names:
        for wrapper in _WRAPPERS:
            name = name.replace(wrapper, "")
        out.append(name)
    if out and all(name.startswith("module.") for name in out):
        out = [name.removeprefix("module.") for name in out]
    return [name if len(name) <= NAME else "…" + name[1 - NAME :] for name in out]


def grouped(names: Sequence[str], most: int = MOST) -> tuple[list[str], list[int]]:
    """(names of places, place of each parameter), at most ``most`` places, in the order of first names."""
    if len(names) <= most:
        return list(names), list(range(len(names)))
    depth = max(name.count(".") for name in names)
    for deep in range(depth, 0, -1):
        heads = [".".join(name.split(".")[:deep]) for name in names]
        if len(set(heads)) <= most:
            return _placed(heads)
    size = -(-len(names) // most)
    firsts = [names[at - at % size] for at in range(len(names))]
    return _placed([f"{first} and {size - 1} more" for first in firsts])


def _placed(heads: list[str]) -> tuple[list[str], list[int]]:
    places = {head: place for place, head in enumerate(dict.fromkeys(heads))}
    return list(places), [places[head] for head in heads]


def folded(norms: Sequence[float], places: Sequence[int], count: int) -> list[float]:
    """The norms of ``count`` groups: ``places`` says of each norm where it goes. NaN and +Inf stay.

    A norm of NO_GRADIENT adds nothing.
    """
    members: list[list[float]] = [[] for _ in range(count)]
    for norm, place in zip(norms, places, strict=True):
        if norm != NO_GRADIENT:
            members[place].append(norm)
    return [_joined(each) for each in members]


def _joined(norms: list[float]) -> float:
    if len(norms) < 2:
        return norms[0] if norms else NO_GRADIENT
    if any(map(math.isnan, norms)):
        return math.nan
    total = math.hypot(*norms)
    return min(total, LARGEST) if all(map(math.isfinite, norms)) else total
