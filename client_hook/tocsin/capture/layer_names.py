"""Group the parameters of a model by name, so that a vector of gradient norms has a bounded length. Pure.

Up to MOST parameters are separate. More are grouped by the beginning of their names, as deep as possible
(``blocks.3.attn`` before ``blocks.3`` before ``blocks``), or else in runs of equal length. The norm of a
group is the root of the sum of squares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

MOST = 256
"""Maximum number of groups."""
NAME = 160
"""Maximum length of a name; longer ones are cut at the beginning."""
LARGEST = 3.4028234663852886e38
"""The largest float32. Norms of groups are limited to it, so that finite norms stay finite."""
NO_GRADIENT = -1.0
"""Norm of a group without any gradient."""

_WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


def plain_names(names: Sequence[str]) -> list[str]:
    """Return names as in the model's source, without what compilation, FSDP and DDP add."""
    out = []
    for name in names:
        for wrapper in _WRAPPERS:
            name = name.replace(wrapper, "")
        out.append(name)
    if out and all(name.startswith("module.") for name in out):
        out = [name.removeprefix("module.") for name in out]
    return [name if len(name) <= NAME else "…" + name[1 - NAME :] for name in out]


def grouped(names: Sequence[str], most: int = MOST) -> tuple[list[str], list[int]]:
    """Return the names of at most ``most`` groups, and the group of each parameter."""
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
    """Return the norm of each group. NaN and +Inf stay.

    Args:
        norms: Of each parameter; NO_GRADIENT adds nothing.
        places: The group of each norm.
        count: Number of groups.
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
