"""Periodic and maintenance jobs: retention, deletion, database checks."""
