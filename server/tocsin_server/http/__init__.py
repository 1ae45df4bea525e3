"""HTTP and websocket endpoints."""
