"""Rule packs that users can enable: one TOML file each (docs/reference/custom-rules.md)."""
