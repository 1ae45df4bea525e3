"""Parsing the server's address."""

from __future__ import annotations

import pytest

from tocsin.transport.server_url import parse_target


@pytest.mark.parametrize(
    ("url", "websocket"),
    [
        ("http://127.0.0.1:8765", "ws://127.0.0.1:8765/api/v1/ingest"),
        ("http://lab:8765/", "ws://lab:8765/api/v1/ingest"),
        ("https://lab", "wss://lab:443/api/v1/ingest"),
        ("wss://lab/tocsin/", "wss://lab:443/tocsin/api/v1/ingest"),
        ("ws://lab:1/api/v1/ingest", "ws://lab:1/api/v1/ingest"),
        ("http://[::1]:8765", "ws://[::1]:8765/api/v1/ingest"),
        ("localhost:8765", "ws://localhost:8765/api/v1/ingest"),
        ("localhost", "ws://localhost:8321/api/v1/ingest"),
        (" lab.example.org/tocsin ", "ws://lab.example.org:8321/tocsin/api/v1/ingest"),
        ("10.0.0.7:80", "ws://10.0.0.7:80/api/v1/ingest"),
        ("[::1]:8765", "ws://[::1]:8765/api/v1/ingest"),
    ],
)
def test_an_address_leads_to_the_websocket(url: str, websocket: str) -> None:
    """In any of its usual spellings."""
    uri = parse_target(url).websocket
    scheme, host = ("wss" if uri.secure else "ws"), f"[{uri.host}]" if ":" in uri.host else uri.host
    assert f"{scheme}://{host}:{uri.port}{uri.resource_name}" == websocket


@pytest.mark.parametrize(
    "url", ["", "lab", "ftp://lab", "http://", "lab:99999", "http://[::1", "my lab:80", "lab:http"]
)
def test_an_address_that_is_none_is_refused_with_a_sentence(url: str) -> None:
    """The error has the expected and the actual value."""
    with pytest.raises(ValueError, match=r"expected something like http://host:8321, got "):
        parse_target(url)


def test_credentials_do_not_reach_the_spool() -> None:
    """Spool headers and logs contain no password."""
    assert parse_target("http://me:secret@lab:1").base == "http://lab:1"
