"""Only an admin can read the audit log."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

Start = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("url")


class Admin:
    """Client for /api/v1 with one token."""

    def __init__(self, base: str, token: str) -> None:
        self._base, self._headers = base, {"authorization": f"Bearer {token}"}

    def __call__(self, method: str, path: str, status: int = 200, **body: Any) -> Any:
        json = {"json": body} if body else {}
        url = f"{self._base}/api/v1{path}"
        answer = httpx.request(method, url, headers=self._headers, timeout=60, **json)  # type: ignore[arg-type]
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None


def test_every_change_has_its_line(run_server: Start, dial: Any) -> None:
    """Acknowledgements, silences, channels, routes and tokens: user, action and object, without secrets.

    Actions that failed have no line.
    """
    server = run_server(notify_private_addresses=True)
    ask = Admin(server.base, server.token)
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0, 1], loss=[1.0, math.nan]))
    (alert,) = ask("GET", "/alerts")["items"]
    ask("POST", f"/alerts/{alert['id']}/ack", note="mine")
    ends = (time.time() + 60) * 1000
    silence = ask("POST", "/silences", 201, matchers=['run_id="r1"'], ends_ms=ends, reason="known")
    ask("DELETE", f"/silences/{silence['id']}", 204)
    config = {"url": "http://127.0.0.1:9/hook-of-mine", "secret": "s" * 32}
    channel = ask("POST", "/channels", 201, name="phone", kind="webhook", config=config)
    ask("PATCH", f"/channels/{channel['id']}", config={"secret": "t" * 32}, enabled=False)
    ask("PUT", "/routes", routes=[{"name": "all", "channels": ["phone"]}])
    ask("DELETE", f"/channels/{channel['id']}", 204)
    token = ask("POST", "/tokens", 201, name="grafana", scope="read", project=None)
    ask("DELETE", f"/tokens/{token['id']}", 204)
    for path in ("/tokens/nobody", "/channels/nothing", "/silences/none"):
        ask("DELETE", path, 404)
    acts = ask("GET", "/audit")["items"]
    assert [(act["action"], act["subject"]) for act in reversed(acts)] == [
        ("alert.ack", alert["id"]),
        ("silence.create", silence["id"]),
        ("silence.expire", silence["id"]),
        ("channel.create", channel["id"]),
        ("channel.change", channel["id"]),
        ("routes.change", "routes"),
        ("channel.delete", channel["id"]),
        ("token.create", token["id"]),
        ("token.revoke", token["id"]),
    ]
    assert {act["by"] for act in acts} == {"admin login link"}
    assert next(a for a in acts if a["action"] == "channel.change")["details"]["changed"] == [
        "enabled",
        "config.secret",
    ]
    assert not any(secret in str(acts) for secret in ("ssss", "tttt", "hook-of-mine", token["token"]))


def test_the_log_is_paged_and_filtered(run_server: Start) -> None:
    """Newest first, each action once over all pages; by action or by object."""
    server = run_server()
    ask = Admin(server.base, server.token)
    made = [ask("POST", "/tokens", 201, name=f"t{at}", scope="read", project=None)["id"] for at in range(5)]
    ask("DELETE", f"/tokens/{made[0]}", 204)
    before: str | None = ""
    found: list[str] = []
    while before is not None:
        page = ask("GET", f"/audit?limit=2&action=token{before and f'&before={before}'}")
        found += [act["subject"] for act in page["items"]]
        before = page["next"]
    assert found == [made[0], *reversed(made)]
    assert len(ask("GET", f"/audit?subject={made[0]}")["items"]) == 2
    assert [act["subject"] for act in ask("GET", "/audit?action=token.revoke")["items"]] == [made[0]]
    ask("GET", "/audit?before=nonsense", 422)


def test_only_an_admin_reads_the_log(run_server: Start) -> None:
    """Scope write is not enough."""
    server = run_server()
    ask = Admin(server.base, server.token)
    writer = ask("POST", "/tokens", 201, name="w", scope="write", project=None)["token"]
    answer = Admin(server.base, writer)("GET", "/audit", 403)
    assert "admin" in answer["detail"]
