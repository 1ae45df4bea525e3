"""The counting of the detection benchmark."""

from __future__ import annotations

import json
from pathlib import Path

from tests.benchmarks.bench_detection import Case, apart, delay_of, onset_of, read
from tocsin_server.domain import Severity


def test_the_onset_is_the_first_number_of_the_label() -> None:
    """A range of guesses and a dash are none."""
    steps = [0, 100, 200, 300]
    assert onset_of(steps, "steps 150, 300 (2.07 -> 55)") == 2
    assert onset_of(steps, "between step 100 and 300") is None
    assert onset_of(steps, "-") is None


def test_alarms_near_each_other_are_one() -> None:
    """Fifty records without one end it; the onset begins one of its own."""
    rows = list(range(200))
    assert apart([3, 10, 59, 109], Case("a", False), rows) == [3, 109]
    assert apart([3, 10, 12], Case("a", True, onset=11), rows) == [3, 12]


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
