"""How long the trainings are. Imports nothing, so that the tests need no torch."""

STEPS = 80
BROKEN_AT = 60
"""Step at which something goes wrong in the case ``broken``; rules know the run by then."""
