"""Send one HTTP request to a checked address only: no redirects, no proxies, one deadline.

The name is resolved once, all of its addresses are checked, and the socket connects to a checked address.
Host header, SNI and certificate are those of the name.
"""

from __future__ import annotations

import email.utils
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from tocsin_server.notify.address import AddressError, UnresolvedError, checked
from tocsin_server.notify.outcome import DeliveryError

LONGEST_ANSWER = 64 << 10
GONE = frozenset({400, 401, 403, 404, 405, 410, 411, 413, 414, 415, 422})
"""Status codes after which the same request would fail again."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, reason phrase, and the beginning of the body."""

    status: int
    reason: str
    body: bytes
    retry_after_s: float | None


class _Pinned(http.client.HTTPConnection):
    """Connect to ``address`` regardless of the host; with ``tls``, the certificate must match the host."""

    def __init__(
        self, host: str, port: int, address: str, timeout: float, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(host, port, timeout=timeout)
        self._address = address
        self._tls = tls

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), self.timeout)
        if self._tls is not None:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self.host)


def split(url: str) -> SplitResult:
    """Return the parts of a URL. Raises ValueError if it is invalid."""
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("an address of printable ASCII characters without spaces")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("an address that begins with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise ValueError("an address without user and password (put them into headers)")
    if parts.port == 0:
        raise ValueError("a port from 1 to 65535")
    return parts


def send(
    url: str,
    body: bytes | None,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    private: bool,
    method: str = "POST",
) -> Answer:
    """Send a request and read the response within ``timeout_s`` in total. Raises :class:`DeliveryError`."""
    try:
        parts = split(url)
        host, port = str(parts.hostname), parts.port or (443 if parts.scheme == "https" else 80)
        addresses = checked(host, port, private=private)
    except UnresolvedError as error:
        raise DeliveryError(str(error)) from error
    except (AddressError, ValueError) as error:
        raise DeliveryError(str(error), permanent=True) from error
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    connection = _Pinned(host, port, addresses[0], timeout_s, tls)
    watch = threading.Timer(timeout_s, cut, (connection,))
    watch.daemon = True
    watch.start()
    try:
        return _exchange(connection, method, parts, body, headers)
    except (OSError, http.client.HTTPException) as error:
        raise DeliveryError(_words(error, host, port)) from error
    except ValueError as error:  # the original text repeats the header, which may be a secret
        raise DeliveryError("a header contains characters that HTTP cannot send", permanent=True) from error
    finally:
        watch.cancel()
        connection.close()


def _exchange(
    connection: _Pinned, method: str, parts: SplitResult, body: bytes | None, headers: Mapping[str, str]
) -> Answer:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection.request(method, target, body, {"User-Agent": "tocsin", **headers})
    answer = connection.getresponse()
    text = answer.read(LONGEST_ANSWER)
    after = retry_after_s(answer.getheader("Retry-After", ""), time.time())
    return Answer(answer.status, answer.reason, text, after)


def cut(connection: Any) -> None:
    """Close a connection at the deadline: byte-by-byte responses never reach the socket's timeout."""
    if connection.sock is not None:
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


def check(answer: Answer) -> str:
    """Return the text of a successful response. Raises :class:`DeliveryError` for any other."""
    words = f"{answer.status} {answer.reason}".strip()
    if 200 <= answer.status < 300:
        return words
    if 300 <= answer.status < 400:
        raise DeliveryError(f"{words}: redirects are not followed. Enter the final address.", permanent=True)
    raise DeliveryError(words, permanent=answer.status in GONE, retry_after_s=answer.retry_after_s)


def json_of(answer: Answer) -> dict[str, Any]:
    """Return the body of a response if it is a JSON object, else an empty one."""
    try:
        found = json.loads(answer.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def retry_after_s(header: str, now_s: float) -> float | None:
    """Return the seconds that a Retry-After header asks for, as a number or a date."""
    text = header.strip()
    if text.replace(".", "", 1).isdecimal() and len(text) < 10:
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now_s) if text else None
    except (ValueError, TypeError, OverflowError):
        return None


def _words(error: Exception, host: str, port: int) -> str:
    if isinstance(error, TimeoutError):
        return f"{host}:{port} did not answer in time"
    if isinstance(error, ssl.SSLError):
        return f"{host}:{port}: {error.reason or 'TLS failed'}"
    if isinstance(error, OSError):
        return f"{host}:{port}: {error.strerror or error}"
    return f"{host}:{port} did not answer with HTTP ({type(error).__name__})"
