"""A walk through the loss's graph: which operations it is made of, in which dtype.

Names and metadata only: no value is read, so nothing waits for a device, and no node is kept
afterwards. About 1 us a node; it ends after NODES nodes or LIMIT_S.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

NODES = 200_000
LIMIT_S = 0.5
LOOK_AT_CLOCK = 512
"""The clock is asked once in so many nodes."""

_LEAF = "AccumulateGrad"


@dataclass
class Census:
    """What a graph is made of."""

    operations: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(operation, dtype of what it computed) -> how many. An operation as autograd names it."""
    opaque: Counter[str] = field(default_factory=Counter)
    """Nodes that hide what lies within: compiled functions, reentrant checkpoints, custom functions."""
    reached: set[int] = field(default_factory=set)
    """id of each parameter that the graph leads to."""
    nodes: int = 0
    cut: str = ""
    """Why the walk ended early, or nothing."""
    dtypes_known: bool = True

    def count(self, *prefixes: str) -> int:
        """Nodes whose operation begins with one of ``prefixes``."""
        return sum(n for (name, _), n in self.operations.items() if name.startswith(prefixes))

    def has(self, dtype: str) -> bool:
        """Whether anything was computed in ``dtype``, such as ``float16``."""
        return any(kind == dtype for _, kind in self.operations)

    def joined(self, other: Census) -> Census:
        """Of both graphs together."""
        return Census(
            self.operations + other.operations,
            self.opaque + other.opaque,
            self.reached | other.reached,
            self.nodes + other.nodes,
            self.cut or other.cut,
            self.dtypes_known and other.dtypes_known,
        )

    @property
    def whole(self) -> bool:
        """Whether all of the graph was seen."""
        return not self.cut and not self.opaque


def take_census(
    roots: Iterable[Any],
    *,
    nodes: int = NODES,
    limit_s: float = LIMIT_S,
    clock: Callable[[], float] = monotonic,
) -> Census:
    """Counts the operations behind ``roots`` (``grad_fn`` of the losses), each node once."""
    census, until = Census(), clock() + limit_s
    waiting = [root for root in roots if root is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        census.nodes += 1
        _count(census, node)
        for after, _ in node.next_functions:
            if after is not None and after not in seen:
                seen.add(after)
                waiting.append(after)
        if census.nodes >= nodes and waiting:
            census.cut = f"only its first {nodes} nodes"
            break
        if census.nodes % LOOK_AT_CLOCK == 0 and clock() > until and waiting:
            census.cut = f"only {census.nodes} nodes in {limit_s:g} s"
            break
    return census


def _count(census: Census, node: Any) -> None:
    name = node.name()
    if name.endswith(_LEAF):
        census.reached.add(id(node.variable))
        return
    if hasattr(node, "_forward_cls"):  # a torch.autograd.Function: only its own backward is known
        census.opaque[name] += 1
        return
    metadata = getattr(node, "_input_metadata", None)
    if metadata is None:
        census.dtypes_known = False
    kind = str(getattr(metadata[0], "dtype", "")) if metadata else ""
    census.operations[name, kind.removeprefix("torch.")] += 1
