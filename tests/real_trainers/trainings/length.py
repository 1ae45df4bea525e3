"""How long the trainings are. Imports no package, so that the tests need no torch."""

from __future__ import annotations

import os

STEPS = int(os.environ.get("TRAINING_STEPS", "80"))
"""The cost per step is measured in longer trainings."""
BROKEN_AT = 60
"""Step at which the case ``broken`` fails; by then all rules have finished their warm-up."""
