"""The engine is a pure function of the records, for any batches, ranks and restarts."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tocsin_server.core.models import AlertState, Column, Finding, RecordBatch, Writer
from tocsin_server.detect.engine.engine import Engine, EngineStateError, catalogue
from tocsin_server.detect.engine.state_codec import CHECKED
from tocsin_server.detect.interface.context import RunContext
from tocsin_server.detect.rules.gradient import zero_grad_norm

Record = dict[str, float]


def healthy(draw: random.Random, level: float = 2.0) -> Record:
    return {"loss": level * (1 + draw.gauss(0, 0.02)), "grad_norm": draw.lognormvariate(0, 0.3), "lr": 1e-3,
            "scale": 65536.0, "skipped": 0.0, "stepped": 1.0}  # fmt: skip


PIECES: dict[str, tuple[int, dict[str, Any]]] = {
    "healthy": (30, {}),
    "calm": (160, {}),
    "nan": (2, {"loss": math.nan, "grad_norm": math.nan}),
    "overflow": (7, {"grad_norm": math.inf, "skipped": 1.0}),
    "abandoned": (5, {"grad_norm": math.inf, "stepped": 0.0}),
    "spike": (4, {"loss": 11.0}),
    "no-rate": (25, {"lr": 0.0}),
    "no-norm": (25, {"grad_norm": 0.0}),
    "sparse": (10, {"grad_norm": None, "scale": None}),
    "rewind": (1, {"rewind": 40}),
    "restart": (1, {"attempt": 1}),
    "micro": (20, {"loss_n": 4.0, "loss_sum": 8.0, "grad_norm": 4.0}),
    "short": (2, {"loss_n": 2.0, "loss_sum": 4.0}),
    "single": (20, {"loss_n": 1.0}),
}


def expand(names: list[str]) -> list[tuple[int, int, Record]]:
    """Return (attempt, step, values) of a run made of the named pieces, with a scale that follows its
    overflows."""
    draw, step, attempt, scale = random.Random(5), 0, 1, 65536.0
    records = []
    for name in names:
        count, change = PIECES[name]
        step, attempt = max(0, step - change.get("rewind", 0)), attempt + change.get("attempt", 0)
        for _ in range(count):
            values = {**healthy(draw), "scale": scale, **change}
            series = {key: value for key, value in values.items() if key not in ("rewind", "attempt")}
            records.append(
                (attempt, step, {key: value for key, value in series.items() if value is not None})
            )
            scale = scale / 2 if series["skipped"] else scale
            step += 1
    return records


def batch_of(records: list[tuple[int, int, Record]], seq: int) -> RecordBatch:
    steps = np.array([step for _, step, _ in records], dtype=np.int64)
    columns = {}
    for name in sorted({name for _, _, values in records for name in values}):
        rows = [row for row, (_, _, values) in enumerate(records) if name in values]
        at = None if len(rows) == len(records) else np.array(rows, dtype=np.uint32)
        columns[name] = Column(np.array([records[row][2][name] for row in rows]), at)
    writer = Writer("r_1", records[0][0], records[0][0], 0)
    return RecordBatch(writer, seq, seq, len(records), steps, steps * 10**9, columns)


def findings_of(
    records: list[tuple[int, int, Record]], cuts: list[int], restore_at: int | None = None
) -> list[str]:
    """Return findings as text (NaN is not equal to itself), in batches cut at ``cuts`` and at new
    attempts."""
    engine, findings = Engine(RunContext(run_id="r_1")), list[Finding]()
    discontinuities = [
        index for index in range(1, len(records)) if records[index][0] != records[index - 1][0]
    ]
    edges = sorted({0, len(records), *discontinuities, *(cut % len(records) for cut in cuts)})
    for start, stop in itertools.pairwise(edges):
        findings += engine.observe(batch_of(records[start:stop], start))
        if restore_at is not None and start >= restore_at % len(records):
            engine, restore_at = Engine.restore(RunContext(run_id="r_1"), engine.save()), None
    return [repr(finding) for finding in findings]


runs = st.lists(st.sampled_from(sorted(PIECES)), min_size=1, max_size=9).map(expand)
cuts = st.lists(st.integers(0, 2000), max_size=30)


@settings(max_examples=40, deadline=None)
@given(runs, cuts)
@example(expand(["healthy", "spike", "spike", "calm"]), [])
@example(expand(["abandoned", "restart", "nan", "overflow", "calm"]), [])
def test_any_batching_gives_the_same_findings(records: Any, cuts: Any) -> None:
    """Records one by one, or in any batches: exactly the same."""
    assert findings_of(records, cuts) == findings_of(records, list(range(len(records))))


@settings(max_examples=40, deadline=None)
@given(runs, cuts, st.integers(0, 2000))
def test_a_snapshot_at_any_point_changes_no_finding(records: Any, cuts: Any, restore_at: Any) -> None:
    """Saved and restored after any batch, the engine continues with the same findings."""
    assert findings_of(records, cuts, restore_at) == findings_of(records, cuts)


@settings(max_examples=40, deadline=None)
@given(runs)
def test_an_episode_begins_once_and_ends_once(records: Any) -> None:
    """Per rule and subject: a resolved episode is followed by a new one; severity never decreases."""
    engine, last = Engine(RunContext()), dict[str, Finding]()
    for index, record in enumerate(records):
        for finding in engine.observe(batch_of([record], index)):
            key = finding.rule + finding.subject
            before = last.get(key)
            fresh = before is None or before.state is AlertState.RESOLVED
            assert finding.state in (AlertState.PENDING, AlertState.FIRING) if fresh else True
            assert fresh or before is None or finding.severity.level >= before.severity.level
            assert finding.onset_step is not None
            last[key] = finding


def test_a_damaged_snapshot_is_rejected() -> None:
    """Any changed byte is detected, even if the result is valid msgpack; so is an unknown field."""
    body = Engine(RunContext()).save()
    for place in range(1, len(body)):
        with pytest.raises(EngineStateError):
            Engine.restore(RunContext(), body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :])
    reported = msgspec.msgpack.decode(body[CHECKED:])
    for member in ("learned", "run_rules"):
        with pytest.raises(EngineStateError):
            Engine.restore(RunContext(), msgspec.msgpack.encode(reported | {member: {"metrics": True}}))


def test_a_snapshot_of_another_version_is_rejected() -> None:
    """An unreadable state is reported, not guessed."""
    with pytest.raises(EngineStateError, match="expected a snapshot of version"):
        Engine.restore(RunContext(), b"\x93\x01\x02\x03")


def test_a_restart_continues_the_episode(watch: Any) -> None:
    """An alert open at a restart is the same alert after it, and resolves by the values of the new
    attempt."""
    run = watch()
    run.records(loss=[1.0] * 20 + [math.nan] * 5)
    run.records(loss=[math.nan] + [1.0] * 60, attempt=2, start=10)
    assert run.states("nonfinite-loss") == ["firing", "recovering", "resolved"]


def test_statistics_do_not_cross_a_restart(watch: Any) -> None:
    """A new attempt starts with a separate warm-up, at any level of its loss."""
    run = watch()
    run.records(loss=[1.0 + 0.01 * (step % 5) for step in range(200)])
    run.records(loss=[5.0 + 0.05 * (step % 5) for step in range(200)], attempt=2, start=100)
    assert run.alarms == []


def test_statistics_do_not_cross_a_rewind(watch: Any) -> None:
    """If steps go back within one process, that is a discontinuity too."""
    run = watch()
    steps = [*range(200), *range(100, 300)]
    levels = [1.0] * 200 + [5.0] * 200
    run.records(steps=steps, loss=[level + 0.01 * (row % 5) for row, level in enumerate(levels)])
    assert run.alarms == []


def test_ranks_join_into_one_alert(watch: Any) -> None:
    """Four ranks have the same NaN: one episode, which ends when the last of them is finite."""
    run = watch(size=10)
    for rank in range(4):
        run.records(rank=rank, loss=[1.0] * 9 + [math.nan])
    assert run.states("nonfinite-loss") == ["firing"]
    for rank in range(4):
        run.records(rank=rank, start=10, loss=[1.0] * 60)
    assert run.states("nonfinite-loss")[-1] == "resolved"


def test_optimizers_have_separate_subjects(watch: Any) -> None:
    """The discriminator's NaN is not the generator's."""
    run = watch()
    run.records(loss=[1.0] * 10, more={"loss/D": [0.5] * 9 + [math.nan]})
    assert [finding.subject for finding in run.firing("nonfinite-loss")] == ["loss/D"]


def test_settings_replace_defaults() -> None:
    """A rule gets other settings by its identifier: five zeros are enough here."""
    engine = Engine(RunContext(), {"zero-grad-norm": zero_grad_norm.Settings(zero_records=5)})
    records = [(1, step, {"loss": 1.0, "grad_norm": 0.0}) for step in range(6)]
    assert engine.observe(batch_of(records, 0))[0].step == 4


def test_every_rule_describes_itself() -> None:
    """Identifier, title, clock, severity, doc, and a unit and meaning for each setting."""
    rules = catalogue()
    assert len({rule.id for rule in rules}) == len(rules) >= 12
    for rule in rules:
        assert rule.title
        assert rule.clock in ("steps", "time")
        assert rule.doc == f"reference/rules/{rule.id}/"
        assert all(setting.help and setting.unit is not None for setting in rule.settings)


def test_extra_metrics_of_the_script_are_ignored(watch: Any) -> None:
    """``fft_loss`` and ``train/loss`` are not signals of a stream."""
    run = watch()
    run.records(loss=[1.0] * 60, more={"fft_loss": [math.nan] * 60, "train/loss": [math.inf] * 60})
    assert run.findings == []
