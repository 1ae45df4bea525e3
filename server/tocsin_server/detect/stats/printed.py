"""What is known from a value that a log prints with few decimals, for rules about zeros and small changes."""

from __future__ import annotations

import msgspec

ROUNDED = 1.5
"""Minimum distance, in quanta, of two printed values that certainly differ."""
HIDDEN = 0.75
"""Sigma, in quanta, of noise that rounding can hide: half of its values are printed as the same number."""
DROP = 100.0
"""Minimum size, in quanta, of a value from which a fall to a printed 0 in one record is a fall to 0."""
STEADY = 10
"""Number of values in a row above :data:`DROP` that are needed before the fall; a single one is a spike."""
FINE = 1.01e-4
"""Largest quantum (four decimals) at which a signal that is 0 from the first record on counts as 0."""
DIGIT = 10.0
"""Number of quanta below which a value has fewer than two digits."""


class Fall(msgspec.Struct):
    """Distinguishes a value of 0 from one that is only printed as 0: a true 0 is preceded by large values."""

    high: int = 0
    """Number of consecutive values before it that were far above the quantum."""

    def is_zero(self, value: float, quantum: float) -> bool:
        """Process the next value; return whether it is 0. With a ``quantum`` of 0, every printed 0 is."""
        if value != 0.0:
            self.high = self.high + 1 if abs(value) >= DROP * quantum else 0
        elif quantum and self.high < STEADY:
            self.high = 0
            return False
        return value == 0.0
