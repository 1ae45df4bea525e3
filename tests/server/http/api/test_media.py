"""``GET /runs/{id}/media``: what the script logged besides numbers, and each content by its hash."""

from __future__ import annotations

import base64
import time
from typing import Any

import httpx
import pytest

from tocsin.protocol import Event

PNG = b"\x89PNG\r\n\x1a\n and the rest"


@pytest.fixture
def send(run_server: Any, dial: Any) -> Any:
    """Return a function that reports an object of run r1; ``send.get`` asks the API about it."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    numbers = iter(range(1000))

    def send(kind: str, content: bytes, step: int = 3, digest: str = "ab" * 16, **data: Any) -> None:
        encoded = base64.b64encode(content).decode()
        for name, body in (
            ("media-content", {"hash": digest, "type": kind, "content": encoded}),
            ("media", {"name": "sample", "hash": digest, "type": kind, "bytes": len(content), **data}),
        ):
            number = next(numbers)
            client.send(Event(number, name, time.time_ns(), step=step, data=body))
        client.acked(events=number)

    def get(path: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {server.token}"}
        return httpx.get(f"{server.base}/api/v1/runs/r1/{path}", headers=headers)

    send.get = get  # type: ignore[attr-defined]
    return send


@pytest.mark.both_databases
def test_an_object_is_listed_and_its_content_is_the_same_bytes(send: Any) -> None:
    send("image", PNG, width=8, height=4, caption="first batch")
    answer = send.get("media").json()
    (row,) = answer["items"]
    assert (row["name"], row["type"], row["step"], row["caption"]) == ("sample", "image", 3, "first batch")
    assert (row["facts"], answer["names"]) == ({"width": 8, "height": 4}, ["sample"])
    content = send.get(f"media/{row['hash']}")
    assert (content.content, content.headers["content-type"]) == (PNG, "image/png")
    assert "immutable" in content.headers["cache-control"]


def test_only_the_objects_of_one_name_are_listed(send: Any) -> None:
    send("text", b"a")
    send("text", b"b", digest="cd" * 16, name="other")
    assert [row["name"] for row in send.get("media?name=other").json()["items"]] == ["other"]


def test_a_page_is_never_a_page(send: Any) -> None:
    """A training process cannot put a script into the browser of a reader."""
    send("image", b"<html><script>alert(1)</script>", mime="text/html")
    content = send.get(f"media/{'ab' * 16}")
    assert content.headers["content-type"] == "text/plain; charset=utf-8"
    assert "sandbox" in content.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["media/" + "ef" * 16, "media/%25", "media/zz"])
def test_an_unknown_hash_is_an_error(send: Any, path: str) -> None:
    send("text", b"a")
    assert send.get(path).status_code in (404, 422)


def test_malformed_objects_are_left_out(send: Any) -> None:
    send("video", b"a")
    send("text", b"a", name=3)
    assert send.get("media").json()["items"] == []


def test_the_content_is_not_in_the_live_stream_of_events() -> None:
    from tocsin_server.core.models import RunEvent, Writer
    from tocsin_server.http.live.delta import Delta

    writer = Writer("r1", 1, 1, 0)
    events = [RunEvent(writer, k, k, kind, 1, 3, {}) for k, kind in enumerate(("media-content", "media"))]
    assert [event.kind for event in Delta(events)._events] == ["media"]
