"""Optimizers that step inside a backward, from a hook of each parameter: all their steps are one step.

``register_post_accumulate_grad_hook`` with an optimizer a parameter is how memory is saved; the steps
come before the backward returns, from autograd's own threads where there is a device. They are gathered,
and become one record of the first of them when the backward is done: its loss is that backward's, its
norm that of all their gradients, its learning rates those of one where all agree, else one a member.
"""

from __future__ import annotations

from typing import Any

from .optimizer_tracker import GROUPS, Loss, Stepper


class _Depth:
    """Which threads have a backward under way: reentrant checkpoints call backward inside it."""

    __slots__ = ("begun", "threads")

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.begun = 0
        """Backwards so far: more than one since a backward began are those of another thread."""

    @property
    def inside(self) -> bool:
        """Whether any is under way: a device's gradients come on threads of autograd's own."""
        return bool(self.threads)


depth = _Depth()

Gathered = dict[int, tuple[Stepper, Any, Any]]
"""id(stepper) -> (it, stepped, skipped). At most one entry an optimizer."""


def close(ledger: Any, losses: list[Loss]) -> None:
    """The backward is done: one record of all that stepped in it."""
    gathered: Gathered = ledger.gathered
    ledger.gathered = {}
    members = [one for one, _, _ in gathered.values()]
    lead = _lead(ledger, members)
    members.sort(key=lambda one: ledger.enlist(one, lead))
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


def _lead(ledger: Any, members: list[Stepper]) -> Stepper:
    """The primary if it is among them, else the one that has led before, else the first to step."""
    if ledger.primary in members:
        return ledger.primary  # type: ignore[no-any-return]
    return next((one for one in members if one.number), members[0])


def joined(norms: list[Any]) -> Any:
    """The total 2-norm of parts, on the first one's device; None where one of them is missing."""
    if any(norm is None for norm in norms):
        return None
    total = 0.0
    for norm in norms:
        on = getattr(total, "device", None)
        part = norm if on is None or type(norm) is float else norm.to(on, non_blocking=True)
        total = total + part * part
    return total**0.5


def _rates(members: list[Stepper]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    first = members[0]
    if all(one.lrs is first.lrs or _same(one.lrs, first.lrs) for one in members):
        return first.lrs, first.lr_groups
    rates = tuple(rate for one in members for rate in one.lrs)[:GROUPS]
    return rates, tuple(range(len(rates)))


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Comparing rates on a device would wait for it: those are never called the same."""
    return all(type(rate) is float for rate in (*one, *other)) and one == other
