"""Required scopes of the routes."""

from __future__ import annotations

from typing import Any

import httpx
import pytest


@pytest.mark.parametrize(
    "path", ["/runs", "/runs/x", "/runs/x/series", "/runs/x/records", "/runs/x/events", "/alerts",
             "/alerts/x", "/rules", "/projects", "/tokens", "/session", "/openapi.json", "/nothing"],
)  # fmt: skip
def test_no_route_is_open(server: Any, path: str) -> None:
    """Without a token, with a wrong one, and with a client's token."""
    url = f"{server.base}/api/v1{path}"
    assert httpx.get(url).status_code == 401
    assert httpx.get(url, headers={"authorization": "Bearer tcn_wrong"}).status_code == 401
    as_trainer = httpx.get(url, headers={"authorization": f"Bearer {server.client_token}"}).status_code
    assert as_trainer == (404 if path == "/nothing" else 200 if path == "/openapi.json" else 403)
