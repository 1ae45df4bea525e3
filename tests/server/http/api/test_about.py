"""Server information for the settings page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx


def test_about_has_server_information_and_no_secret(start_server: Callable[..., Any]) -> None:
    """Storage, retention and the host of the ping; the ping's URL may be secret."""
    options = {
        "TOCSIN_PING_URL": "https://hc.example.invalid/hidden-hidden",
        "TOCSIN_RETENTION_DAYS": "30",
        "TOCSIN_RETENTION_PROJECTS": "deblur=7",
    }
    server = start_server(**options)
    answer = httpx.get(f"{server.base}/api/v1/about", headers=server.headers)
    assert "hidden" not in answer.text
    found = answer.json()
    assert found["ping"] == {"host": "hc.example.invalid", "every_s": 60.0}
    assert found["retention"] == {"days": 30.0, "projects": {"deblur": 7.0}}
    assert found["storage"]["bytes"] > 0
    assert found["runs"] == 0


def test_no_ping_is_configured_by_default(server: Any) -> None:
    """Without ``ping_url`` there is no host to show."""
    assert server.get("/about")["ping"] is None
