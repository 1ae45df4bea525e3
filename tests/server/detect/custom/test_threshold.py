"""Custom rules as users write them: parsed, rejected by field, written."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tocsin_server.core.errors import FieldError
from tocsin_server.detect.custom.threshold import brief, plain, read_rule

SMALLEST = {"id": "loss-high", "series": "loss", "comparison": ">", "limit": 5}
FULL = {
    "id": "psnr-low", "title": "PSNR is low", "series": "val/psnr*", "reducer": "mean", "window": "500 steps",
    "comparison": "<", "limit": 24.0, "for": "10 min", "recover": 25.0, "keep_firing_for": "1 step",
    "severity": "critical", "labels": {"team": "a"}, "projects": ["deblur*"], "runs": ["x"], "tags": ["y"],
    "description": "d", "remedy": "r", "enabled": False,
}  # fmt: skip


@pytest.mark.parametrize("body", [SMALLEST, FULL])
def test_a_rule_is_read_as_it_was_written(body: dict[str, Any]) -> None:
    """In full and in short; a field that is None counts as omitted."""
    rule = read_rule(body)
    assert read_rule(plain(rule)) == read_rule(brief(rule)) == rule
    assert plain(read_rule(FULL)) == FULL


def test_brief_omits_defaults() -> None:
    """Fields with default values are omitted."""
    assert brief(read_rule(SMALLEST)) == SMALLEST


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": "Loss"}, "id"), ({"id": "loss-spike"}, "id"), ({"id": None}, "id"), ({"id": "-a"}, "id"),
        ({"series": ""}, "series"), ({"series": "*" * 9}, "series"), ({"series": 5}, "series"),
        ({"reducer": "median"}, "reducer"), ({"reducer": "mean"}, "window"),
        ({"window": "5 steps"}, "window"),
        ({"reducer": "mean", "window": "0 steps"}, "window"), ({"comparison": "~"}, "comparison"),
        ({"comparison": None}, "comparison"), ({"limit": math.nan}, "limit"), ({"limit": math.inf}, "limit"),
        ({"limit": "5"}, "limit"), ({"limit": True}, "limit"), ({"limit": 10**400}, "limit"),
        ({"limit": None}, "limit"), ({"for": "soon"}, "for"), ({"keep_firing_for": 5}, "keep_firing_for"),
        ({"recover": 6.0}, "recover"), ({"comparison": "==", "recover": 5}, "recover"),
        ({"severity": "page"}, "severity"), ({"labels": {"rule": "x"}}, "labels.rule"),
        ({"labels": {"a b": "x"}}, "labels.a b"), ({"labels": {"a": ""}}, "labels.a"),
        ({"labels": {f"l{n}": "x" for n in range(17)}}, "labels"), ({"labels": []}, "labels"),
        ({"projects": ["", "b"]}, "projects[0]"), ({"runs": "x"}, "runs"), ({"tags": ["a"] * 51}, "tags"),
        ({"title": "x" * 201}, "title"), ({"enabled": 1}, "enabled"), ({"colour": 1}, "colour"),
        ({"reducer": "absent", "window": "5 steps"}, "comparison"),
        ({"title": "\ud800"}, "title"), ({"series": "a\ud800"}, "series"), ({"remedy": "\0"}, "remedy"),
        ({"labels": {"a": "\udfff"}}, "labels.a"), ({"projects": ["\0"]}, "projects[0]"),
    ],
)  # fmt: skip
def test_invalid_fields_are_rejected_by_name(change: dict[str, Any], field: str) -> None:
    """With its position, in a file of several rules."""
    for where in ("", "rule[3]."):
        with pytest.raises(FieldError) as reported:
            read_rule(SMALLEST | change, where)
        assert reported.value.field == where + field


def test_an_absence_rule_has_no_limit() -> None:
    """It is true without a value, and resolves at the next value."""
    rule = read_rule({"id": "quiet", "series": "val/*", "reducer": "absent", "window": "2 h"})
    assert (rule.holds(1.0), rule.holds(0.0), rule.is_back(0.0)) == (True, False, True)


def test_a_rule_concerns_the_runs_that_it_names() -> None:
    """By project, by name or id, by one of the tags."""
    rule = read_rule(SMALLEST | {"projects": ["deblur*"], "runs": ["r_1", "mdt-*"], "tags": ["prod"]})
    assert rule.concerns("deblur-2", ("mdt-7", "r_9"), ("old", "prod"))
    assert rule.concerns("deblur", ("x", "r_1"), ("prod",))
    assert not rule.concerns("deblur", ("x", "r_1"), ())
    assert not rule.concerns("sr", ("x", "r_1"), ("prod",))
