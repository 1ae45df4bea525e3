"""The counting of the detection benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.bench_detection import (
    LabelledLog,
    apart,
    delay_of,
    lead_of,
    onset_of,
    outcome_of,
    outcomes,
    read,
    ruin_of,
)
from tocsin_server.core.models import Severity


def test_the_onset_is_the_first_number_of_the_label() -> None:
    """A range of steps or a dash gives no onset."""
    steps = [0, 100, 200, 300]
    assert onset_of(steps, "steps 150, 300 (2.07 -> 55)") == 2
    assert onset_of(steps, "between step 100 and 300") is None
    assert onset_of(steps, "-") is None


def test_alarms_near_each_other_are_one() -> None:
    """Fifty records without an alarm end an episode; the onset begins a new one."""
    rows = list(range(200))
    assert apart([3, 10, 59, 109], LabelledLog("a", False), rows) == [3, 109]
    assert apart([3, 10, 12], LabelledLog("a", True, onset=11), rows) == [3, 12]


def test_a_log_that_diverges_is_caught_after_its_onset(tmp_path: Path) -> None:
    """NaN from record 100 on: critical, no later than five records."""
    (tmp_path / "label.json").write_text(json.dumps({"label": "UNSTABLE: NaN", "onset": "step 100"}))
    losses = [f"{1 + 0.01 * (at % 7)}" for at in range(100)] + ["nan"] * 20
    (tmp_path / "log.csv").write_text(
        "step,loss\n" + "".join(f"{at},{loss}\n" for at, loss in enumerate(losses))
    )
    case = read(tmp_path)
    delay = delay_of(case, {"nonfinite-loss"}, (Severity.CRITICAL,))
    assert delay is not None
    assert delay <= 5
    assert case.ruin == 100
    assert lead_of(case, {"nonfinite-loss"}, (Severity.CRITICAL,)) == -delay


def test_the_ruin_is_where_the_loss_diverges_or_is_lost() -> None:
    """A loss diverges at three times its best level, or if non-finite; noisy starts are ignored."""
    calm = [(step, 1.0) for step in range(20)]
    assert ruin_of([*calm, (20, 2.9), (21, 3.1)]) == 21
    assert ruin_of([*calm, (20, float("nan"))]) == 20
    assert ruin_of([(0, 9.0), (1, 30.0), *calm]) is None
    assert ruin_of([(step, -1.0) for step in range(20)] + [(20, 50.0)]) is None


@pytest.mark.parametrize(
    ("label", "expected"),
    [("UNSTABLE: NaN", ["unstable"] * 3), ("healthy", ["nothing", "nothing", "too few records"])],
)
def test_a_thinned_log_has_the_same_verdict_or_too_few_records(
    tmp_path: Path, label: str, expected: list[str]
) -> None:
    """Thinned by 10 and 100, a run that stays NaN and a healthy run keep their results."""
    (tmp_path / "label.json").write_text(json.dumps({"label": label, "onset": "step 4000"}))
    bad = "nan" if label.startswith("UNSTABLE") else "0.4"
    losses = [f"{0.4 + 2 / (1 + at / 300) + 0.01 * (at % 7)}" for at in range(4000)] + [bad] * 2000
    if bad != "nan":
        losses = losses[:4000]
    (tmp_path / "log.csv").write_text(
        "step,loss\n" + "".join(f"{at},{loss}\n" for at, loss in enumerate(losses))
    )
    assert [text.partition(" (")[0] for text in outcomes(tmp_path)] == expected


def test_silence_about_few_records_is_no_verdict() -> None:
    """With fewer records than the longest warm-up, the result is "too few records"."""
    assert outcome_of(LabelledLog("a", True, steps=list(range(100)))) == "too few records"
    assert outcome_of(LabelledLog("a", True, steps=list(range(1000)))) == "nothing"
