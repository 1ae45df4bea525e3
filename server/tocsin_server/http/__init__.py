"""HTTP and WebSocket endpoints."""
