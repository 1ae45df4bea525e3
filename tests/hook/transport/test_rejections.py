"""The sentences about rejections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tocsin.protocol import Refused
from tocsin.transport.rejections import ADVICE, sentence_of

ROOT = Path(__file__).resolve().parents[3]
NOTHING_TO_DO = {"try-later", "silence", "event-rate", "markup-in-name"}
"""The client reconnects; the text of ``event-rate`` has its advice; a name is only noticed."""


def test_a_rejection_says_what_to_do() -> None:
    """After what was rejected and why."""
    rejected = Refused("series", "too-many-series", "at most 2 series per run", "1 more: 'c'")
    assert sentence_of(rejected) == (
        "the server rejected a series (too-many-series): expected at most 2 series per run, got 1 more: 'c'. "
        "Log fewer different names, or raise limit_series on the server."
    )


def test_every_code_of_the_protocol_has_advice() -> None:
    """Each code in the table of rejected data, except those that need none."""
    page = (ROOT / "docs" / "internals" / "protocol.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.*?`) \| (?:connection|records|series|event|notice) \|", page, re.MULTILINE)
    codes = {code for row in rows for code in re.findall(r"`([a-z-]+)`", row)}
    assert codes - NOTHING_TO_DO == set(ADVICE)


@pytest.mark.parametrize("code", sorted(NOTHING_TO_DO))
def test_a_sentence_without_advice_ends_with_a_full_stop(code: str) -> None:
    """Once."""
    assert re.search(r"[^.]\.$", sentence_of(Refused("notice", code, "a", "b")))
