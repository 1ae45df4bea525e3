"""Export and import of runs and records."""
