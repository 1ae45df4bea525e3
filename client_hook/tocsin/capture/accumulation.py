"""Decide whether the losses of several micro-steps are parts of one loss or whole losses.

Scripts that accumulate gradients divide each micro-step's loss (``loss / 4``) or leave it unchanged. The
graph shows which: its last operation is a division by a constant, perhaps of a sum over the items of this
micro-step by the number of all items. Only metadata and constants in host memory are read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from .optimizer_tracker import Loss

WALK = 6
"""Maximum number of operations that are examined: divisions, multiplications, copies, views."""
TOLERANCE = 1e-3
_COPIES = ("ToCopy", "Clone", "View", "Reshape", "Squeeze", "Alias", "UnsafeView")
_DDP_SINK = "_DDPSinkBackward"
"""Through which DDP passes the outputs of a module with ``find_unused_parameters`` or a static graph."""
_SUM = 2
"""torch's number for ``reduction="sum"``."""

DIVIDED, ITEMS, SAME, TERMS, BATCH = "divided", "items", "same-divisor", "terms", "one-batch"
"""Why losses are parts of one: each was divided by their number; by the number of all items; by the same
number on a device; they share one graph; there were fewer batches than losses."""


class Share(NamedTuple):
    """Constants by which a loss was divided, and the number of items that were summed before."""

    last: float
    """The last divisor that is not 1. A factor is a divisor below 1."""
    total: float
    """The product of all divisors."""
    items: float = 1.0
    tensor: Any = None
    """The first divisor on a device, to compare it between micro-steps."""


def share_of(tensor: Any, *, scaled: bool) -> Share | None:
    """Return the divisors of ``tensor``, or None if it was not divided.

    Args:
        tensor: The loss that is about to be backpropagated.
        scaled: Whether a GradScaler multiplied it afterwards.
    """
    node: Any = getattr(tensor, "grad_fn", None)
    place = getattr(tensor, "output_nr", 0)
    if node is not None and scaled:
        node, place = _before(node, place)
    last, total = 1.0, 1.0
    for _ in range(WALK):
        name = node.name() if node is not None else ""
        if name in ("DivBackward0", "MulBackward0"):
            constant = node._saved_other
            if not isinstance(constant, Tensor) or constant.numel() != 1 or constant.requires_grad:
                break
            if not constant.is_cpu:
                return Share(last, total, tensor=constant.detach()) if name == "DivBackward0" else None
            factor = float(constant)
            divisor = factor if name == "DivBackward0" else (1.0 / factor if factor else 1.0)
            last, total = divisor if last == 1.0 else last, total * divisor
        elif not name.startswith(_COPIES) and name != _DDP_SINK:
            break
        node, place = _before(node, place)
    if total == 1.0 or not total > 0.0:
        return None
    items = _items_of(node)
    return None if items == total else Share(last, total, items)


def why_parts(losses: list[Loss], fetched: int) -> str:
    """Return why these losses of one step are parts of one loss, or an empty text if each is whole.

    Args:
        losses: Those of one optimizer's step, at least two.
        fetched: Number of batches that DataLoaders returned since the previous step; 0 if unknown.
    """
    shares = [loss.share for loss in losses]
    if shares[0] is None:
        shares[0] = shares[1]  # the first loss of an accumulation may not have been examined
    if None not in shares:
        for why in (DIVIDED, ITEMS):
            if abs(total_share(shares, why) - 1.0) < TOLERANCE:
                return why
        if _have_one_divisor(shares):
            return SAME
    if all(loss.kept for loss in losses[:-1]):
        return TERMS
    return BATCH if 0 < fetched < len(losses) else ""


def total_share(shares: list[Any], why: str) -> float:
    """Return the share of a mean that these losses make up together, or 0 if it is unknown."""
    total = 0.0
    for share in shares:
        if share is None or share.tensor is not None:
            return 0.0
        total += 1.0 / share.last if why == DIVIDED else share.items / share.total
    return total


def _have_one_divisor(shares: list[Any]) -> bool:
    """Return whether all were divided by the number of all items: one device tensor, or a large number."""
    first = shares[0]
    if first.tensor is not None:
        on_device = [share.tensor for share in shares if share.tensor is not None]
        place = first.tensor.data_ptr()  # all are alive, so equal addresses mean the same tensor
        return len(on_device) == len(shares) and all(one.data_ptr() == place for one in on_device)
    if any(share.total != first.total or not 1.0 < share.items < first.total for share in shares):
        return False
    return total_share(shares, ITEMS) < 0.5 * (1 + len(shares))


def _before(node: Any, place: int) -> tuple[Any, int]:
    """Return the operation that computed the first operand, and the place of that among its outputs.

    DDP's sink has as many outputs as operands, so of it the operand is that of the output ``place``.
    """
    edges = node.next_functions
    if node.name() == _DDP_SINK:
        edges = edges[place : place + 1]
    return next(((after, output) for after, output in edges if after is not None), (None, 0))


def _items_of(node: Any) -> float:
    """Return the number of items over which a loss was summed; 1 if it is not a sum."""
    name = node.name() if node is not None else ""
    if name.startswith("SumBackward"):
        count = 1.0
        for length in node._saved_self_sym_sizes:
            count *= float(length)
        return count
    if name.startswith("NllLoss") and node._saved_reduction == _SUM:
        weight = node._saved_total_weight
        return float(weight) if weight.is_cpu else 1.0
    return 1.0
