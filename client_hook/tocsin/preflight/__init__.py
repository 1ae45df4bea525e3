"""The preflight audit: what is wrong with a training before it has gone wrong.

One ``audit`` event at the first step, one at the tenth, one after fifty clipped steps; each check
has a heading in docs/audit.md. Where it cannot see it says ``not_auditable``, never that all is well.
"""

from __future__ import annotations

from .findings import REMEDIES
from .stages import Preflight

CHECKS = tuple(REMEDIES)
"""The names of all checks."""

__all__ = ["CHECKS", "Preflight"]
