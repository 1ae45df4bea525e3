"""The newest records of a run are in memory; a cursor that is too old is rejected."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.models import Column, RecordBatch, RunEvent, Writer
from tocsin_server.runs.recent_buffer import Item, Recent, size_of

WRITER = Writer("r", 0, 1, 0)


def item(arrival: int, n: int) -> Item:
    if not n:
        return RunEvent(WRITER, arrival, 0, "note", 0)
    step = np.arange(n, dtype=np.int64)
    return RecordBatch(WRITER, arrival, 0, n, step, step, {"loss": Column(np.zeros(n))})


@given(
    st.lists(st.integers(0, 50), max_size=40),
    st.integers(600, 5000),
    st.integers(-1, 40),
    st.integers(-1, 40),
)
def test_an_answer_is_complete_or_none(sizes: list[int], limit: int, after: int, upto: int) -> None:
    """Between two arrivals, the result has every item or is None; memory stays below the limit."""
    recent = Recent(limit, -1)
    for arrival, n in enumerate(sizes):
        recent.put(item(arrival, n))
    found = recent.between(after, upto)
    if found is None:
        assert after < recent.floor
    else:
        assert [one.arrival for one in found] == list(range(after + 1, min(upto, len(sizes) - 1) + 1))
    assert recent.bytes <= max(limit, *(size_of(item(0, n)) for n in [*sizes, 0]))


def test_what_came_before_the_start_is_not_at_hand() -> None:
    """After a restart, an older cursor needs a query."""
    recent = Recent(1000, last_arrival=7)
    assert recent.between(6, 7) is None
    assert recent.between(7, 7) == []
