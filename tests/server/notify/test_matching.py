"""Matchers read and compare as in Alertmanager, and none of them can hang the server."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.errors import FieldError
from tocsin_server.notify.matching import Matcher, all_hold, parse_matcher, parse_matchers

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
    """Regular expressions match the whole value; a label that is not there counts as empty."""
    assert parse_matcher(text, "m").holds(LABELS) is holds


@given(st.sampled_from(["=", "!="]), st.text(st.characters(exclude_characters="\0"), max_size=50))
def test_what_is_written_is_read_again(operator: str, value: str) -> None:
    """The text of a matcher means the same matcher, whatever characters its value has."""
    matcher = Matcher("rule", operator, value)
    assert parse_matcher(str(matcher), "m") == matcher


@given(st.lists(st.sampled_from(['rule="loss-spike"', 'rule="x"', 'severity="warning"']), max_size=4))
def test_all_must_hold(texts: list[str]) -> None:
    """A list of matchers holds where each of them does; an empty list always does."""
    matchers = parse_matchers(texts, "m")
    assert all_hold(matchers, LABELS) is all(each.holds(LABELS) for each in matchers)


@pytest.mark.parametrize("bad", ["", "rule", 'rule=="x"x"', 7, 'rule=~"("', 'rule=~"[b-a]"', "=x", None])
def test_what_is_no_matcher_is_refused_by_name(bad: object) -> None:
    """The error names the place in the list, what was expected and what is there."""
    with pytest.raises(FieldError, match=re.escape("routes[0].matchers[1]: expected")):
        parse_matchers(['rule="x"', bad], "routes[0].matchers")


@pytest.mark.parametrize(
    "hostile",
    ["(a+)+x", "(a|a)" * 4, "a?" * 20 + "a" * 20, "a*a*a*a*a*x", r"(.)\1", "(a{1,9}){1,9}", "a" * 201],
)
def test_a_pattern_that_could_hang_the_server_is_refused(hostile: str) -> None:
    """Repeated groups, many quantifiers, many groups and back-references."""
    with pytest.raises(FieldError):
        parse_matcher(f'rule=~"{hostile}"', "m")


def test_the_worst_pattern_that_passes_is_quick() -> None:
    """Three unbounded quantifiers over the longest value: well below a second of CPU time."""
    matcher = parse_matcher('rule=~"a*a*a*x"', "m")
    begun = time.thread_time()
    assert not matcher.holds({"rule": "a" * 10_000})
    assert time.thread_time() - begun < 5
