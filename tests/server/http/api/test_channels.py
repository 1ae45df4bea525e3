"""Channels: created, changed, tested and deleted; secrets are never returned."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import httpx
import pytest

_numbers = itertools.count()
SECRET = {
    "url": "https://1.1.1.1/hidden-hidden",
    "secret": "0123456789abcdef",
    "authorization": "Bearer 0123456789",
}


def ask(server: Any, method: str, path: str, body: Any = None, token: str = "") -> httpx.Response:
    headers = {"authorization": f"Bearer {token or server.token}"}
    return httpx.request(method, f"{server.base}/api/v1{path}", headers=headers, json=body, timeout=60)


def made(server: Any, **about: Any) -> Any:
    wanted = {"name": f"channel {next(_numbers)}", "kind": "webhook", "config": SECRET, "enabled": False}
    answer = ask(server, "POST", "/channels", wanted | about)
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_no_response_contains_a_secret(server: Any) -> None:
    """No response has it: after creating, listing, changing, testing, rejecting or deleting."""
    channel = made(server)
    place = f"/channels/{channel['id']}"
    answers = [
        str(channel),
        ask(server, "GET", "/channels").text,
        ask(server, "PATCH", place, {"limit_per_hour": 7, "config": {"secret": "***"}}).text,
        ask(server, "PATCH", place, {"config": {"url": "http://127.0.0.1/hidden-hidden"}}).text,
        ask(server, "PATCH", place, {"config": {"secret": ["0123456789abcdef"]}}).text,
        ask(server, "POST", f"{place}/test").text,
        ask(
            server,
            "POST",
            "/channels",
            {"name": "x", "kind": "apprise", "config": {"url": "json://u:0123456789abcdef@h"}},
        ).text,
        ask(server, "DELETE", place).text,
    ]
    for answer in answers:
        assert "hidden-hidden" not in answer
        assert "0123456789" not in answer
    assert channel["config"] == dict.fromkeys(SECRET, "***")


def test_a_change_keeps_what_it_does_not_name(server: Any) -> None:
    """Name, limit, switch and secrets are unchanged."""
    channel = made(server, limit_per_hour=5)
    changed = ask(server, "PATCH", f"/channels/{channel['id']}", {"enabled": False, "config": {}}).json()
    assert {**changed, "updated_ms": 0} == {**channel, "updated_ms": 0}
    ask(server, "DELETE", f"/channels/{channel['id']}")


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        ({"kind": "pigeon"}, "kind"),
        ({"name": ""}, "name"),
        ({"name": "*"}, "name"),
        ({"limit_per_hour": -1}, "limit_per_hour"),
        ({"config": {}}, "config.url"),
        ({"config": SECRET | {"url": "http://localhost/"}}, "config.url"),
        ({"config": SECRET | {"x": "y"}}, "config.x"),
        ({"more": 1}, "more"),
    ],
)
def test_invalid_input_is_rejected_by_field(server: Any, change: dict[str, Any], subject: str) -> None:
    """The problem names it, with what was expected."""
    wanted = {"name": "bad", "kind": "webhook", "config": SECRET}
    answer = ask(server, "POST", "/channels", wanted | change)
    assert (answer.status_code, answer.json()["subject"]) == (422, subject)
    assert answer.json()["expected"]


def test_names_are_unique(server: Any) -> None:
    """Routes refer to channels by name."""
    channel = made(server)
    answer = ask(server, "POST", "/channels", {"name": channel["name"], "kind": "browser"})
    assert (answer.status_code, answer.json()["subject"]) == (422, "name")
    ask(server, "DELETE", f"/channels/{channel['id']}")


def test_a_test_returns_its_result(run_server: Any, receive: Any) -> None:
    """The receiver's response on success, the reason on failure."""
    server = run_server(notify_private_addresses=True)
    for answers, ok, words in (((200,), True, "200 OK"), ((403,), False, "403 Forbidden")):
        receiver = receive(*answers)
        channel = made(server, config={"url": receiver.url})
        reported = ask(server, "POST", f"/channels/{channel['id']}/test").json()
        assert reported == {"ok": ok, "detail": words}
        assert receiver.received[0].json["reason"] == "test"


@pytest.mark.parametrize(("scope", "status"), [("read", 403), ("write", 403), ("admin", 404)])
def test_only_admins_change_channels(server: Any, scope: str, status: int) -> None:
    """Readers may list them."""
    token = ask(server, "POST", "/tokens", {"name": scope, "scope": scope}).json()["token"]
    assert ask(server, "GET", "/channels", token=token).status_code == 200
    for method, path in (("PATCH", "/channels/x"), ("DELETE", "/channels/x"), ("POST", "/channels/x/test")):
        body: Any = {} if method == "PATCH" else None
        assert ask(server, method, path, body, token=token).status_code == status
    if scope != "admin":
        assert ask(server, "PUT", "/routes", {}, token=token).status_code == 403


def test_no_channel_reads_the_servers_files(server: Any, tmp_path: Path) -> None:
    """The response does not reveal whether a file exists."""
    (tmp_path / "there.json").write_text('{"the": "content"}')
    reported = []
    for file in (tmp_path / "there.json", tmp_path / "absent.json"):
        url = f"workflows://example.org:443/workflow/signature/?template={file}"
        answer = ask(server, "POST", "/channels", {"name": "x", "kind": "apprise", "config": {"url": url}})
        assert (answer.status_code, answer.json()["subject"]) == (422, "config.url")
        reported.append(answer.text)
    assert reported[0] == reported[1]
    assert str(tmp_path) not in reported[0]


@pytest.mark.parametrize("value", ["Bearer a\r\nX-Role: admin", "Bearer a\n", "Bearer \u00e9"])
def test_a_header_that_cannot_be_sent_is_not_saved(server: Any, value: str) -> None:
    """The error names the field; an existing channel is unchanged."""
    channel = made(server)
    body = {"config": {"authorization": value}}
    answer = ask(server, "PATCH", f"/channels/{channel['id']}", body)
    assert (answer.status_code, answer.json()["subject"]) == (422, "config.authorization")
    assert "Bearer" not in answer.text
