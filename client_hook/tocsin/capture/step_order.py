"""Decide whether an optimizer that is not the primary alternates with the others or trains alone.

The *lead* is the optimizer whose steps are counted: the primary, or another one while that one trains alone.
An optimizer that alternates with the lead shares its steps; one that trains alone continues the step count.
"""

from __future__ import annotations

from .optimizer_tracker import OptimizerTracker

IN_TURN = 8
"""Maximum steps of an optimizer between two steps of the lead for which it counts as alternating with it
(such as a critic that is trained five times as often). With more, it trains alone and has its own steps."""


def begins(tracker: OptimizerTracker, lead: OptimizerTracker | None) -> bool:
    """Return whether its next step may begin a separate training: the lead made many steps without it."""
    if lead is None or lead is tracker or 0 < max(tracker.most, tracker.turns) <= IN_TURN:
        return False
    since = tracker.turn[1] if tracker.turn[0] == id(lead) else 0
    return lead.number - since > IN_TURN


def count_turn(tracker: OptimizerTracker, lead: OptimizerTracker | None) -> bool:
    """Count a step of an optimizer that is not the primary; return whether it trains alone."""
    if lead is None:
        tracker.turns += 1
        tracker.is_ahead = tracker.turns <= IN_TURN  # with more, the primary may step much later, or never
        return not tracker.is_ahead
    if tracker is lead:
        tracker.turns += 1
        return True
    now = (id(lead), lead.number)
    if tracker.turn != now:
        tracker.most, tracker.turn, tracker.turns = max(tracker.most, tracker.turns), now, 0
    tracker.turns += 1
    usual = tracker.most if tracker.most <= IN_TURN else 0
    return tracker.turns > max(1, 2 * usual)
