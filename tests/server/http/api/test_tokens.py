"""Tokens over the API: create, use, list, revoke."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest


@pytest.fixture
def api(server: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{server.base}/api/v1", headers=server.headers) as client:
        yield client


def made(api: httpx.Client, **fields: Any) -> dict[str, Any]:
    answer = api.post("/tokens", json={"name": "one", "scope": "read"} | fields)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def bearer(token: dict[str, Any]) -> dict[str, str]:
    return {"authorization": f"Bearer {token['token']}"}


def test_a_token_works_until_it_is_revoked(api: httpx.Client) -> None:
    """Immediately in both directions; revoking again is not an error."""
    token = made(api)
    assert api.get("/runs", headers=bearer(token)).status_code == 200
    assert api.delete(f"/tokens/{token['id']}").status_code == 204
    assert api.get("/runs", headers=bearer(token)).status_code == 401
    assert api.delete(f"/tokens/{token['id']}").status_code == 204


def test_a_secret_is_shown_once(api: httpx.Client) -> None:
    """The list has everything else, including revoked tokens."""
    token = made(api, name="<b>ci</b>")
    api.delete(f"/tokens/{token['id']}")
    listed = api.get("/tokens")
    row = next(row for row in listed.json()["items"] if row["id"] == token["id"])
    assert (row["name"], row["scope"], row["project"]) == ("<b>ci</b>", "read", None)
    assert row["revoked_ms"] >= row["created_ms"] > 1e12
    assert token["token"] not in listed.text


def test_the_empty_pages_click_makes_a_trainers_token(api: httpx.Client, trainer: Callable[..., Any]) -> None:
    """A client can report to any project with it."""
    token = made(api, name="first trainer", scope="ingest", project=None)
    assert trainer(token=token["token"], project="anything").run


def test_a_project_token_reports_to_its_project_only(api: httpx.Client, trainer: Callable[..., Any]) -> None:
    """The handshake for another project is rejected."""
    token = made(api, scope="ingest", project="mine")["token"]
    assert trainer(token=token, project="mine").run
    with pytest.raises(Exception, match=r"4403|received"):
        trainer(token=token, project="yours")


@pytest.mark.parametrize("scope", ["read", "write"])
def test_only_an_admin_makes_tokens(api: httpx.Client, scope: str) -> None:
    """A user cannot raise their own scope."""
    token = made(api, scope=scope)
    answer = api.post("/tokens", json={"name": "x", "scope": "admin"}, headers=bearer(token))
    assert (answer.status_code, answer.json()["subject"]) == (403, "scope")


@pytest.mark.parametrize(
    ("body", "subject"),
    [
        ({"scope": "read"}, "name"),
        ({"name": "", "scope": "read"}, "name"),
        ({"name": "x" * 10_000, "scope": "read"}, "name"),
        ({"name": "x", "scope": "root"}, "scope"),
        ({"name": "x", "scope": "read", "project": "p"}, "token"),
        ({"name": "x", "scope": "read", "extra": 1}, "extra"),
        ([1], "body"),
    ],
)
def test_an_invalid_request_names_the_field(api: httpx.Client, body: Any, subject: str) -> None:
    """A 422 names the field and does not repeat ten kilobytes of input."""
    answer = api.post("/tokens", json=body)
    assert (answer.status_code, answer.json()["subject"]) == (422, subject)
    assert len(answer.content) < 2000


def test_broken_json_is_a_problem(api: httpx.Client) -> None:
    """Broken JSON gives a problem, not a crash."""
    answer = api.post("/tokens", content=b'{"name": "\xff', headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_unknown_and_kept_tokens_cannot_be_revoked_here(api: httpx.Client) -> None:
    """404 for an unknown token; those of the data directory are renewed on the server's machine."""
    assert api.delete("/tokens/t_none").status_code == 404
    assert "token revoke admin" in api.delete("/tokens/admin").json()["detail"]
