"""Parse the address of the server (``TOCSIN_URL``). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..protocol import PATH

if TYPE_CHECKING:
    from websockets.uri import WebSocketURI

PORT = 8321
_HOST = re.compile(r"[\w.:%-]+")
_SECURE = {"http": False, "ws": False, "https": True, "wss": True}


@dataclass(frozen=True)
class Target:
    """A server's address. ``base`` is its URL without credentials, for messages and spool headers."""

    host: str
    port: int
    secure: bool
    base: str
    prefix: str

    @property
    def websocket(self) -> WebSocketURI:
        """URI of the WebSocket for training processes."""
        from websockets.uri import (
            parse_uri,
        )  # reading over HTTP, and the help of a command, need no websockets

        scheme = "wss" if self.secure else "ws"
        return parse_uri(f"{scheme}://{_bracketed(self.host)}:{self.port}{self.prefix}{PATH}")


def parse_target(url: str) -> Target:
    """Parse ``http://host:port[/prefix]`` (also https, ws and wss), ``host:port`` or ``host.domain``.

    Without a scheme, the scheme is http and the default port is 8321.

    Raises:
        ValueError: It is not an address of a server.
    """
    refusal = f"server address: expected something like http://host:8321, got {url!r}"
    address = url.strip()
    is_bare = "://" not in address
    try:
        parts = urlsplit(f"http://{address}" if is_bare else address)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{refusal} ({error})") from None
    if parts.scheme not in _SECURE or not parts.hostname or not _HOST.fullmatch(parts.hostname):
        raise ValueError(refusal)
    if is_bare and port is None and "." not in parts.hostname and parts.hostname != "localhost":
        raise ValueError(refusal)
    secure = _SECURE[parts.scheme]
    port = port or (PORT if is_bare else 443 if secure else 80)
    prefix = parts.path.rstrip("/").removesuffix(PATH)
    base = f"{'https' if secure else 'http'}://{_bracketed(parts.hostname)}:{port}{prefix}"
    return Target(parts.hostname, port, secure, base, prefix)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
