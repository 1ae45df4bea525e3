"""How long the trainings are. Imports nothing, so that the tests need no torch."""

STEPS = 80
BROKEN_AT = 60
"""Step at which the case ``broken`` fails; by then all rules have finished their warm-up."""
