"""Globs over names."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.detect.custom.glob import any_matches, matches, problem

texts = st.text("ab/*?.", max_size=12)


@given(texts, st.text("ab/.", max_size=12))
def test_globs_match_like_in_a_shell(pattern: str, name: str) -> None:
    """As fnmatch does, except that brackets are literal."""
    assert matches(pattern, name) is fnmatch.fnmatchcase(name, pattern)


def test_brackets_are_letters() -> None:
    """A tag may be called [new]."""
    assert matches("[new]*", "[new] run")
    assert not matches("[new]", "n")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("", "1 to 200"), ("x" * 201, "1 to 200"), ("*a" * 9, "at most 8 stars"), (5, "1 to 200")],
)
def test_expensive_globs_are_rejected(pattern: object, expected: str) -> None:
    """The length and the number of stars are limited."""
    assert expected in str(problem(pattern))
    assert problem("val/*psnr?") is None


def test_without_globs_every_name_is_meant() -> None:
    """One of several names is enough; without names, nothing matches."""
    assert any_matches((), ())
    assert any_matches(("b*",), ("a", "bc"))
    assert not any_matches(("b*",), ())
