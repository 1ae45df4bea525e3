"""A signed JSON webhook: docs/reference/webhook.md has the format and how to check the signature."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from tocsin_server.core import exact_json
from tocsin_server.core.errors import FieldError
from tocsin_server.notify import http
from tocsin_server.notify.address import AddressError, UnresolvedError, checked
from tocsin_server.notify.channel import MASK, Field, Kind, Sending, Values
from tocsin_server.notify.message import Message

VERSION = 1
TIMESTAMP, SIGNATURE, DELIVERY, FORMAT = (
    "Tocsin-Timestamp",
    "Tocsin-Signature",
    "Tocsin-Delivery",
    "Tocsin-Version",
)


def check(values: Values, private: bool) -> None:
    """Check the settings. The address is checked again at every delivery. Raises FieldError."""
    check_url(values["url"], private)
    if values.get("secret") is not None and len(values["secret"]) < 16:
        raise FieldError("config.secret", "at least 16 characters, preferably random", MASK)


def check_url(url: str, private: bool) -> None:
    """Check that a URL may be called. A name that cannot be resolved yet is accepted. Raises FieldError."""
    try:
        parts = http.split(url)
        checked(str(parts.hostname), parts.port or 443, private=private)
    except ValueError as error:
        raise FieldError("config.url", str(error), "another address") from None
    except UnresolvedError:
        return
    except AddressError as error:
        raise FieldError("config.url", "a host outside the server's own network", str(error)) from None


def payload(message: Message, now_s: float) -> bytes:
    """Return the body of a request: docs/reference/webhook.md."""
    body: dict[str, Any] = {
        "version": VERSION,
        "id": message.id,
        "sent_at": now_s,
        "status": message.status,
        "severity": message.severity,
        "title": message.title,
        "text": message.text,
        "reason": message.body["reason"],
        "route": message.body["route"],
        "group_labels": message.body["group_labels"],
        "alerts": message.body["alerts"],
        "left_out": message.body["left_out"],
    }
    return exact_json.dumps(body).encode("utf-8", "replace")


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """Return ``v1=`` and 64 hex digits: HMAC-SHA256 of the timestamp, a period and the body."""
    signed = timestamp.encode() + b"." + body
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def send(values: Values, message: Message, sending: Sending) -> str:
    """Send a message. Raises DeliveryError."""
    body, timestamp = payload(message, sending.now_s), str(int(sending.now_s))
    headers = {
        "Content-Type": "application/json",
        DELIVERY: message.id,
        FORMAT: str(VERSION),
        TIMESTAMP: timestamp,
    }
    if values.get("secret"):
        headers[SIGNATURE] = signature(values["secret"], timestamp, body)
    if values.get("authorization"):
        headers["Authorization"] = values["authorization"]
    url = values["url"]
    return http.check(http.send(url, body, headers, timeout_s=sending.timeout_s, private=sending.private))


KIND = Kind(
    "webhook",
    "Webhook (signed JSON)",
    (
        Field("url", "an address such as https://example.org/hook", secret=True),
        Field("secret", "the key that signs each request", secret=True, required=False),
        Field("authorization", "the Authorization header, such as Bearer ...", True, False, header=True),
    ),
    check,
    send,
)
