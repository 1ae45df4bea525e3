"""The config check: find problems of a training before it fails.

One ``preflight`` event is sent at the first step, one at the tenth, and one after fifty clipped steps.
docs/reference/config-check.md has a heading for each check. What cannot be checked is listed as
``not_checkable``.
"""

from __future__ import annotations

from .findings import REMEDIES
from .stages import Preflight

CHECKS = tuple(REMEDIES)
"""The names of all checks."""

__all__ = ["CHECKS", "Preflight"]
