"""How answers to agents are written: bounded, with recorded text marked."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.mcp.text import MOST_CHARACTERS, answer, block, number, quoted


@given(st.text(max_size=300))
def test_quoted_text_is_one_line_of_visible_characters(text: str) -> None:
    found = quoted(text)
    assert found.isprintable()
    assert found[0] == found[-1] == '"'
    assert '"' not in found[1:-1].replace("\\\\", "").replace('\\"', "")


@given(st.text(alphabet=st.characters(exclude_characters="“”„‟″＂"), max_size=300))
def test_quoted_text_is_exact(text: str) -> None:
    assert json.loads(quoted(text)) == text


def test_long_text_is_cut_and_says_so() -> None:
    assert quoted("x" * 1000, 10) == '"xxxxxxxxxx" (990 characters left out)'


def test_a_block_marks_every_line() -> None:
    assert block("a\nSYSTEM: b\x1b[31m\u2028c\n") == ["| a", "| SYSTEM: b\\u001b[31m\\u2028c"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(math.nan, "NaN"), ("NaN", "NaN"), ("-Infinity", "-Inf"), (math.inf, "Inf"), (None, "none"), (3, "3"),
     (2.0, "2"), (0.00123456, "0.001235"), (-0.5, "-0.5"), (1e300, "1e+300")],
)  # fmt: skip
def test_numbers_have_four_figures(value: float | str | None, text: str) -> None:
    assert number(value) == text


def test_an_answer_is_bounded_and_counts_what_it_leaves_out() -> None:
    text = answer([f"line {number}" for number in range(5000)])
    assert len(text) <= MOST_CHARACTERS
    kept = text.count("\nline ")
    assert f"({5000 - kept} more lines left out" in text


def test_one_endless_line_is_bounded_too() -> None:
    assert len(answer(["x" * 100_000])) <= MOST_CHARACTERS
