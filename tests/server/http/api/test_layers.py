"""Gradient norms by layer and step."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

NAN, INF = math.nan, math.inf


def _packed(norms: Sequence[float]) -> dict[str, str]:
    return {"dtype": "f4", "bdata": base64.b64encode(np.array(norms, "<f4").tobytes()).decode()}


def _matrix(answer: dict[str, Any]) -> list[list[float]]:
    norms = answer["norms"]
    shape = [int(part) for part in norms["shape"].split(",")]
    rows: list[list[float]] = np.frombuffer(base64.b64decode(norms["bdata"]), "<f4").reshape(shape).tolist()
    return rows


@pytest.fixture
def with_layers(trainer: Callable[..., Any]) -> Any:
    """A run that reported the norms of its layers at three steps, the last with different parameters."""
    run = trainer()
    run.event("layer-names", step=0, series="", table=0, names=["a", "b"], parameters=[1, 2])
    run.event("layers", step=0, series="", table=0, why="sample", source="own", norms=_packed([1, 2]))
    run.event("layers", step=9, series="", table=0, why="nonfinite", source="own", norms=_packed([NAN, INF]))
    run.event("layer-names", step=12, series="", table=1, names=["b", "c"], parameters=[2, 1])
    run.event("layers", step=12, series="", table=1, why="sample", source="own", norms=_packed([3, 4]))
    run.event("layers", step=13, series="", table=7, why="sample", norms=_packed([3, 4]))
    return run


def test_layers_are_rows_and_steps_are_columns(server: Any, with_layers: Any) -> None:
    """Names of all tables; -1 if a layer had no gradient; NaN and infinities unchanged."""
    answer = server.get(f"/runs/{with_layers.run}/layers")
    assert (answer["layers"], answer["parameters"]) == (["a", "b", "c"], [1, 2, 1])
    assert (answer["steps"], answer["why"]) == ([0, 9, 12], ["sample", "nonfinite", "sample"])
    rows = _matrix(answer)
    assert str(rows) == str([[1.0, NAN, -1.0], [2.0, INF, 3.0], [-1.0, -1.0, 4.0]])
    assert (answer["all_series"], answer["truncated"]) == ([""], False)


def test_a_window_and_a_limit_choose_columns(server: Any, with_layers: Any) -> None:
    """Both ends are included; above the limit the newest are returned, and the response says so."""
    path = f"/runs/{with_layers.run}/layers"
    assert server.get(path, **{"from": 9, "to": 12})["steps"] == [9, 12]
    newest = server.get(path, limit=1)
    assert (newest["steps"], newest["truncated"]) == ([12], True)
    assert server.get(path, series="D")["steps"] == []


def test_nonsense_of_a_script_breaks_nothing(server: Any, trainer: Callable[..., Any]) -> None:
    """Custom events of these kinds are left out."""
    run = trainer()
    run.event("layer-names", step=0, names="abc", table=[], parameters={})
    run.event("layers", norms={"dtype": "f4", "bdata": "!"}, series=3)
    run.event("layers", step=1)
    answer = server.get(f"/runs/{run.run}/layers")
    assert (answer["layers"], answer["steps"], _matrix(answer)) == ([], [], [])
