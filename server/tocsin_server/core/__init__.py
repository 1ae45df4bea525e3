"""Models, settings, permissions and other code without I/O that every package may import."""
