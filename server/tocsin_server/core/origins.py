"""Check Host and Origin headers against cross-site requests and DNS rebinding. Pure functions.

A page of another site can make a browser send requests to this server, and DNS rebinding can make the
browser believe that the other site's name is this server. Both are visible in these two headers, which
pages cannot forge.
"""

from __future__ import annotations

from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


def split_host(header: str, scheme: str) -> tuple[str, int] | None:
    """Return (name, port) of a Host header, or None if malformed. The port defaults to the scheme's."""
    try:
        parts = urlsplit(f"//{header}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not name or parts.path or parts.query or parts.fragment or parts.username is not None:
        return None
    return name, port or _PORTS.get(scheme, 80)


def split_origin(origin: str) -> tuple[str, int] | None:
    """Return (name, port) of an Origin header or URL, or None if it is ``null`` or malformed."""
    scheme, separator, rest = origin.partition("://")
    if not separator or scheme not in _PORTS:
        return None
    return split_host(rest.rstrip("/"), scheme)


def is_loopback_name(name: str) -> bool:
    """Return whether the name is loopback and therefore cannot be rebound to another machine."""
    return name in ("localhost", "::1") or name.endswith(".localhost") or _is_loopback_v4(name)


def _is_loopback_v4(name: str) -> bool:
    parts = name.split(".")
    return len(parts) == 4 and parts[0] == "127" and all(part.isdigit() for part in parts)


def origin_agrees(origin: str, host: str, scheme: str, public_url: str = "") -> bool:
    """Return whether a browser's Origin is the called Host or the configured public address."""
    theirs = split_origin(origin)
    if theirs is None:
        return False
    # The scheme is ignored: behind a TLS proxy the browser uses https and the server sees http.
    ours = split_host(host, origin.partition("://")[0])
    return theirs == ours or (bool(public_url) and theirs == split_origin(public_url))


def host_is_ours(host: str, scheme: str, *, loopback: bool, public_url: str = "") -> bool:
    """Return whether a Host header is accepted: on loopback, only loopback names and the public address."""
    named = split_host(host, scheme)
    if named is None:
        return False
    if not loopback or is_loopback_name(named[0]):
        return True
    public = split_origin(public_url) if public_url else None
    return public is not None and public[0] == named[0]
