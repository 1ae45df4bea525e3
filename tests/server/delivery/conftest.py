"""A server with a webhook channel, and a client for its API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

AT_ONCE = {"routes": [{"name": "all", "group_wait_s": 0, "group_interval_s": 1}]}


class AdminApi:
    """Client of the API of a running server, with the admin token."""

    def __init__(self, server: Any) -> None:
        self.base = server.base
        self._headers = {"authorization": f"Bearer {server.token}"}

    def ask(self, method: str, path: str, **json: Any) -> httpx.Response:
        """Make one request under /api/v1."""
        body = {"json": json} if json else {}
        return httpx.request(method, f"{self.base}/api/v1{path}", headers=self._headers, timeout=60, **body)  # type: ignore[arg-type]

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def hook(self, url: str, name: str = "hook", routing: Any = AT_ONCE, **about: Any) -> str:
        """Create a webhook channel that gets everything immediately; return its id."""
        made = self.ask("POST", "/channels", name=name, kind="webhook", config={"url": url}, **about)
        assert made.status_code == 201, made.text
        assert self.ask("PUT", "/routes", **routing).status_code == 200
        return str(made.json()["id"])

    def states(self) -> list[str]:
        """Return the states of the deliveries, newest first."""
        return [item["state"] for item in self.get("/deliveries")["items"]]


@pytest.fixture
def admin_api() -> Callable[[Any], AdminApi]:
    """``admin_api(server)``."""
    return AdminApi
