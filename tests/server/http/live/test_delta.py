"""A delta writes each value exactly once, by series and layer."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np

from tocsin_server.core.models import Column, RecordBatch, RunEvent, Writer
from tocsin_server.http.live.delta import Delta


def batch(arrival: int, steps: list[int], *, rank: int = 0, **columns: Column) -> RecordBatch:
    step = np.array(steps, np.int64)
    return RecordBatch(Writer("r", rank, 1, rank), arrival, 0, len(steps), step, step * 10**9, columns)


def floats(packed: dict[str, str]) -> list[float]:
    assert packed["dtype"] == "f8"
    return list(np.frombuffer(base64.b64decode(packed["bdata"]), "<f8").tolist())


def layers_of(delta: Delta, names: list[str] | None = None) -> dict[str, Any]:
    return json.loads(delta.series(names))  # type: ignore[no-any-return]


def test_batches_of_a_layer_are_joined() -> None:
    """Values of one attempt and rank are one stretch, in order of arrival, exact."""
    first, second = Column(np.array([1.0, math.nan])), Column(np.array([-0.0]), np.array([1], np.uint32))
    layer = layers_of(Delta([batch(0, [0, 1], loss=first), batch(1, [2, 3], loss=second)]))["loss"]
    assert len(layer) == 1
    assert (layer[0]["attempt"], layer[0]["rank"]) == (1, 0)
    assert floats(layer[0]["x"]) == [0.0, 1.0, 3.0]
    assert floats(layer[0]["t"]) == [0.0, 1000.0, 3000.0]
    assert base64.b64decode(layer[0]["first"]["bdata"]) == np.array([1.0, math.nan, -0.0]).tobytes()


def test_ranks_stay_apart() -> None:
    """Two ranks are two layers of the same series."""
    one = Column(np.array([1.0]))
    layers = layers_of(Delta([batch(0, [0], loss=one), batch(1, [0], rank=1, loss=one)]))["loss"]
    assert [layer["rank"] for layer in layers] == [0, 1]


def test_only_the_asked_series_are_written() -> None:
    """A page gets the series that it shows, or all of them if it names none."""
    one = Column(np.array([1.0]))
    delta = Delta([batch(0, [0], loss=one, lr=one)])
    assert list(layers_of(delta, ["lr", "absent"])) == ["lr"]
    assert list(layers_of(delta)) == ["loss", "lr"]


def test_a_name_with_quotes_stays_json() -> None:
    """External names cannot break the message."""
    named = {'a"},{"b': Column(np.array([1.0]))}
    assert list(layers_of(Delta([replace(batch(0, [0]), columns=named)]))) == list(named)


def test_events_are_written_as_the_api_writes_them() -> None:
    """An event keeps its kind, step and data, non-finite numbers by name."""
    event = RunEvent(Writer("r", 2, 1, 0), 0, 5, "scaler", 3_000_000, 7, {"to": math.inf})
    assert json.loads(Delta([event]).events()) == [
        {
            "id": "2.5",
            "kind": "scaler",
            "step": 7,
            "time_ms": 3,
            "attempt": 1,
            "rank": 0,
            "data": {"to": "Infinity"},
        }
    ]
