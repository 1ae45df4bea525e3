"""Handle optimizers that step inside a backward: all their steps are one step of the run.

To save memory, scripts use ``register_post_accumulate_grad_hook`` with one optimizer for each parameter.
These steps occur before the backward returns, on autograd's threads if there is a device. They are collected,
and become one record of the first optimizer when the backward is done. The record has the loss of the
backward, the norm of all gradients, and the learning rates: one if all agree, else one for each optimizer.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any

import torch

from .optimizer_tracker import GROUPS, Loss, OptimizerTracker


class _Depth:
    """The threads that run a backward. Reentrant checkpoints call backward inside one."""

    __slots__ = ("begun", "threads", "trained")

    def __init__(self) -> None:
        self.threads: set[int] = set()
        """The threads in which a backward is running."""
        self.trained: set[int] = set()
        """The threads that have run a backward."""
        self.begun = 0
        """Number of backwards so far, to detect those of other threads."""

    def belongs_to_another_thread(self, tracker: OptimizerTracker) -> bool:
        """Return whether another thread trains this optimizer. Its gradients must not be read then.

        A backward replaces them in C++, without the GIL, and a read at that moment crashes the process.
        """
        owner, me = tracker.thread, get_ident()
        if owner == me:
            return False
        return owner in self.trained if owner else not self.threads <= {me}

    @property
    def is_here(self) -> bool:
        """Whether a backward is running on this thread, which may be one of autograd's own."""
        return get_ident() in self.threads or _graph_task() != -1


_graph_task: Callable[[], int] = getattr(torch._C, "_current_graph_task_id", lambda: -1)
"""Returns the number of the backward that runs on this thread, or -1."""

depth = _Depth()

Gathered = dict[int, tuple[OptimizerTracker, Any, Any]]
"""id of a tracker -> (tracker, stepped, skipped)."""


def close(ledger: Any, losses: list[Loss]) -> None:
    """Make one record of all optimizers that stepped in the backward that is done."""
    gathered: Gathered = ledger.gathered
    ledger.gathered = {}
    members = [one for one, _, _ in gathered.values()]
    lead = _lead(ledger, members)
    members.sort(key=lambda one: ledger.add_member(one, lead))
    lead.lrs, lead.lr_groups = _rates(members)
    lead.norm = joined([one.norm for one in members])
    for one in members:
        if one is not lead:
            one.reset()
    lead.losses.extend(losses)
    stepped, skipped = gathered[id(lead)][1:]
    flags = [pair[1:] for pair in gathered.values()]
    if all(type(one) is float for pair in flags for one in pair):
        stepped, skipped = min(pair[0] for pair in flags), max(pair[1] for pair in flags)
    ledger.record(lead, stepped, skipped)


def _lead(ledger: Any, members: list[OptimizerTracker]) -> OptimizerTracker:
    """Return the primary if it is a member, else one with earlier records, else the first."""
    if ledger.primary in members:
        return ledger.primary  # type: ignore[no-any-return]
    return next((one for one in members if one.number), members[0])


def joined(norms: list[Any]) -> Any:
    """Return the total 2-norm of partial norms, or None if one is missing."""
    if any(norm is None for norm in norms):
        return None
    return sum(norm * norm for norm in norms) ** 0.5


def _rates(members: list[OptimizerTracker]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    first = members[0]
    if all(one.lrs is first.lrs or _same(one.lrs, first.lrs) for one in members):
        return first.lrs, first.lr_groups
    rates = tuple(rate for one in members for rate in one.lrs)[:GROUPS]
    return rates, tuple(range(len(rates)))


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return whether the rates are equal. Rates on a device never are, because comparing them would wait."""
    return all(type(rate) is float for rate in (*one, *other)) and one == other
