"""Compaction leaves time for commits, keeps up with a flood, and serves every writer."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin_server.store import compaction_schedule
from tocsin_server.store.chunks import RECORDS
from tocsin_server.store.compaction_schedule import LONGEST_SLICE_S, SLICE_S, Sealer, slice_s
from tocsin_server.store.writer_cache import WriterCache, WriterKey


@pytest.mark.parametrize(
    ("chunks", "expected"), [(1, SLICE_S), (4, SLICE_S), (8, 2 * SLICE_S), (10_000, LONGEST_SLICE_S)]
)
def test_the_slice_grows_with_the_longest_tail(chunks: int, expected: float) -> None:
    """Constant up to four chunks, then proportional, up to a limit on the delay of acks."""
    assert slice_s(chunks * RECORDS) == pytest.approx(expected)


class Engine:
    """An engine with empty transactions."""

    def begin(self) -> Engine:
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def sealing(monkeypatch: pytest.MonkeyPatch, unsealed: dict[WriterKey, int], work_s: float) -> list[str]:
    """Return the runs of which one slice seals a chunk, in order; each chunk takes ``work_s``."""
    sealed: list[str] = []
    clock = iter(range(1_000_000))

    def seal(_connection: Any, run_id: str, _writer_no: int) -> int:
        sealed.append(run_id)
        return RECORDS

    monkeypatch.setattr(compaction_schedule, "seal", seal)
    monkeypatch.setattr("time.monotonic", lambda: next(clock) * work_s)
    database: Any = type("Nothing", (), {"engine": Engine(), "reader": Engine()})()
    Sealer(database, WriterCache(unsealed=unsealed, surveyed=None)).work()
    return sealed


def test_the_longest_tail_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest writer with permanent work does not block the others."""
    unsealed = {("flood", 0): 2 * RECORDS, ("other", 0): 3 * RECORDS, ("short", 0): RECORDS - 1}
    assert sealing(monkeypatch, dict(unsealed), 1.0)[0] == "other"
    assert sealing(monkeypatch, dict(unsealed), 1e-9) == ["other", "other", "other", "flood", "flood"]


def test_a_slice_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if every writer has only one chunk."""
    many = {(f"r{no}", 0): RECORDS for no in range(1000)}
    assert 1 <= len(sealing(monkeypatch, many, SLICE_S / 5)) < 10
