"""Custom rules over the records of a run: which series, which process, in any batches."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.models import Column, Finding, RecordBatch, RunEvent, Writer
from tocsin_server.detect.custom.batch_evaluator import MOST, BatchEvaluator
from tocsin_server.detect.custom.threshold import read_rule
from tocsin_server.detect.engine.engine import Engine
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.interface.similar_runs import SERVER

RULES: list[dict[str, Any]] = [
    {"id": "now", "series": "x*", "comparison": ">", "limit": 5, "for": "2 steps", "recover": 3},
    {"id": "kept", "series": "x", "comparison": "<", "limit": 2, "keep_firing_for": "3 s"},
    {"id": "mean", "series": "*", "reducer": "mean", "window": "4 steps", "comparison": ">=", "limit": 4},
    {"id": "long", "series": "x", "reducer": "max", "window": "900 steps", "comparison": ">", "limit": 8},
    {"id": "timed", "series": "y", "reducer": "change", "window": "7 s", "comparison": "<", "limit": -3},
    {"id": "bad", "series": "x", "reducer": "nonfinite", "window": "5 steps", "comparison": ">", "limit": 1},
    {"id": "gone", "series": "y", "reducer": "absent", "window": "3 steps", "for": "1 step"},
]
values = st.one_of(st.none(), st.integers(0, 10).map(float), st.sampled_from([math.nan, math.inf, -math.inf]))
records = st.lists(
    st.tuples(st.integers(-3, 4), st.sampled_from([0, 0, 0, 1]), values, values), min_size=1, max_size=60
)


def expand(drawn: list[tuple[int, int, Any, Any]]) -> list[tuple[int, int, dict[str, float]]]:
    """Return (attempt, step, values): steps that rise, and sometimes go back; new attempts."""
    step, attempt = 5, 1
    rows: list[tuple[int, int, dict[str, float]]] = []
    for gap, restart, x, y in drawn:
        step, attempt = max(0, step + (gap or 1)), attempt + restart * (len(rows) % 7 == 3)
        given = {"loss": 1.0, "x": x, "y": y}
        rows.append((attempt, step, {name: value for name, value in given.items() if value is not None}))
    return rows


def batch_of(rows: list[tuple[int, int, dict[str, float]]], seq: int) -> RecordBatch:
    steps = np.array([step for _, step, _ in rows], dtype=np.int64)
    columns = {}
    for name in ("loss", "x", "y"):
        at = [row for row, (_, _, held) in enumerate(rows) if name in held]
        if at:
            where = None if len(at) == len(rows) else np.array(at, dtype=np.uint32)
            columns[name] = Column(np.array([rows[row][2][name] for row in at]), where)
    writer = Writer("r", rows[0][0], rows[0][0], 0)
    return RecordBatch(writer, seq, seq, len(rows), steps, steps * 10**9, columns)


OTHERS: dict[str, Any] = {
    "rules": [RULES[0], {**RULES[1], "limit": 4}, {**RULES[2], "severity": "critical"}, RULES[6]],
    "builtin": {"loss-saturated": {"enabled": False}, "loss-spike": {"settings": {"window": 20}}},
}


def rules_event(plan: dict[str, Any]) -> RunEvent:
    return RunEvent(Writer("r", SERVER, 0, 0), 0, 0, "rules", 0, None, plan)


def findings_of(
    rows: list[Any], cuts: list[int], restore_at: int | None = None, change_at: int | None = None
) -> list[str]:
    """Return findings as text; from record ``change_at`` on, other rules apply."""
    engine, found = Engine(RunContext(run_id="r")), list[Finding]()
    engine.observe_event(rules_event({"rules": RULES}))
    discontinuities = [place for place in range(1, len(rows)) if rows[place][0] != rows[place - 1][0]]
    change = None if change_at is None else change_at % len(rows)
    edges = sorted({0, len(rows), *discontinuities, *(cut % len(rows) for cut in cuts), change or 0})
    for start, stop in itertools.pairwise(edges):
        if start == change:
            found += engine.observe_event(rules_event(OTHERS))
        found += engine.observe(batch_of(rows[start:stop], start))
        if restore_at is not None and start >= restore_at % len(rows):
            engine, restore_at = Engine.restore(RunContext(run_id="r"), engine.save()), None
    return [repr(finding) for finding in found]


@given(records.map(expand), st.lists(st.integers(0, 59), max_size=20))
def test_any_batching_gives_the_same_findings(rows: Any, cuts: Any) -> None:
    """One by one or in any batches, with discontinuities, restarts and NaN: exactly the same."""
    assert findings_of(rows, cuts) == findings_of(rows, list(range(len(rows))))


@given(records.map(expand), st.lists(st.integers(0, 59), max_size=20), st.integers(0, 59))
def test_a_snapshot_at_any_point_changes_no_finding(rows: Any, cuts: Any, restore_at: int) -> None:
    """Windows, waits, open episodes and the plan itself are in it."""
    assert findings_of(rows, cuts, restore_at) == findings_of(rows, cuts)


@given(records.map(expand), st.lists(st.integers(0, 59), max_size=9), st.integers(0, 59), st.integers(0, 59))
def test_a_change_of_rules_is_evaluated_equally_after_a_restore(
    rows: Any, cuts: Any, restore_at: int, change_at: int
) -> None:
    """Wherever it occurs, wherever the state was saved, and in any batches."""
    whole = findings_of(rows, cuts, None, change_at)
    assert findings_of(rows, cuts, restore_at, change_at) == whole
    assert findings_of(rows, list(range(len(rows))), None, change_at) == whole


def test_each_matching_series_has_its_own_alert(watch: Any) -> None:
    """A glob matches several names; the subject of each alert is the name."""
    run = watch()
    run.reported_by_server("rules", rules=[{"id": "a", "series": "val/*", "comparison": ">", "limit": 1}])
    run.records(loss=[1.0] * 3, more={"val/x": [0, 2, 2], "val/y": [2, 2, 2], "train/x": [2, 2, 2]})
    assert [(item.subject, item.step) for item in run.firing("a")] == [("val/y", 0), ("val/x", 1)]


def test_all_ranks_share_one_alert(watch: Any) -> None:
    """It resolves when the condition ends on the last of them."""
    run = watch()
    run.reported_by_server("rules", rules=[{"id": "a", "series": "x", "comparison": ">", "limit": 1}])
    for rank in (0, 1):
        run.records(loss=[1.0] * 2, x=[2, 2], rank=rank)
    run.records(loss=[1.0], x=[0], start=2, rank=0)
    assert run.states("a") == ["firing"]
    run.records(loss=[1.0], x=[0], start=2, rank=1)
    assert run.states("a") == ["firing", "resolved"]


def test_a_restart_keeps_the_open_alert(watch: Any) -> None:
    """It resolves by the values of the new attempt."""
    run = watch()
    run.reported_by_server("rules", rules=[{"id": "a", "series": "x", "comparison": ">", "limit": 1}])
    run.records(loss=[1.0] * 2, x=[2, 2])
    run.records(loss=[1.0] * 3, x=[2, 2, 0], attempt=2)
    assert [(item.state.value, item.onset_step) for item in run.findings if item.rule == "a"] == [
        ("firing", 0), ("resolved", 0)
    ]  # fmt: skip


def test_absence_is_that_of_every_process(watch: Any) -> None:
    """Only rank 0 sends evaluations: they are not absent on the others."""
    run = watch(size=1)
    rule = {"id": "a", "series": "val/*", "reducer": "absent", "window": "10 steps"}
    run.reported_by_server("rules", rules=[rule])
    for start in range(0, 40, 8):
        run.records(loss=[1.0] * 8, start=start, more={"val/x": [1.0, *[None] * 7]})
        run.records(loss=[1.0] * 8, start=start, rank=1)
    assert run.firing("a") == []
    run.records(loss=[1.0] * 20, start=40)
    assert [(item.step, item.subject) for item in run.firing("a")] == [(43, "val/*")]
    run.records(loss=[1.0], start=60, more={"val/y": [math.nan]})
    assert run.states("a") == ["firing", "resolved"]


def test_a_series_without_any_value_is_absent(watch: Any) -> None:
    """Counted from the first record; without any records, nothing is evaluated."""
    run = watch()
    run.reported_by_server("rules", rules=[{"id": "a", "series": "x", "reducer": "absent", "window": "10 s"}])
    run.records(loss=[1.0] * 30, start=100)
    assert [item.step for item in run.firing("a")] == [111]


def test_the_end_of_a_run_closes_its_episodes(watch: Any) -> None:
    """A resumed attempt is evaluated from scratch."""
    run = watch()
    run.reported_by_server("rules", rules=[{"id": "a", "series": "x", "comparison": ">", "limit": 1}])
    run.records(loss=[1.0], x=[2])
    run.event("finish", run_ended=True)
    run.records(loss=[1.0], x=[2], attempt=2)
    assert len(run.firing("a")) == 2


def test_rules_watch_a_bounded_number_of_series() -> None:
    """Series above the limit are not evaluated; memory stays bounded."""
    watched = BatchEvaluator([read_rule({"id": "a", "series": "*", "comparison": ">", "limit": 1})])
    columns = {f"s{n}": Column(np.array([2.0])) for n in range(MOST + 50)}
    steps = np.array([0], dtype=np.int64)
    for n in range(3):
        batch = RecordBatch(Writer("r", 1, 1, 0), n, n, 1, steps + n, steps, columns)
        assert len(watched.take(batch)) == (MOST if n == 0 else 0)
    assert len(watched.evaluators) == MOST
