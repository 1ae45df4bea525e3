"""The order of incidents."""

from __future__ import annotations

import random

from tocsin.core.severity import urgency

ORDERED = [
    ("open", "critical", 2.0), ("open", "critical", 1.0), ("open", "warning", 3.0), ("open", "unknown", 9.0),
    ("mitigated", "critical", 9.0), ("resolved", "critical", 9.0), ("ended", "info", 9.0),
]  # fmt: skip


def test_the_most_urgent_incident_comes_first() -> None:
    """By state, severity and onset; what a newer server may send comes after what is known."""
    mixed = random.Random(0).sample(ORDERED, len(ORDERED))
    assert sorted(mixed, key=lambda one: urgency(*one)) == ORDERED
