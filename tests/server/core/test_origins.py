"""Which Host and Origin match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.origins import host_is_ours, origin_agrees, split_host


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://127.0.0.1:8321", "127.0.0.1:8321"),
        ("http://localhost", "localhost"),
        ("http://localhost", "localhost:80"),
        ("https://tocsin.lab", "tocsin.lab"),
        ("http://[::1]:8321", "[::1]:8321"),
        ("http://NODE-7:1", "node-7:1"),
    ],
)
def test_a_page_of_this_server_agrees(origin: str, host: str) -> None:
    """Same name and port, case-insensitive; a default port may be omitted."""
    assert origin_agrees(origin, host, "http")


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "http://127.0.0.1:9", "null", "", "file://", "127.0.0.1:8321",
     "http://127.0.0.1:8321@evil.example", "http://127.0.0.1:8321.evil.example", "javascript:alert(1)"],
)  # fmt: skip
def test_another_site_does_not(origin: str) -> None:
    """Other names, other ports and invalid origins are rejected."""
    assert not origin_agrees(origin, "127.0.0.1:8321", "http")


def test_the_public_address_agrees_behind_a_proxy() -> None:
    """Behind a proxy, our Host may differ from the one in the browser."""
    assert origin_agrees("https://tocsin.lab", "10.0.0.7:8321", "http", "https://tocsin.lab/")


@pytest.mark.parametrize("host", ["localhost:8321", "127.0.0.1", "127.9.9.9:1", "[::1]:8321", "x.localhost"])
def test_loopback_names_are_ours(host: str) -> None:
    """Names that always refer to this machine."""
    assert host_is_ours(host, "http", loopback=True)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "a b", "x@localhost", "a/b"])
def test_a_rebound_name_is_not_ours(host: str) -> None:
    """A name that DNS resolves to loopback is rejected there."""
    assert not host_is_ours(host, "http", loopback=True)


def test_an_open_address_answers_to_any_name() -> None:
    """Beyond loopback our names are unknown; the public address also counts on loopback."""
    assert host_is_ours("node-7:8321", "http", loopback=False)
    assert host_is_ours("tocsin.lab", "http", loopback=True, public_url="https://tocsin.lab")


@given(st.text(max_size=40))
def test_no_host_header_breaks_the_parser(header: str) -> None:
    """Any Host gets a response."""
    assert split_host(header, "http") is None or isinstance(split_host(header, "http"), tuple)
