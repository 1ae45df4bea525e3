"""The browsers' WebSocket."""
