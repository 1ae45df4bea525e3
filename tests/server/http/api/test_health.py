"""Health of the server."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import httpx


def test_health_without_login_has_no_details(server: Any) -> None:
    """Status and version for everyone; details only after login."""
    stranger = httpx.get(f"{server.base}/api/v1/health")
    assert stranger.json() == {"status": "ok", "version": version("tocsin-server")}
    inside = server.get("/health")
    assert inside["database"] == "sqlite"
    assert inside["writer"]["failing"] is None
    assert inside["connections"]["training_processes"] >= 0


def test_ready_needs_no_login(server: Any) -> None:
    """A load balancer has no token."""
    answer = httpx.get(f"{server.base}/api/v1/ready")
    assert (answer.status_code, answer.json()) == (200, {"ready": True, "reason": ""})
