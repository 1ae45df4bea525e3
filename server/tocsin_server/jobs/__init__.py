"""Periodic and maintenance jobs: retention, deletion, incident snapshots, database checks."""
