"""Newest values are written once a second, and none is forgotten by a failed transaction."""

from __future__ import annotations

import math

from tests.server.store.conftest import batch
from tocsin_server.domain import Writer
from tocsin_server.store.latest import EVERY_S, Latest

WHO = Writer("r1", 0, 1, 0)
NUMBERS = {"loss": 16, "val": 17}


def test_the_last_value_of_each_series_waits() -> None:
    """A later batch replaces what waits; a series that some records lack keeps its own step."""
    latest = Latest()
    latest.take(batch(WHO, 0, [0, 1, 2], loss=[1, 2, 3], val=([1], [9.0])), NUMBERS, 10.0)
    latest.take(batch(WHO, 3, [3], loss=[4]), NUMBERS, 10.5)
    assert latest.due == 10.0 + EVERY_S
    assert [(row["seq"], row["step"], row["value"]) for row in latest.begin()] == [(3, 3, 4.0), (1, 1, 9.0)]
    assert latest.due == math.inf


def test_a_rollback_brings_them_back() -> None:
    """What was not committed is written again, newer values of the meantime before older ones."""
    latest = Latest()
    latest.take(batch(WHO, 0, [0], loss=[1], val=[5]), NUMBERS, 0.0)
    latest.begin()
    latest.take(batch(WHO, 1, [1], loss=[2]), NUMBERS, 1.0)
    latest.rolled_back(2.0)
    assert sorted(row["value"] for row in latest.begin()) == [2.0, 5.0]
    latest.committed()
    latest.rolled_back(3.0)
    assert latest.begin() == []
