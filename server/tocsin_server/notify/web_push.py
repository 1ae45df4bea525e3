"""Push messages to browsers: encryption (RFC 8291, aes128gcm) and sender identification (RFC 8292, VAPID).

The browser's push service receives only the encrypted message. Nothing here sends anything.
"""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

CURVE = ec.SECP256R1()
POINT_BYTES, AUTH_BYTES, SALT_BYTES, SCALAR_BYTES = 65, 16, 16, 32
RECORD_BYTES = 4096
"""Size of the one record of a message, and the largest body that every push service accepts."""
MOST_PLAIN = RECORD_BYTES - SALT_BYTES - 5 - POINT_BYTES - 1 - 16
"""Most bytes of a message: the body also holds its header, a delimiter and the authentication tag."""
TOKEN_S = 12 * 3600
"""How long an identification is valid; push services accept at most a day."""
LAST_RECORD = b"\x02"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A browser's subscription. Anyone who knows the ``endpoint`` can use it: it must not appear in logs."""

    id: str
    endpoint: str = field(repr=False)
    public_key: bytes = field(repr=False)
    auth: bytes = field(repr=False)

    @property
    def host(self) -> str:
        """Return the host of the push service."""
        return urlsplit(self.endpoint).hostname or ""


def encoded(data: bytes) -> str:
    """Return data as unpadded base64url."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """Return the data of base64url, padded or not. Raises ValueError."""
    if not text.isascii():
        raise ValueError("base64url has ASCII characters only")
    return urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))


def read_public_key(text: str) -> bytes:
    """Return the public key of a subscription, an uncompressed point of P-256. Raises ValueError."""
    key = decoded(text)
    if len(key) != POINT_BYTES:
        raise ValueError(f"{len(key)} bytes")
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(CURVE, key)
    except ValueError:
        raise ValueError("no point of the curve P-256") from None
    return key


def read_auth(text: str) -> bytes:
    """Return the authentication secret of a subscription. Raises ValueError."""
    auth = decoded(text)
    if len(auth) != AUTH_BYTES:
        raise ValueError(f"{len(auth)} bytes")
    return auth


def encrypt(
    plain: bytes,
    subscription: Subscription,
    *,
    salt: bytes | None = None,
    own_key: ec.EllipticCurvePrivateKey | None = None,
) -> bytes:
    """Return the body of a push message, which only the subscribed browser can decrypt.

    Args:
        plain: The message, at most :data:`MOST_PLAIN` bytes.
        subscription: The browser.
        salt: 16 bytes, random by default; for tests.
        own_key: The key pair of this one message, random by default; for tests.
    """
    if len(plain) > MOST_PLAIN:
        raise ValueError(f"a message of at most {MOST_PLAIN} bytes, got {len(plain)}")
    salt = salt or secrets.token_bytes(SALT_BYTES)
    own_key = own_key or ec.generate_private_key(CURVE)
    own = own_key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    theirs = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, subscription.public_key)
    info = b"WebPush: info\0" + subscription.public_key + own
    secret = _derived(own_key.exchange(ec.ECDH(), theirs), subscription.auth, info, 32)
    key = _derived(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(secret, salt, b"Content-Encoding: nonce\0", 12)
    head = salt + RECORD_BYTES.to_bytes(4, "big") + bytes([len(own)]) + own
    return head + AESGCM(key).encrypt(nonce, plain + LAST_RECORD, None)


def _derived(material: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(material)


class VapidKey:
    """The key pair by which push services recognize this server. Subscriptions are valid for one key only."""

    def __init__(self, scalar: str) -> None:
        """Read a key from 64 hexadecimal digits. Raises ValueError."""
        if len(bytes.fromhex(scalar)) != SCALAR_BYTES:
            raise ValueError("64 hexadecimal digits")
        self._key = ec.derive_private_key(int(scalar, 16), CURVE)
        point = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self.public = encoded(point)
        """The ``applicationServerKey`` of subscriptions."""

    @staticmethod
    def new() -> str:
        """Return the hexadecimal digits of a new key."""
        number = ec.generate_private_key(CURVE).private_numbers().private_value
        return number.to_bytes(SCALAR_BYTES, "big").hex()

    def authorization(self, endpoint: str, contact: str, now_s: float) -> str:
        """Return the Authorization header of a request to a push service.

        Args:
            endpoint: The address of the subscription.
            contact: An ``https:`` address at which operators of the push service find out who sends.
            now_s: The current time.
        """
        parts = urlsplit(endpoint)
        claims = {"aud": f"{parts.scheme}://{parts.netloc}", "exp": int(now_s) + TOKEN_S, "sub": contact}
        signed = f"{_part({'typ': 'JWT', 'alg': 'ES256'})}.{_part(claims)}"
        first, second = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(SHA256())))
        signature = first.to_bytes(SCALAR_BYTES, "big") + second.to_bytes(SCALAR_BYTES, "big")
        return f"vapid t={signed}.{encoded(signature)}, k={self.public}"


def _part(value: Mapping[str, object]) -> str:
    return encoded(json.dumps(value, separators=(",", ":")).encode())


@dataclass(frozen=True, slots=True)
class PushTargets:
    """What sending needs besides the message. ``forget`` deletes a subscription that has ended."""

    key: VapidKey
    subscriptions: tuple[Subscription, ...]
    open_incidents: int
    forget: Callable[[str], None]
