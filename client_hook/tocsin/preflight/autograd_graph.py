"""Walk through the autograd graph of a loss: its operations and their dtypes.

Only names and metadata are read, so nothing waits for a device, and no node is kept. It takes about 1 us per
node, and stops after NODES nodes or LIMIT_S.
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
"""Number of nodes between two reads of the clock."""

_LEAF = "AccumulateGrad"


@dataclass
class GraphSummary:
    """Content of a graph."""

    operations: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(operation, dtype of its result) -> count, by autograd's names."""
    opaque: Counter[str] = field(default_factory=Counter)
    """Nodes that hide their content: compiled functions, reentrant checkpoints, custom functions."""
    reached: set[int] = field(default_factory=set)
    """ids of the parameters that the graph reaches."""
    nodes: int = 0
    cut: str = ""
    """Why the walk stopped early; empty if it did not."""
    dtypes_known: bool = True

    def count(self, *prefixes: str) -> int:
        """Return the number of operations whose names start with one of ``prefixes``."""
        return sum(n for (name, _), n in self.operations.items() if name.startswith(prefixes))

    def has(self, dtype: str) -> bool:
        """Return whether anything was computed in ``dtype``, such as ``float16``."""
        return any(kind == dtype for _, kind in self.operations)

    def joined(self, other: GraphSummary) -> GraphSummary:
        """Return the content of both graphs together."""
        return GraphSummary(
            self.operations + other.operations,
            self.opaque + other.opaque,
            self.reached | other.reached,
            self.nodes + other.nodes,
            self.cut or other.cut,
            self.dtypes_known and other.dtypes_known,
        )

    @property
    def whole(self) -> bool:
        """Whether the graph was seen completely."""
        return not self.cut and not self.opaque


def summarize_graph(
    roots: Iterable[Any],
    *,
    nodes: int = NODES,
    limit_s: float = LIMIT_S,
    clock: Callable[[], float] = monotonic,
) -> GraphSummary:
    """Return the content of the graphs behind ``roots``.

    Args:
        roots: ``grad_fn`` of the losses. Each node counts once.
        nodes: Maximum number of nodes.
        limit_s: Maximum time.
        clock: Monotonic clock, seconds.
    """
    summary, until = GraphSummary(), clock() + limit_s
    waiting = [root for root in roots if root is not None]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        summary.nodes += 1
        _count(summary, node)
        for after, _ in node.next_functions:
            if after is not None and after not in seen:
                seen.add(after)
                waiting.append(after)
        if summary.nodes >= nodes and waiting:
            summary.cut = f"only its first {nodes} nodes"
            break
        if summary.nodes % LOOK_AT_CLOCK == 0 and clock() > until and waiting:
            summary.cut = f"only {summary.nodes} nodes in {limit_s:g} s"
            break
    return summary


def _count(summary: GraphSummary, node: Any) -> None:
    name = node.name()
    if name.endswith(_LEAF):
        summary.reached.add(id(node.variable))
        return
    if hasattr(node, "_forward_cls"):  # a torch.autograd.Function: only its own backward is visible
        summary.opaque[name] += 1
        return
    metadata = getattr(node, "_input_metadata", None)
    if metadata is None:
        summary.dtypes_known = False
    kind = str(getattr(metadata[0], "dtype", "")) if metadata else ""
    summary.operations[name, kind.removeprefix("torch.")] += 1
