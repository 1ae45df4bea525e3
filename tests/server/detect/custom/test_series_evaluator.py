"""The episodes of a custom rule, through the real engine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from tocsin_server.core.models import AlertState

NAN, INF = math.nan, math.inf


def made(**fields: Any) -> dict[str, Any]:
    return {"id": "mine", "series": "x", "comparison": ">", "limit": 5.0} | fields


def states(watch: Any, values: Sequence[float | None], **fields: Any) -> list[tuple[str, int]]:
    """Return (state, step) of the findings for the series ``x``."""
    run = watch(size=3)
    run.reported_by_server("rules", rules=[made(**fields)])
    run.records(loss=[1.0] * len(values), x=values)
    return [(item.state.value, item.step) for item in run.findings if item.rule == "mine"]


def test_a_value_above_its_limit_fires_and_is_over_below(watch: Any) -> None:
    """Immediately, without further settings."""
    assert states(watch, [1, 6, 7, 5, 6]) == [("firing", 1), ("resolved", 3), ("firing", 4)]


def test_for_waits_without_a_break(watch: Any) -> None:
    """Pending until it has been true for that long; an interruption restarts the wait."""
    reported = states(watch, [6, 6, 1, 6, 6, 1, 6, 6, 6, 6, 1], **{"for": "3 steps"})
    assert reported == [("pending", 0), ("resolved", 2), ("firing", 9), ("resolved", 10)]


def test_recovery_has_its_own_limit(watch: Any) -> None:
    """Hysteresis: between the two thresholds it keeps firing."""
    assert states(watch, [6, 4, 4, 3], recover=3.0) == [("firing", 0), ("resolved", 3)]


def test_it_keeps_firing_for_a_while(watch: Any) -> None:
    """It is recovering at that time; a new rise fires again, and values in between restart the wait."""
    reported = states(watch, [6, 3, 3, 6, 3, 4, 3, 3, 3], keep_firing_for="2 steps", recover=3.0)
    assert reported == [
        ("firing", 0), ("recovering", 1), ("firing", 3), ("recovering", 4), ("firing", 5), ("recovering", 6),
        ("resolved", 8),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "values", "expected"),
    [
        ({}, [NAN, 6, NAN, 1], [("firing", 1), ("resolved", 3)]),
        ({}, [INF, -INF], [("firing", 0), ("resolved", 1)]),
        ({"comparison": "!=", "limit": 0}, [NAN, 0, 1], [("firing", 2)]),
        ({"comparison": "==", "limit": 0}, [1, 0, NAN, 1], [("firing", 1), ("resolved", 3)]),
        ({"comparison": "<="}, [6, 5, 6], [("firing", 1), ("resolved", 2)]),
        ({"comparison": ">="}, [4, 5, 4], [("firing", 1), ("resolved", 2)]),
        ({"reducer": "mean", "window": "2 steps"}, [4, 8, 1], [("firing", 1), ("resolved", 2)]),
        ({"reducer": "mean", "window": "2 steps"}, [4, NAN, 8], [("firing", 2)]),
        ({"reducer": "min", "window": "2 steps"}, [6, 6, 1], [("firing", 0), ("resolved", 2)]),
        ({"reducer": "max", "window": "2 steps"}, [6, 1, 1], [("firing", 0), ("resolved", 2)]),
        ({"reducer": "ratio", "window": "9 steps", "limit": 2}, [1, 1, 1, 6, 1],
         [("firing", 3), ("resolved", 4)]),
        ({"reducer": "ratio", "window": "2 steps", "limit": 2}, [1, INF, 1, 1],
         [("firing", 1), ("resolved", 3)]),
        ({"reducer": "ratio", "window": "9 steps", "comparison": "<"}, [0, -1, -5], []),
        ({"reducer": "change", "window": "3 steps"}, [1, 2, 7, 8], [("firing", 2)]),
        ({"reducer": "rate", "window": "3 steps"}, [1, 2, 13], [("firing", 2)]),
        ({"reducer": "rate", "window": "3 s"}, [1, 2, 13], [("firing", 2)]),
        ({"reducer": "nonfinite", "window": "3 steps", "limit": 1}, [NAN, 1, INF, 1, 1],
         [("firing", 2), ("resolved", 3)]),
    ],
)  # fmt: skip
def test_results_of_each_reducer(
    watch: Any, fields: dict[str, Any], values: list[float], expected: list[tuple[str, int]]
) -> None:
    """NaN never satisfies a comparison and is counted by nonfinite only; infinities are numbers."""
    assert states(watch, values, **fields) == expected


def test_a_missing_value_is_no_record(watch: Any) -> None:
    """It neither breaks ``for`` nor confirms it."""
    reported = states(watch, [6, None, None, 6, 1], **{"for": "3 steps"})
    assert [state for state, _ in reported] == ["pending", "firing", "resolved"]


def test_an_alert_states_the_comparison(watch: Any) -> None:
    """Numbers, the rule's text, its labels and severity; the onset is where it became true."""
    run = watch()
    rule = made(reducer="mean", window="2 steps", severity="critical", labels={"team": "a"}, remedy="Stop.",
                description="Too high.", **{"for": "2 steps"})  # fmt: skip
    run.reported_by_server("rules", rules=[rule])
    run.records(loss=[1.0] * 6, x=[1, 9, 9, 9, 9, 9])  # the mean of steps 0 and 1 is 5: not above
    (fired,) = run.firing("mine")
    assert fired.summary == "Mean of x over 2 steps is 9, above 5 for 2 steps"
    assert (fired.onset_step, fired.step) == (2, 4)
    assert (fired.severity.value, fired.labels) == ("critical", {"team": "a"})
    assert fired.diagnosis.cause == "Too high."
    assert fired.diagnosis.remedies[0].text == "Stop."
    assert fired.state is AlertState.FIRING
