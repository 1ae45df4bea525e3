"""The browsers' websocket."""
