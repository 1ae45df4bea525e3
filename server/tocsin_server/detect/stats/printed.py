"""What a value proves that a log printed with few decimals; shared by rules about zeros and small changes."""

from __future__ import annotations

import msgspec

ROUNDED = 1.5
"""Number of quanta by which two printed values must differ to be different for certain."""
HIDDEN = 0.75
"""Sigma, in quanta, of noise that rounding can hide: half of its values are printed as the same number."""
DROP = 100.0
"""Number of quanta from which a fall to a printed 0 in one record is a fall to 0, not to a small number."""
STEADY = 10
"""Number of values in a row above :data:`DROP`; a single one is a spike, after which 0 is as before."""
FINE = 1.01e-4
"""Quantum of four decimals, with which a signal that is 0 from the first record on is remarkable."""
DIGIT = 10.0
"""Number of quanta below which a level has less than two digits."""


class Fall(msgspec.Struct):
    """Tells a value that is 0 from one that is only printed as 0: it falls from far above the quantum."""

    high: int = 0
    """Number of consecutive values before it that were far above the quantum."""

    def is_zero(self, value: float, quantum: float) -> bool:
        """Take the next value; return whether it is 0. With a ``quantum`` of 0, every 0 is."""
        if value != 0.0:
            self.high = self.high + 1 if abs(value) >= DROP * quantum else 0
        elif quantum and self.high < STEADY:
            self.high = 0
            return False
        return value == 0.0
