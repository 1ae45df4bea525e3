"""Buffer records into blocks for rules that need hundreds of records and need not run at each one.

A block ends after every ``PACE``-th record since the stream started or since its last discontinuity, however
the records were batched, and its results are attributed to its last record. This reduces cost, and the
results do not depend on how records arrived. Records left over at a discontinuity are not checked; those left
over at the end of the run are.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tocsin_server.detect.interface.context import ScalerSettings
from tocsin_server.detect.interface.view import DEFAULT_SCALER, Values, View

PACE = 16
"""Records per block, which is also the maximum delay of a result in records."""


class SavedBlock(msgspec.Struct):
    """The waiting records, in a snapshot."""

    step: list[int] = []
    time_ns: list[int] = []
    columns: dict[str, Values] = {}
    first: int = 0
    first_step: int = 0
    before: tuple[int, int] | None = None
    scaled: int = 0
    scaler: ScalerSettings = DEFAULT_SCALER
    overflows: list[tuple[int, int, int]] = []
    moves: list[tuple[int, float, float]] = []


class Block:
    """The records of one stream since its last full block."""

    def __init__(self) -> None:
        self.parts: list[View] = []
        self.n = 0

    def take(self, part: View) -> View | None:
        """Add records; return the full blocks as one view, whose rows are the last row of each block."""
        have = self.n + part.n
        if have < PACE:
            self.parts.append(part)
            self.n = have
            return None
        full, held = have - have % PACE, self.n
        rows = [part.rows[end - held] for end in range(PACE - 1, full, PACE) for _ in range(PACE)]
        rest = full - held
        whole = rest == part.n
        merged = merge([*self.parts, part], rows)
        self.parts = [] if whole else [part.part(rest, part.n)]
        self.n = have - full
        return merged

    def flush(self) -> View | None:
        """Return and clear the remaining records; their rows are 0."""
        parts, n = self.parts, self.n
        self.parts, self.n = [], 0
        return merge(parts, [0] * n) if parts else None

    def save(self) -> SavedBlock:
        """Return the waiting records as plain data."""
        if not self.parts:
            return SavedBlock()
        view = merge(self.parts, [0] * self.n)
        return SavedBlock(
            view.step, view.time_ns, dict(view.bases), view.first, view.first_step, view.before,
            view.scaled, view.scaler, list(view.overflows), list(view.moves),
        )  # fmt: skip

    @classmethod
    def load(cls, saved: SavedBlock) -> Block:
        """Restore a block from a snapshot."""
        block = cls()
        if saved.step:
            rows = range(len(saved.step))
            view = View(rows, saved.step, saved.time_ns, saved.columns,
                        first=saved.first, first_step=saved.first_step)  # fmt: skip
            view.before, view.scaled, view.scaler = saved.before, saved.scaled, saved.scaler
            view.overflows, view.moves = saved.overflows, saved.moves
            block.parts, block.n = [view], view.n
        return block


def merge(parts: Sequence[View], rows: list[int]) -> View:
    """Merge consecutive views into one with the batch rows ``rows``; records beyond these are left out."""
    first, n = parts[0], len(rows)
    if len(parts) == 1 and first.n == n:
        merged = View(rows, first.step, first.time_ns, dict(first.bases),
                      first=first.first, first_step=first.first_step)  # fmt: skip
        merged.before, merged.scaled, merged.scaler = first.before, first.scaled, first.scaler
        merged.overflows, merged.moves = first.overflows, first.moves
        return merged
    step: list[int] = []
    time_ns: list[int] = []
    for part in parts:
        step += part.step
        time_ns += part.time_ns
    columns = _columns(parts)
    del step[n:], time_ns[n:]
    for column in columns.values():
        del column[n:]
    merged = View(rows, step, time_ns, columns, first=first.first, first_step=first.first_step)
    merged.before = first.before
    _merge_track(merged, parts)
    return merged


def _columns(parts: Sequence[View]) -> dict[str, Values]:
    names: dict[str, None] = {}
    for part in parts:
        if part.bases.keys() != names.keys():
            names.update(dict.fromkeys(part.bases))
    columns: dict[str, Values] = {name: [] for name in names}
    for part in parts:
        bases = part.bases
        for name, column in columns.items():
            column += bases[name] if name in bases else [None] * part.n
    return columns


def _merge_track(merged: View, parts: Sequence[View]) -> None:
    """Merge the scaler's changes, by rows of the merged view."""
    at, scaled = 0, None
    overflows: list[tuple[int, int, int]] = []
    moves: list[tuple[int, float, float]] = []
    for part in parts:
        if scaled is None and part.scaled < part.n:
            scaled = at + part.scaled
        if part.overflows:
            overflows += [(at + row, times, step) for row, times, step in part.overflows]
        if part.moves:
            moves += [(at + row, before, after) for row, before, after in part.moves]
        at += part.n
    merged.scaled = merged.n if scaled is None else min(scaled, merged.n)
    merged.scaler = parts[-1].scaler
    merged.overflows = [each for each in overflows if each[0] < merged.n]
    merged.moves = [each for each in moves if each[0] < merged.n]
