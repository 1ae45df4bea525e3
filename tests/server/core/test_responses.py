"""JSON responses and problems."""

from __future__ import annotations

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.responses import ExactJSON, Problem, problem_response, shortened

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(ANYTHING)
def test_whatever_data_hold_the_answer_is_strict_json(value: object) -> None:
    """NaN, infinities and unpaired surrogates never break a client."""

    def refuse(name: str) -> float:
        raise AssertionError(f"bare {name}")

    reported = json.loads(bytes(ExactJSON(value).body), parse_constant=refuse)
    again = json.loads(bytes(ExactJSON(reported).body), parse_constant=refuse)
    assert repr(again) == repr(reported)  # what a client has parsed would be encoded the same


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_keeps_every_bit(value: float) -> None:
    """Negative zero and subnormals included."""
    back = json.loads(bytes(ExactJSON([value]).body))[0]
    assert math.copysign(1, back) == math.copysign(1, value)
    assert back == value


def test_deeply_nested_data_is_truncated() -> None:
    """Data that an earlier version accepted does not break the response."""
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    reported = json.loads(bytes(ExactJSON({"config": deep, "id": "r"}).body))
    assert reported["id"] == "r"
    assert str(reported["config"]).strip("[]") == "'(nested too deeply)'"


def test_answers_are_not_stored() -> None:
    """No cache stores a response of the API, unless a route allows it."""
    assert ExactJSON({}).headers["cache-control"] == "no-store"


def test_a_problem_has_the_expected_and_the_actual_value() -> None:
    """RFC 9457 members and ours, and a message composed of them."""
    answer = problem_response(Problem(404, subject="run", expected="the id of a run", got="x"))
    body = json.loads(bytes(answer.body))
    assert answer.media_type == "application/problem+json"
    assert body["detail"] == "Run not found: x"
    assert (body["status"], body["title"], body["type"]) == (404, "Not Found", "about:blank")


def test_a_problem_repeats_little_of_what_came() -> None:
    """Ten kilobytes of a hostile name are truncated, with their length."""
    assert shortened("x" * 10_000) == "x" * 200 + "… (10000 characters)"


def test_control_characters_are_escaped() -> None:
    """Other letters are left as they are."""
    problem = Problem(404, subject="run", expected="the id of a run", got="a\n\x1b[31m\u202e名")
    assert problem.detail == "Run not found: a\\n\\x1b[31m\\u202e名"
