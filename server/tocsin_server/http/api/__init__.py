"""The HTTP API: one module per resource, mounted under /api/v1."""
