"""Check the addresses of notifications: none inside the server's network, unless a setting allows it.

The check applies to the resolved address, not to the spelling of the name. Decimal and hexadecimal addresses,
``localhost.`` and names of the private network are therefore detected alike. The connection uses the address
that was checked, so that DNS rebinding has no effect.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable

from tocsin_server.core.errors import TocsinError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
NAT64 = ipaddress.ip_network("64:ff9b::/96")
INSIDE = (ipaddress.ip_network("fec0::/10"), ipaddress.ip_network("64:ff9b:1::/48"))
"""Private, although some versions of the standard library call them global: site-local (RFC 3879) and
local-use translation (RFC 8215)."""
Resolve = Callable[[str, int], list[str]]


class AddressError(TocsinError):
    """A host that notifications may not be sent to."""


class UnresolvedError(AddressError):
    """A host that cannot be resolved now; perhaps it can be later."""


def is_public(text: str) -> bool:
    """Return whether an address is public: not private, loopback, link-local, CGNAT, multicast or reserved,
    nor an IPv6 form of such an address.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    inner = embedded(address)
    if inner is not None:
        return is_public(str(inner))
    if any(address in each for each in INSIDE):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def embedded(address: Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address embedded in an IPv6 address (mapped, 6to4, Teredo, NAT64), or None."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if address in NAT64 else None


def resolved(host: str, port: int) -> list[str]:
    """Resolve a name with the system's resolver. Raises :class:`UnresolvedError`."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UnresolvedError(f"host {host} cannot be resolved: {error}") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def checked(host: str, port: int, *, private: bool, resolve: Resolve = resolved) -> list[str]:
    """Return the addresses of a host after checking that all of them are allowed.

    Raises:
        UnresolvedError: The name cannot be resolved.
        AddressError: One of its addresses is private.
    """
    found = resolve(host, port)
    if not found:
        raise UnresolvedError(f"host {host} has no address")
    inside = [] if private else [address for address in found if not is_public(address)]
    if inside:
        raise AddressError(
            f"host {host}: expected a public address, got {inside[0]}, which is inside the server's own "
            "network. To allow it, set notify_private_addresses = true in tocsin.toml, or "
            "TOCSIN_NOTIFY_PRIVATE_ADDRESSES=true, and restart the server"
        )
    return found
