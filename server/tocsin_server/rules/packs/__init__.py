"""Packs of rules to switch on: one TOML file each (docs/reference/custom-rules.md)."""
