"""Responses when the server cannot process a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"runs": 5}, "runs: expected a list, got 5"),
        ({"runs": ["x"]}, "runs.0: expected an object, got x"),
        ({"runs": [{"id": 5}]}, "runs.0.id: expected text, got 5"),
        (
            {"runs": [{"id": "x"}], "names": ["loss"], "buckets": "x"},
            "buckets: expected a whole number, got x",
        ),
    ],
)
def test_a_wrong_type_is_named_as_json_has_it(server: Any, body: dict[str, Any], detail: str) -> None:
    answer = httpx.post(f"{server.base}/api/v1/compare", json=body, headers=server.headers)
    assert (answer.status_code, answer.json()["detail"]) == (422, detail)


def test_possible_values_are_listed(server: Any) -> None:
    answer = httpx.get(f"{server.base}/api/v1/alerts?severity=bad", headers=server.headers)
    assert answer.json()["detail"] == "severity: expected info, warning or critical, got bad"


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
