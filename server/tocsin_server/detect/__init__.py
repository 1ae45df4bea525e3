"""Stability rules: pure functions of records and events."""
