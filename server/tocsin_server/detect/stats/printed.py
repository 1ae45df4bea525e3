"""What a value proves that a log printed with few decimals; shared by rules about zeros and small changes."""

from __future__ import annotations

ROUNDED = 1.5
"""Number of quanta by which two printed values must differ to be different for certain."""
DROP = 100.0
"""Number of quanta from which a fall to a printed 0 in one record is a fall to 0, not to a small number."""
FINE = 1.01e-4
"""Quantum of four decimals, with which a signal that is 0 from the first record on is remarkable."""


def is_drop(before: float, quantum: float) -> bool:
    """Return whether a value printed as 0 is 0, because the one before it was far above the quantum."""
    return before >= DROP * quantum
