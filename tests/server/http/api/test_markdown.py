"""Markdown over the API."""

from __future__ import annotations

from typing import Any

from tests.server.http.api.test_channels import ask
from tocsin_server.core.markdown import LONGEST


def test_a_text_is_answered_as_nodes(server: Any) -> None:
    """Fields that do not apply to a kind of node are left out."""
    answer = ask(server, "POST", "/markdown", {"text": "# a\n<b>"})
    assert answer.json()["nodes"] == [
        {"kind": "heading", "level": 1, "children": [{"kind": "text", "text": "a"}]},
        {"kind": "paragraph", "children": [{"kind": "text", "text": "<b>"}]},
    ]


def test_a_text_that_is_too_long_is_rejected(server: Any) -> None:
    """The limit is that of notes."""
    answer = ask(server, "POST", "/markdown", {"text": "a" * (LONGEST + 1)})
    assert (answer.status_code, answer.json()["subject"]) == (422, "text")
