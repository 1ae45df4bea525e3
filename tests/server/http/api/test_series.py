"""Data of a chart."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from tocsin_server.http.api.series import VITAL_SIGNS

NASTY = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1]


def unpacked(array: dict[str, str]) -> Any:
    return np.frombuffer(base64.b64decode(array["bdata"]), f"<{array['dtype']}")


def test_a_small_window_is_exact_to_the_bit(server: Any, trainer: Callable[..., Any]) -> None:
    """One item per record with its value as `first`; no min, max, mean or last."""
    run = trainer()
    run.records({"loss": NASTY})
    answer = server.get(f"/runs/{run.run}/series", names="loss")
    (layer,) = answer["series"]["loss"]
    assert (answer["level"], answer["first_step"], answer["last_step"]) == (0, 0, 5)
    assert layer["exact"]
    assert unpacked(layer["first"]).tobytes() == np.array(NASTY).tobytes()
    assert unpacked(layer["x"]).tolist() == [0, 1, 2, 3, 4, 5]
    assert not {"min", "max", "mean", "last"} & set(layer)


def test_a_large_window_loses_no_fault(server: Any, trainer: Callable[..., Any]) -> None:
    """Every spike and every non-finite value is in the buckets."""
    run = trainer()
    loss = [1.0] * 4000
    loss[100], loss[1000], loss[2000], loss[3000] = 1e6, math.nan, math.inf, -math.inf
    run.records({"loss": loss})
    answer = server.get(f"/runs/{run.run}/series", names="loss", buckets=50)
    (layer,) = answer["series"]["loss"]
    assert not layer["exact"]
    assert len(unpacked(layer["x"])) <= 2 * 50
    assert np.nanmax(unpacked(layer["max"])) == 1e6
    assert [unpacked(layer[kind]).sum() for kind in ("n", "nan", "pinf", "ninf")] == [4000, 1, 1, 1]


def test_charts_need_no_first_value_of_a_bucket(server: Any, trainer: Callable[..., Any]) -> None:
    """Exact values stay, because they are there."""
    run = trainer()
    run.records({"loss": [1.0] * 400})
    for buckets, there in ((50, False), (400, True)):
        reply = server.get(f"/runs/{run.run}/series", names="loss", buckets=buckets, chart=True)
        assert ("first" in reply["series"]["loss"][0]) is there


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.random.default_rng(1).normal(size=4000), "f4"),
        (1e9 + np.arange(4000) / 100, "f8"),
        (np.full(4000, 1e-4), "f8"),
        (np.full(4000, 65536.0), "f4"),
        (np.where(np.arange(4000) % 80, 1.0, 1e300), "f8"),
    ],
)
def test_a_chart_gets_32_bits_where_it_looks_the_same(
    values: Any, dtype: str, server: Any, trainer: Callable[..., Any]
) -> None:
    """The means change by less than 1/4096 of the range of their bucket; exact values stay."""
    run = trainer()
    run.records({"loss": values.tolist()})
    asked = {"names": "loss", "buckets": 50}
    exact, short = (
        server.get(f"/runs/{run.run}/series", **asked, chart=chart)["series"]["loss"][0]
        for chart in (False, True)
    )
    means = unpacked(exact["mean"])
    assert (exact["mean"]["dtype"], short["mean"]["dtype"], short["x"]["dtype"]) == ("f8", dtype, "f4")
    ranges = unpacked(exact["max"]) - unpacked(exact["min"])
    assert (np.abs(unpacked(short["mean"]) - means) <= ranges / 4096).all()


def test_a_chart_never_gets_a_zero_that_is_none(server: Any, trainer: Callable[..., Any]) -> None:
    """A logarithmic chart marks zeros, and 1e-50 would be one in 32 bits."""
    run = trainer()
    run.records({"loss": [1e-38, 1e-50] * 200})
    reply = server.get(f"/runs/{run.run}/series", names="loss", buckets=50, chart=True)
    assert (unpacked(reply["series"]["loss"][0]["min"]) == 1e-50).all()


def test_without_names_the_vital_signs_come(server: Any, trainer: Callable[..., Any]) -> None:
    """A series that the run does not have is returned without layers."""
    run = trainer()
    run.records({"loss": [1.0], "extra": [2.0]})
    series = server.get(f"/runs/{run.run}/series")["series"]
    assert list(series) == VITAL_SIGNS
    assert [len(series[name]) for name in VITAL_SIGNS] == [1, 0, 0, 0]


def test_a_window_by_time(server: Any, trainer: Callable[..., Any]) -> None:
    """With x=time the window and x are Unix ms."""
    run = trainer()
    run.records({"loss": [1.0, 2.0]})
    layer = server.get(f"/runs/{run.run}/series", names="loss", x="time")["series"]["loss"][0]
    now_ms = unpacked(layer["x"])[0]
    assert unpacked(layer["x"]).tolist() == unpacked(layer["t"]).tolist()
    later = server.get(f"/runs/{run.run}/series", names="loss", x="time", **{"from": now_ms + 1e6})
    assert all(len(unpacked(layer["x"])) == 0 for layer in later["series"]["loss"])


def test_the_cursor_moves_with_each_arrival(server: Any, trainer: Callable[..., Any]) -> None:
    """The live socket can continue from it."""
    run = trainer()
    run.records({"loss": [1.0]})
    before = server.get(f"/runs/{run.run}/series")["cursor"]
    run.records({"loss": [2.0]}, first_step=1)
    assert server.get(f"/runs/{run.run}/series")["cursor"] > before


@pytest.mark.parametrize(
    ("params", "subject"),
    [
        ({"buckets": 49}, "buckets"),
        ({"buckets": 8193}, "buckets"),
        ({"x": "tokens"}, "x"),
        ({"from": "nan"}, "from"),
    ],
)
def test_a_bad_parameter_is_named(server: Any, params: dict[str, Any], subject: str) -> None:
    """The response is a 422 with the name of the parameter."""
    answer = httpx.get(f"{server.base}/api/v1/runs/r/series", params=params, headers=server.headers)
    assert (answer.status_code, answer.json()["subject"]) == (422, subject)


def test_an_unknown_run_is_404(server: Any) -> None:
    """An unknown run gives 404 instead of an empty chart."""
    assert httpx.get(f"{server.base}/api/v1/runs/no/series", headers=server.headers).status_code == 404


def test_a_run_without_records_is_an_empty_chart(server: Any, trainer: Callable[..., Any]) -> None:
    """The run exists after its handshake."""
    answer = server.get(f"/runs/{trainer().run}/series")
    assert (answer["first_step"], answer["last_step"]) == (None, None)
