"""Groups of runs as one line each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.server.http.api.conftest import Trainer
from tests.server.http.api.test_every_route import strict
from tests.server.http.api.test_series import unpacked


def groups(server: Any, **asked: Any) -> Any:
    """Return the answer for some groups."""
    answer = post(server, **asked)
    assert answer.status_code == 200, answer.text
    return strict(answer.text)


def post(server: Any, **asked: Any) -> httpx.Response:
    """Send the request."""
    address = f"{server.base}/api/v1/compare/groups"
    return httpx.post(address, headers=server.headers, json=asked, timeout=60)


def columns(series: dict[str, Any]) -> dict[str, list[float]]:
    """Return the columns of a series of a group."""
    return {name: unpacked(value).tolist() for name, value in series.items() if "bdata" in str(value)}


def test_a_group_is_the_mean_of_its_runs(server: Any, trainer: Callable[..., Trainer]) -> None:
    """One group of two runs and one of another; a NaN is counted, and not averaged."""
    runs = [trainer() for _ in range(3)]
    for run, loss in zip(runs, ([1.0, 2.0], [3.0, math.nan], [7.0, math.inf]), strict=True):
        run.records({"loss": loss})
    asked = [[runs[0].run, runs[1].run, "no-such-run"], [runs[2].run]]
    answer = groups(server, groups=asked, names=["loss", "absent"], buckets=50)
    two, one = answer["groups"]
    assert (answer["first_step"], answer["last_step"]) == (0, 1)
    assert [(group["runs"], group["missing"], group["damaged"]) for group in (two, one)] == [
        (2, 1, 0),
        (1, 0, 0),
    ]
    found = columns(two["series"]["loss"])
    assert [found[name] for name in ("x", "n", "mean", "min", "max", "nan")] == [
        [0, 1],
        [2, 1],
        [2.0, 2.0],
        [1.0, 2.0],
        [3.0, 2.0],
        [0, 1],
    ]
    assert found["std"] == [pytest.approx(math.sqrt(2)), 0]
    assert two["series"]["loss"]["newest"] == {"n": 1, "mean": 2.0, "std": 0.0, "nonfinite": 1}
    assert one["series"]["loss"]["newest"] == {"n": 0, "mean": None, "std": None, "nonfinite": 1}
    assert columns(one["series"]["loss"])["pinf"] == [0, 1]
    assert two["series"]["absent"]["runs"] == 0


def test_a_window_has_only_its_steps(server: Any, trainer: Callable[..., Trainer]) -> None:
    """The buckets span the window, and values outside are not in it."""
    run = trainer()
    run.records({"loss": [float(step) for step in range(200)]})
    answer = groups(server, groups=[[run.run]], names=["loss"], buckets=50, **{"from": 100, "to": 149})
    found = columns(answer["groups"][0]["series"]["loss"])
    assert found["x"] == found["mean"] == [float(step) for step in range(100, 150)]


def test_runs_without_records_have_no_steps(server: Any, trainer: Callable[..., Trainer]) -> None:
    """They are counted, and no run has the series."""
    answer = groups(server, groups=[[trainer().run]], names=["loss"])
    assert (answer["first_step"], answer["last_step"], answer["groups"][0]["runs"]) == (None, None, 1)
    assert answer["groups"][0]["series"]["loss"]["runs"] == 0


@pytest.mark.parametrize(
    "asked",
    [
        {"groups": [], "names": ["loss"]},
        {"groups": [["a"] * 6000, ["b"] * 6000], "names": ["loss"]},
        {"groups": [["a"]] * 500, "names": ["loss"], "buckets": 1000},
        {"groups": [["a"]], "names": []},
    ],
)
def test_limits_are_clear_errors(server: Any, asked: dict[str, Any]) -> None:
    """No group, too many runs, too many values, and no series are 422 problems."""
    answer = post(server, **asked)
    assert (answer.status_code, bool(answer.json()["detail"])) == (422, True)
