"""Matchers have the syntax and semantics of Alertmanager, and none can hang the server."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.errors import FieldError
from tocsin_server.notify.matching import (
    LONGEST_VALUE,
    Matcher,
    _compiled,
    all_hold,
    parse_matcher,
    parse_matchers,
)

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=50)
LABELS = {"rule": "loss-spike", "severity": "warning"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('rule="loss-spike"', True),
        ("rule=loss-spike", True),
        ('rule!="loss-spike"', False),
        ('rule=~"loss-.*"', True),
        ('rule=~"loss"', False),
        ('rule!~"loss|plateau"', True),
        (' severity =~ "critical|warning" ', True),
        ('absent=""', True),
        ('absent!=""', False),
        ('absent=~".+"', False),
    ],
)
def test_comparisons(text: str, holds: bool) -> None:
    """Regular expressions match the whole value; a missing label counts as empty."""
    assert parse_matcher(text, "m").holds(LABELS) is holds


@given(st.sampled_from(["=", "!="]), TEXTS)
def test_matchers_survive_a_round_trip(operator: str, value: str) -> None:
    """The text of a matcher parses to an equal matcher, whatever its value."""
    matcher = Matcher("rule", operator, value)
    assert parse_matcher(str(matcher), "m") == matcher


@given(st.lists(st.sampled_from(['rule="loss-spike"', 'rule="x"', 'severity="warning"']), max_size=4))
def test_all_must_hold(texts: list[str]) -> None:
    """A list of matchers matches if all of them do; an empty list always matches."""
    matchers = parse_matchers(texts, "m")
    assert all_hold(matchers, LABELS) is all(each.holds(LABELS) for each in matchers)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "rule",
        'rule=="x"x"',
        7,
        'rule=~"("',
        'rule=~"[b-a]"',
        "=x",
        None,
        f'rule= x{" " * 50_000}"',
        "a=b" * 999,
    ],
)
def test_an_invalid_matcher_is_rejected_by_name(bad: object) -> None:
    """The error names the place in the list, what was expected and what was found."""
    with pytest.raises(FieldError, match=re.escape("routes[0].matchers[1]: expected")):
        parse_matchers(['rule="x"', bad], "routes[0].matchers")


@pytest.mark.parametrize(
    "hostile",
    ["(?x)(a+) +b", r"(.)\1", "(?=a)a", "(?>a)", "a{1001}", "(a{1,30}){30}", "(.{0,30}){30}x", "a" * 201],
)
def test_what_re2_does_not_take_is_rejected(hostile: str) -> None:
    """Look-around, back-references and unknown flags; patterns that are too large."""
    with pytest.raises(FieldError):
        parse_matcher(f'rule=~"{hostile}"', "m")


@pytest.mark.parametrize(
    "costly", ["(a+)+x", "(a|a)*(a|aa)*x", "a?" * 40 + "a" * 40 + "x", ".*.*.*x", "( *)*x"]
)
def test_no_pattern_takes_exponential_time(costly: str) -> None:
    """In a backtracking engine, each of them would run indefinitely on such a value."""
    assert not parse_matcher(f'rule=~"{costly}"', "m").holds({"rule": "a" * LONGEST_VALUE})


def test_a_name_that_is_no_text_is_compared_all_the_same() -> None:
    """An unpaired surrogate matches any character."""
    assert parse_matcher('rule=~"a.b"', "m").holds({"rule": "a\ud800b"})


def test_a_matcher_is_compiled_once() -> None:
    """More patterns than the cache holds would otherwise be compiled again for each alert, which was most of
    the work."""
    matchers = [parse_matcher(f'rule!~"{chr(0x4E00 + at)}"', "m") for at in range(600)]
    before = _compiled.cache_info().misses
    assert all_hold(matchers, LABELS)
    assert _compiled.cache_info().misses == before
