"""Groups of runs as one line each."""

from __future__ import annotations

import math
import time
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
    assert (answer["first"], answer["last"]) == (0, 1)
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


@pytest.mark.parametrize("axis", ["relative", "wall"])
def test_runs_are_aggregated_over_time(axis: str, server: Any, trainer: Callable[..., Trainer]) -> None:
    """Runs that began at different times coincide in the time since their first record, not by the clock."""
    runs, began = [trainer() for _ in range(2)], (time.time_ns() // 10**9 - 7200) * 10**9
    for run, hours in zip(runs, (0, 1), strict=True):
        times_ns = [began + (hours * 3600 + second) * 10**9 for second in range(3)]
        run.records({"loss": [1.0, 2.0, 3.0]}, times_ns=times_ns)
    asked = {"groups": [[run.run for run in runs]], "names": ["loss"], "buckets": 50, "x": axis}
    answer = groups(server, **asked)
    found = columns(answer["groups"][0]["series"]["loss"])
    first, last = answer["first"], answer["last"]
    took, clocks_differ = {"relative": (2000, 0.01), "wall": (3602_000, 1000)}[axis]
    assert last - first == pytest.approx(took, abs=clocks_differ)
    assert sum(found["n"]) == {"relative": 6, "wall": 2}[axis]
    zoomed = groups(server, **asked, **{"from": first, "to": first + 1000})["groups"][0]["series"]["loss"]
    assert columns(zoomed)["mean"] == [1, 2]


def test_runs_are_aggregated_over_a_metric(server: Any, trainer: Callable[..., Trainer]) -> None:
    """Each record is at the last known value of the metric; a run without it is nowhere."""
    counted, other = trainer(), trainer()
    counted.records({"loss": [9.0, 1.0, 2.0, 3.0], "tokens": [None, 10.0, None, 20.0]})
    other.records({"loss": [5.0]})
    asked = {"groups": [[counted.run, other.run]], "names": ["loss"], "buckets": 50, "x": "metric:tokens"}
    answer = groups(server, **asked)
    found = columns(answer["groups"][0]["series"]["loss"])
    assert (answer["first"], answer["last"], answer["groups"][0]["runs"]) == (10, 20, 2)
    assert (found["x"], found["mean"], found["min"]) == ([10, 20], [1.5, 3], [1, 3])
    zoomed = groups(server, **asked, **{"from": 15, "to": 25})["groups"][0]["series"]["loss"]
    assert columns(zoomed)["mean"] == [3]


def test_runs_without_records_have_no_steps(server: Any, trainer: Callable[..., Trainer]) -> None:
    """They are counted, and no run has the series."""
    answer = groups(server, groups=[[trainer().run]], names=["loss"])
    assert (answer["first"], answer["last"], answer["groups"][0]["runs"]) == (None, None, 1)
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
