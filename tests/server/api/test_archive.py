"""Archiving over the API, on a real server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx


def patch(server: Any, run: str, change: dict[str, Any]) -> httpx.Response:
    return httpx.patch(f"{server.base}/api/v1/runs/{run}", json=change, headers=server.headers, timeout=30)


def test_a_run_is_put_away_and_brought_back(server: Any, trainer: Callable[..., Any]) -> None:
    """The list says so at once, and the run's records stay."""
    run = trainer()
    run.records({"loss": [1.0, 2.0]})
    for archived in (True, False):
        assert patch(server, run.run, {"archived": archived}).json()["archived"] is archived
        assert server.get(f"/runs/{run.run}")["archived"] is archived
    assert len(server.get(f"/runs/{run.run}/records")["items"]) == 2


def test_an_unknown_run_and_a_wrong_change_are_refused(server: Any, trainer: Callable[..., Any]) -> None:
    """404 for the one, 422 for the other."""
    run = trainer()
    assert patch(server, "no-such-run", {"archived": True}).status_code == 404
    assert patch(server, run.run, {"archived": True, "name": "new"}).status_code == 422
