"""Tests of blocks: what slow rules see does not depend on how records arrived."""

from __future__ import annotations

import itertools

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.detect.interface.blocks import PACE, Block, SavedBlock
from tocsin_server.detect.interface.view import View

COUNT = 100


def view(start: int, stop: int) -> View:
    steps = list(range(start, stop))
    made = View(range(len(steps)), steps, steps, {"loss": [float(step) for step in steps]}, first=start)
    made.overflows = [(step - start, 1, step) for step in steps if step % 7 == 0]
    return made


def taken(cuts: list[int], *, saved: bool = False) -> list[tuple[int, int, float | None, int]]:
    """Return (step, step of its result, loss, overflows) of all records, given in parts cut at ``cuts``."""
    block, out = Block(), []
    edges = sorted({0, COUNT, *cuts})
    for start, stop in itertools.pairwise(edges):
        full = block.take(view(start, stop))
        if saved:
            block = Block.load(msgspec.msgpack.decode(msgspec.msgpack.encode(block.save()), type=SavedBlock))
        if full is None:
            continue
        bad = {row for row, _, _ in full.overflows}
        out += [
            (full.step[row], start + full.rows[row], (full.loss or [])[row], int(row in bad))
            for row in range(full.n)
        ]
    return out


@given(st.lists(st.integers(1, COUNT - 1), max_size=20), st.booleans())
def test_any_cut_gives_the_same_blocks(cuts: list[int], saved: bool) -> None:
    """The same values, overflows and result rows, with or without a snapshot after each part."""
    assert taken(cuts, saved=saved) == taken(list(range(COUNT)))


def test_results_are_reported_at_the_end_of_a_block() -> None:
    """At most sixteen records later."""
    assert {reported for _, reported, _, _ in taken([])} == set(range(PACE - 1, COUNT, PACE))


def test_remaining_records_are_evaluated_at_the_end() -> None:
    """The run ends within a block."""
    block = Block()
    block.take(view(0, 20))
    rest = block.flush()
    assert rest is not None
    assert rest.step == [16, 17, 18, 19]
    assert block.flush() is None
