"""How each tracker is mirrored: whether alerts are written to it, and whose steps its values have."""

from __future__ import annotations

from typing import NamedTuple

STEPS = ("tracker", "run")
"""Steps of mirrored values: those that the script gave the tracker, or the current ones of the run."""


class Options(NamedTuple):
    """Options of one tracker."""

    alerts: bool
    steps: str


chosen: dict[str, Options] = {}
"""Tracker -> its options, once it is mirrored."""


def has_alerts(tracker: str | None = None) -> bool:
    """Return whether alerts are written to a tracker; None: to any."""
    found = chosen.values() if tracker is None else [chosen[tracker]] if tracker in chosen else []
    return any(one.alerts for one in found)
