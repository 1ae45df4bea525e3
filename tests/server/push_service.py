"""A push service and its browsers, for tests: it checks each request, and its browsers decrypt the messages.

Written from RFC 8030, 8188, 8291 and 8292 and independent of the server's code.
"""

from __future__ import annotations

import json
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.server.receiver import ReceivedRequest, Receiver


def text_of(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def data_of(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class SubscribedBrowser:
    """A browser with a subscription."""

    endpoint: str
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    auth: bytes = field(default_factory=lambda: os.urandom(16))

    @property
    def public_key(self) -> bytes:
        return self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    @property
    def subscription(self) -> dict[str, Any]:
        """Return what ``PushSubscription.toJSON()`` returns."""
        keys = {"p256dh": text_of(self.public_key), "auth": text_of(self.auth)}
        return {"endpoint": self.endpoint, "keys": keys}

    def decrypted(self, body: bytes) -> bytes:
        """Return the message in a body of one record."""
        salt, size, length = body[:16], int.from_bytes(body[16:20], "big"), body[20]
        sender, record = body[21 : 21 + length], body[21 + length :]
        assert (length, size >= len(record)) == (65, True)
        point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
        shared = self.key.exchange(ec.ECDH(), point)
        info = b"WebPush: info\x00" + self.public_key + sender
        secret = HKDF(SHA256(), 32, self.auth, info).derive(shared)
        key = HKDF(SHA256(), 16, salt, b"Content-Encoding: aes128gcm\x00").derive(secret)
        nonce = HKDF(SHA256(), 12, salt, b"Content-Encoding: nonce\x00").derive(secret)
        padded = AESGCM(key).decrypt(nonce, record, None).rstrip(b"\x00")
        assert padded.endswith(b"\x02")
        return padded[:-1]


@dataclass
class PushService(Receiver):
    """A push service on loopback. It answers with 201, or as ``answers`` say."""

    answers: list[Any] = field(default_factory=lambda: [201])
    browsers: list[SubscribedBrowser] = field(default_factory=list)

    def browser(self) -> SubscribedBrowser:
        """Return a new browser that is subscribed."""
        self.browsers.append(SubscribedBrowser(f"{self.url}/push/{len(self.browsers)}"))
        return self.browsers[-1]

    def messages(self, browser: SubscribedBrowser) -> list[Any]:
        """Return what a browser received, checked and decrypted."""
        return [json.loads(browser.decrypted(each.body)) for each in self.requests(browser)]

    def requests(self, browser: SubscribedBrowser) -> list[ReceivedRequest]:
        mine = [each for each in self.received if browser.endpoint == self.url + each.path]
        for each in mine:
            self.check(each)
        return mine

    def check(self, request: ReceivedRequest) -> None:
        """Check a request as push services do; the body has at most 4096 bytes."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        assert headers["content-encoding"] == "aes128gcm"
        assert int(headers["ttl"]) > 0
        assert headers["urgency"] in ("normal", "high")
        assert len(headers.get("topic", "")) <= 32
        assert len(request.body) <= 4096
        claims, _key = vapid(headers["authorization"])
        assert claims["aud"] == self.url
        assert time.time() < claims["exp"] < time.time() + 24 * 3600
        assert claims["sub"].startswith("https://")


def vapid(header: str) -> tuple[dict[str, Any], str]:
    """Return the claims and the public key of an Authorization header, after verifying its signature."""
    scheme, _, rest = header.partition(" ")
    assert scheme == "vapid"
    parts = dict(each.strip().split("=", 1) for each in rest.split(","))
    signed, _, signature = parts["t"].rpartition(".")
    raw = data_of(signature)
    numbers = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
    point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), data_of(parts["k"]))
    point.verify(encode_dss_signature(*numbers), signed.encode(), ec.ECDSA(SHA256()))
    head, claims = (json.loads(data_of(each)) for each in signed.split("."))
    assert head == {"typ": "JWT", "alg": "ES256"}
    return claims, parts["k"]
