"""The built-in rules."""

from __future__ import annotations

from typing import Any


def test_every_rule_is_described(server: Any) -> None:
    """Identifier, severity, clock, its page, and settings with units."""
    rules = {rule["id"]: rule for rule in server.get("/rules")["items"]}
    collapse = rules["scaler-collapse"]
    assert collapse["severity"] == "critical"
    assert collapse["doc"].endswith("#scaler-collapse")
    assert all(set(setting) == {"name", "value", "unit", "help"} for setting in collapse["settings"])
