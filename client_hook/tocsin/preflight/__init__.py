"""The preflight audit: what is wrong with a training before it has gone wrong.

One ``audit`` event at the first step, one at the tenth, one after fifty clipped steps; each check
has a heading in docs/reference/config-check.md. What it cannot see it lists as ``not_auditable``.
"""

from __future__ import annotations

from .findings import REMEDIES
from .stages import Preflight

CHECKS = tuple(REMEDIES)
"""The names of all checks."""

__all__ = ["CHECKS", "Preflight"]
