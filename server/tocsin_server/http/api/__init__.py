"""The HTTP API: one file a resource, mounted under /api/v1 by app.py."""
