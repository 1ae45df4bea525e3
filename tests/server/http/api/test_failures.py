"""What a request answers when the server cannot do its part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
from sqlalchemy import Connection


def fill_disk(connection: Connection) -> None:
    """Allow SQLite no page more than it has, as a full disk would."""
    pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    connection.exec_driver_sql(f"PRAGMA max_page_count={pages}").close()


def test_a_full_disk_is_a_503_with_the_databases_words(run_server: Callable[..., Any]) -> None:
    """No 500: the client learns why, and when to ask again; what needs no write still answers."""
    server = run_server()
    server.services.writer.call(fill_disk).result(30)
    with httpx.Client(
        base_url=f"{server.base}/api/v1", headers={"authorization": f"Bearer {server.token}"}
    ) as api:
        for _ in range(200):  # a token takes a few hundred bytes of the last page
            answer = api.post("/tokens", json={"name": "x" * 100, "scope": "read"})
            if answer.status_code != 201:
                break
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "database or disk is full" in answer.json()["detail"]
        assert api.get("/tokens").status_code == 200
