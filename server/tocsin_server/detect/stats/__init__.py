"""Statistics that several rules share."""
