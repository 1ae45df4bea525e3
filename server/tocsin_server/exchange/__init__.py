"""Runs as folders: `tocsin-server export --out` writes them, `import` reads them (docs/data.md)."""
