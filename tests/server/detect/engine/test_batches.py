"""Findings do not depend on how records are split: any batches give those of one by one."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.matrix import ALL
from tocsin_server.core.models import Column, Finding, RecordBatch, Writer
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext

Record = tuple[int, dict[str, float]]
"""Step and values."""
Segment = tuple[Writer, list[Record]]
"""Records that one process sends in a row."""

STRETCHES: dict[str, tuple[int, dict[str, Any]]] = {
    "healthy": (90, {}),
    "long": (330, {}),
    "noisy": (60, {"noise": 0.6}),
    "climb": (60, {"growth": 1.04}),
    "lower": (40, {"factor": 0.2}),
    "higher": (40, {"factor": 3.0}),
    "negative": (30, {"loss": -1.0}),
    "zero loss": (20, {"loss": 0.0}),
    "spike": (3, {"loss": 40.0}),
    "rising norms": (8, {"norms": 4.0}),
    "nan": (45, {"loss": math.nan, "grad_norm": math.nan}),
    "inf": (2, {"loss": math.inf}),
    "overflow": (9, {"grad_norm": math.inf, "skipped": 1.0, "stepped": 0.0}),
    "ignored overflow": (30, {"grad_norm": math.nan}),
    "norm 0": (25, {"grad_norm": 0.0}),
    "norm absent": (12, {"grad_norm": None}),
    "loss absent": (12, {"loss": None}),
    "all absent": (2, {"loss": None, "grad_norm": None, "scale": None, "lr": None}),
    "validation": (1, {"val/acc": 0.5}),
    "term of the loss": (20, {"loss/kl": 1.0}),
    "micro-steps": (20, {"loss_n": 4.0, "loss_sum": 8.0}),
    "rewind": (1, {"back": 70}),
    "sparser": (40, {"apart": 50}),
    "attempt": (1, {"attempt": 1, "back": 20}),
    "rank": (60, {"rank": 1}),
    "other rank": (60, {"rank": 2}),
}
OWN = ("noise", "growth", "factor", "norms", "back", "apart", "attempt", "rank")


def segments_of(names: list[str], *, scaler: bool, seed: int) -> list[Segment]:
    """Return the records of a run that consists of the named stretches."""
    draw, step, attempt, level, scale, apart = random.Random(seed), 0, 1, 2.0, 65536.0, 1
    segments: list[Segment] = []
    for name in names:
        length, change = STRETCHES[name]
        step, attempt = max(0, step - change.get("back", 0)), attempt + change.get("attempt", 0)
        level, apart, norm = level * change.get("factor", 1.0), change.get("apart", apart), 1.0
        rank = change.get("rank", 0)
        first, records = step, list[Record]()
        for _ in range(length):
            level, norm = level * change.get("growth", 1.0), norm * change.get("norms", 1.0)
            noise = draw.gauss(0, change.get("noise", 0.03))
            values: dict[str, Any] = {
                "loss": level * (1 + noise), "grad_norm": norm * draw.lognormvariate(0, 0.3), "lr": 1e-3,
            }  # fmt: skip
            if scaler:
                values |= {"scale": scale, "skipped": 0.0, "stepped": 1.0}
            values |= {key: value for key, value in change.items() if key not in OWN}
            records.append((step, {key: value for key, value in values.items() if value is not None}))
            scale = scale / 2 if values.get("skipped") else scale
            step += apart
        segments.append((Writer("r_1", 10 * attempt + rank, attempt, rank), records))
        step = first if rank else step
    return segments


def batch_of(writer: Writer, records: list[Record], seq: int) -> RecordBatch:
    """Return one batch; a value that only some records have becomes a column with rows."""
    step = np.array([step for step, _ in records], dtype=np.int64)
    columns = {}
    for name in sorted({name for _, values in records for name in values}):
        rows = [row for row, (_, values) in enumerate(records) if name in values]
        at = None if len(rows) == len(records) else np.array(rows, dtype=np.uint32)
        columns[name] = Column(np.array([records[row][1][name] for row in rows]), at)
    return RecordBatch(writer, seq, seq, len(records), step, step * 10**9, columns)


def batches_of(segments: list[Segment], size: int) -> Iterator[RecordBatch]:
    """Yield the records in batches of at most ``size``."""
    seqs: dict[int, int] = {}
    for writer, records in segments:
        for start in range(0, len(records), size):
            part = records[start : start + size]
            seq = seqs.get(writer.writer_no, 0)
            seqs[writer.writer_no] = seq + len(part)
            yield batch_of(writer, part, seq)


def texts(findings: list[Finding]) -> list[str]:
    """Return findings as text, because NaN is not equal to itself."""
    return [repr(finding) for finding in findings]


def judged(segments: list[Segment], size: int) -> list[str]:
    """Return all findings about the records in batches of ``size``."""
    engine = Engine(RunContext(run_id="r_1"))
    return [text for batch in batches_of(segments, size) for text in texts(engine.observe(batch))]


runs = st.builds(
    segments_of,
    st.lists(st.sampled_from(sorted(STRETCHES)), min_size=1, max_size=9),
    scaler=st.booleans(),
    seed=st.integers(0, 3),
)
DIVERGED = segments_of(["healthy", "climb", "climb", "climb", "nan", "attempt", "long"], scaler=True, seed=1)
NEGATIVE = segments_of(["climb", "climb", "sparser", "noisy"], scaler=False, seed=1)
"""An open alert of a loss that gets negative in the first of two blocks of one batch."""
SHIFTED = segments_of(["long", "higher", "rising norms", "long", "lower", "long"], scaler=False, seed=2)


@settings(max_examples=25 if ALL else 10, deadline=None)
@given(runs, st.integers(2, 60))
@example(DIVERGED, 50)
@example(SHIFTED, 17)
@example(NEGATIVE, 50)
def test_any_split_gives_the_findings_of_one_by_one(segments: list[Segment], size: int) -> None:
    """Batches of two, of any size, or all at once: text, numbers, order and diagnosis are identical."""
    single = judged(segments, 1)
    assert all(judged(segments, split) == single for split in (2, size, 1 << 20))


@settings(max_examples=10 if ALL else 5, deadline=None)
@given(runs)
@example(DIVERGED)
def test_no_finding_waits_for_later_records(segments: list[Segment]) -> None:
    """An engine that is saved after every record, so that it keeps none back, finds the same at each."""
    saved, plain = Engine(RunContext(run_id="r_1")), Engine(RunContext(run_id="r_1"))
    for batch in batches_of(segments, 1):
        found = texts(saved.observe(batch))
        saved.save()
        assert texts(plain.observe(batch)) == found


@pytest.mark.parametrize("size", [1, 50])
def test_a_climb_during_the_warm_up_begins_where_the_norms_left(size: int) -> None:
    """The onset of grad-explosion is the lowest norm before the climb, not the first record."""
    segments = segments_of(["healthy"], scaler=False, seed=1)
    writer, records = segments[0]
    climb = [(step, values | {"grad_norm": 0.05 * 4.0 ** max(0, step - 40)}) for step, values in records[:47]]
    onsets = [text for text in judged([(writer, climb)], size) if "grad-explosion" in text]
    assert onsets
    assert "onset_step=40" in onsets[0]
