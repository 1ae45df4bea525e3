"""Search the objects of this process by type."""

from __future__ import annotations

import gc
import sys
from typing import Any

MAX_BLOCKS = 30_000_000
"""The objects are not searched if Python has more blocks of memory than this. A plain torch process has 0.6
million.

The search takes 0.12 us for each object that the garbage collector tracks. Strings, numbers and dicts of them
are not tracked: with 27 million blocks (10 million strings, 2 million dicts of strings, 3 million lists) it
took 0.4 s of CPU, once at the watch and once at the first record.
"""


def has_too_many_objects() -> bool:
    """Return whether there are too many objects to search. Takes 0.04 ms at a million blocks."""
    return sys.getallocatedblocks() > MAX_BLOCKS


def find_objects(kinds: tuple[type, ...]) -> list[Any]:
    """Return every tracked object of these types. Only types are examined: an object may run code."""
    if has_too_many_objects():
        return []
    return [one for one in gc.get_objects() if issubclass(type(one), kinds)]
