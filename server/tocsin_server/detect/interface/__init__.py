"""What a rule reads and returns."""
