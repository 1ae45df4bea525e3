"""Addresses in the server's own network are rejected in any notation."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.notify.address import AddressError, checked, is_public

INSIDE = [
    "127.0.0.1",
    "127.8.9.1",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "192.0.2.1",
    "198.18.0.1",
    "::1",
    "::",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
    "2001:db8::1",
    "fec0::1",
    "64:ff9b:1::a00:1",
]


@pytest.mark.parametrize("address", INSIDE)
def test_addresses_inside(address: str) -> None:
    """Private, loopback, link-local, CGNAT, multicast, reserved, and IPv6 forms of them."""
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "::ffff:1.1.1.1", "2002:101:101::"]
)
def test_public_addresses_are_allowed(address: str) -> None:
    """Public addresses are allowed in IPv4 and IPv6 notation."""
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_an_embedded_ipv4_address_is_checked(address: ipaddress.IPv4Address) -> None:
    """Mapped and NAT64 addresses are treated as the IPv4 address that they contain."""
    number = int(address)
    for form in (
        ipaddress.IPv6Address((0xFFFF << 32) | number),
        ipaddress.IPv6Address((0x64FF9B << 96) | number),
    ):
        assert is_public(str(form)) == is_public(str(address))


@pytest.mark.parametrize(
    "name", ["localhost", "localhost.", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "::1", "0"]
)
def test_every_notation_of_loopback_is_rejected(name: str) -> None:
    """The resolver sees decimal, hexadecimal, octal and short forms, and a trailing dot."""
    with pytest.raises(AddressError, match=r"inside the server's own network|cannot be resolved"):
        checked(name, 80, private=False)


def test_one_address_inside_among_many_is_enough() -> None:
    """A name with a public and a private address is rejected, unless the setting allows it."""
    answers = ["1.1.1.1", "10.0.0.1"]
    with pytest.raises(AddressError, match=r"10\.0\.0\.1"):
        checked("two-faced.example", 80, private=False, resolve=lambda *_: answers)
    assert checked("two-faced.example", 80, private=True, resolve=lambda *_: answers) == answers
