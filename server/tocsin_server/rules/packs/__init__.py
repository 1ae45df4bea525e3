"""Packs of rules to switch on: one TOML file each (docs/user-rules.md)."""
