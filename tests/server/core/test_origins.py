"""Host and Origin: which belong together."""

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
    """Same name and port, whatever the case; a default port may be left out."""
    assert origin_agrees(origin, host, "http")


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "http://127.0.0.1:9", "null", "", "file://", "127.0.0.1:8321",
     "http://127.0.0.1:8321@evil.example", "http://127.0.0.1:8321.evil.example", "javascript:alert(1)"],
)  # fmt: skip
def test_another_site_does_not(origin: str) -> None:
    """Other names, other ports and what is no origin at all are refused."""
    assert not origin_agrees(origin, "127.0.0.1:8321", "http")


def test_the_public_address_agrees_behind_a_proxy() -> None:
    """A proxy may call us by another Host than the browser sees."""
    assert origin_agrees("https://tocsin.lab", "10.0.0.7:8321", "http", "https://tocsin.lab/")


@pytest.mark.parametrize("host", ["localhost:8321", "127.0.0.1", "127.9.9.9:1", "[::1]:8321", "x.localhost"])
def test_loopback_names_are_ours(host: str) -> None:
    """Names that lead to this machine for everybody."""
    assert host_is_ours(host, "http", loopback=True)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "a b", "x@localhost", "a/b"])
def test_a_rebound_name_is_not_ours(host: str) -> None:
    """A name that somebody's DNS points at loopback is refused there."""
    assert not host_is_ours(host, "http", loopback=True)


def test_an_open_address_answers_to_any_name() -> None:
    """Beyond loopback we cannot know our names; the public address is one of ours on loopback too."""
    assert host_is_ours("node-7:8321", "http", loopback=False)
    assert host_is_ours("tocsin.lab", "http", loopback=True, public_url="https://tocsin.lab")


@given(st.text(max_size=40))
def test_no_host_header_breaks_the_parser(header: str) -> None:
    """Whatever a client sends as Host, there is an answer."""
    assert split_host(header, "http") is None or isinstance(split_host(header, "http"), tuple)
