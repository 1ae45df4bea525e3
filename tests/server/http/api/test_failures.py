"""Responses when the server cannot process a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
from sqlalchemy import Connection


def fill_disk(connection: Connection) -> None:
    """Limit SQLite to its present pages, like a full disk."""
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    connection.exec_driver_sql(f"PRAGMA max_page_count={pages}").close()


def test_a_full_disk_is_a_503_with_the_databases_message(run_server: Callable[..., Any]) -> None:
    """The client gets the reason and when to retry; requests without writes still succeed."""
    server = run_server()
    server.services.writer.call(fill_disk).result(30)
    with httpx.Client(
        base_url=f"{server.base}/api/v1", headers={"authorization": f"Bearer {server.token}"}
    ) as api:
        for _ in range(200):  # a token needs a few hundred bytes of the last page
            answer = api.post("/tokens", json={"name": "x" * 100, "scope": "read"})
            if answer.status_code != 201:
                break
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "database or disk is full" in answer.json()["detail"]
        assert api.get("/tokens").status_code == 200
