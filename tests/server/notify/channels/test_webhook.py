"""The webhook as described in docs/reference/webhook.md."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tocsin_server.notify.channel import Sending
from tocsin_server.notify.channels import webhook
from tocsin_server.notify.message import Message
from tocsin_server.notify.outcome import DeliveryError

DOCS = Path(__file__).parents[4] / "docs" / "reference" / "webhook.md"
BODY = {
    "reason": "new",
    "route": "default",
    "group_labels": {"run_id": "r1"},
    "alerts": [{"value": "NaN"}],
    "left_out": 0,
}
MESSAGE = Message("n_1", "title", "text", "**text**", "critical", "firing", BODY)
SENDING = Sending(timeout_s=30, private=True, now_s=1_800_000_000.5)
SECRET = "0123456789abcdef"


def test_the_body_is_versioned_and_signed(receive: Callable[..., Any]) -> None:
    """With the secret, a receiver can verify sender, time and integrity."""
    receiver = receive()
    webhook.send({"url": f"{receiver.url}/hook", "secret": SECRET}, MESSAGE, SENDING)
    (received,) = receiver.received
    assert received.json["version"] == 1
    assert (received.json["status"], received.json["alerts"], received.json["id"]) == (
        "firing",
        [{"value": "NaN"}],
        "n_1",
    )
    signed = received.headers["Tocsin-Timestamp"].encode() + b"." + received.body
    expected = "v1=" + hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert received.headers["Tocsin-Signature"] == expected
    assert received.headers["Tocsin-Delivery"] == "n_1"


def test_the_documents_own_check_accepts_it(receive: Callable[..., Any]) -> None:
    """The code in docs/reference/webhook.md accepts what is sent, and rejects one changed byte."""
    receiver = receive()
    webhook.send({"url": receiver.url, "secret": SECRET}, MESSAGE, SENDING)
    code = re.search(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    assert code
    names: dict[str, Any] = {}
    exec(code[1], names)  # our own document
    (received,) = receiver.received
    assert names["is_valid"](SECRET, received.headers, received.body)
    assert not names["is_valid"](SECRET, received.headers, received.body + b" ")


def test_every_field_is_documented(receive: Callable[..., Any]) -> None:
    """Headers and fields of the body are named in docs/reference/webhook.md."""
    receiver = receive()
    webhook.send({"url": receiver.url, "secret": SECRET, "authorization": "Bearer x"}, MESSAGE, SENDING)
    (received,) = receiver.received
    assert received.headers["Authorization"] == "Bearer x"
    named = [name for name in received.headers if name.startswith("Tocsin")]
    assert len(named) == 4
    missing = [name for name in [*named, *received.json] if name not in DOCS.read_text("utf-8")]
    assert missing == []


def test_an_address_inside_is_rejected_again_at_each_delivery(receive: Callable[..., Any]) -> None:
    """A name that was public when the channel was created may resolve to an internal address later."""
    receiver = receive()
    with pytest.raises(DeliveryError, match="inside the server's own network"):
        webhook.send({"url": receiver.url}, MESSAGE, Sending(private=False))
    assert receiver.received == []
