"""Offline evaluation of log files: the same batches and alerts as on a server."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.matrix import LONG
from tocsin.importers import open_log
from tocsin_server.core.models import RecordBatch, RunEvent, Severity
from tocsin_server.offline.replay import BATCH_RECORDS, LogResult, Replay, evaluate_log


def result(path: Path, text: str) -> LogResult:
    """Return the result for a log with that text."""
    path.write_text(text)
    return evaluate_log(open_log(path))


def test_records_come_in_batches_of_one_writer(tmp_path: Path) -> None:
    """In the order of the file, cut at the limit and at each new run."""
    path = tmp_path / "a.csv"
    path.write_text(
        "step,loss\n" + "".join(f"{step},0.123456789\n" for step in range(600)) + "step,loss\n0,0.5\n"
    )
    batches = list(Replay("r").take(open_log(path).items()))
    assert all(isinstance(batch, RecordBatch) for batch in batches)
    found = [batch for batch in batches if isinstance(batch, RecordBatch)]
    assert [(batch.n, batch.seq, batch.writer.attempt_no) for batch in found] == [
        (BATCH_RECORDS, 0, 1), (88, 512, 1), (1, 0, 2)]  # fmt: skip


def test_missing_is_not_nan(tmp_path: Path) -> None:
    """A value that a record lacks is absent from its column; metadata comes before its records."""
    path = tmp_path / "a.csv"
    path.write_text("step,loss,val_loss\n0,nan,\n1,0.5,0.7\n")
    first, event, second = list(Replay("r").take(open_log(path).items()))
    assert isinstance(first, RecordBatch)
    assert isinstance(event, RunEvent)
    assert isinstance(second, RecordBatch)
    assert event.kind == "metric"
    assert math.isnan(first.columns["loss"].v[0])
    assert "val/loss" not in first.columns


def test_the_same_log_gives_the_same_verdict_however_it_is_spelled(tmp_path: Path) -> None:
    """JSON lines, CSV and lines of a script: the same alerts at the same steps."""
    losses = [*(["0.5"] * 100), "nan", "nan", "nan"]
    texts = {
        "a.csv": "step,loss\n" + "".join(f"{step},{loss}\n" for step, loss in enumerate(losses)),
        "a.jsonl": "".join(f'{{"step": {step}, "loss": "{loss}"}}\n' for step, loss in enumerate(losses)),
        "a.log": "".join(f"step {step}: loss = {loss}\n" for step, loss in enumerate(losses)),
    }
    outcomes = [
        [(alert.rule, alert.onset_step, alert.fired_step) for alert in result(tmp_path / name, text).alerts]
        for name, text in texts.items()
    ]
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert ("nonfinite-loss", 100, 100) in outcomes[0]


def test_an_excerpt_is_evaluated_without_baselines(tmp_path: Path) -> None:
    """Three lines are enough for a NaN loss."""
    found = result(tmp_path / "a.log", "step 1 loss 0.5\nstep 2 loss nan\nstep 3 loss nan\n")
    assert found.training_records == 3
    assert found.highest_severity is Severity.CRITICAL


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Of 40,000 records, only sparklines and alerts are kept."""
    rng = np.random.default_rng(0)
    lines = "".join(f"{step},{1 + 0.01 * value:.6f}\n" for step, value in enumerate(rng.normal(size=40_000)))
    found = result(tmp_path / "a.csv", "step,loss\n" + lines)
    assert found.records == 40_000
    assert (found.first_step, found.last_step) == (0, 39_999)
    assert len(found.sparks["loss"].buckets) <= 72


def test_the_last_records_of_each_launch_are_evaluated(tmp_path: Path) -> None:
    """Rules that process blocks also get the last one: an excerpt with a gap, before another launch."""
    jump = "".join(f"{6900 + 10 * at},{loss}\n" for at, loss in enumerate((6.37, 6.6, 6.5, 9.1, 10.2)))
    even = "".join(f"{6900 + 10 * at},6.4\n" for at in range(3))
    text = f"step,loss\n{jump}step,loss\n{even}"
    for number, log in enumerate((f"step,loss\n{jump}", text)):
        alerts = result(tmp_path / f"{number}.csv", log).alerts
        assert [(alert.rule, alert.fired_step) for alert in alerts] == [("loss-level-shift", 6940)]


GROWTH = """
import resource, sys
from pathlib import Path
from tocsin.importers import open_log
from tocsin_server.offline.replay import evaluate_log
peaks = []
for path in sys.argv[1:]:
    result = evaluate_log(open_log(Path(path)))
    assert result.unread == 1, result.first_unread
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
print(peaks[-1] - peaks[0])
"""
"""The growth of the process in MiB from a small log to a large one."""


@LONG
def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """A hundred megabytes need no more memory than two; the unreadable line is reported."""
    note = "x" * 2500
    for name, rows in (("small.csv", 800), ("large.csv", 40_000)):
        with (tmp_path / name).open("w") as file:
            file.write("step,loss,note\n")
            file.writelines(f"{step},{1 + step % 7 / 100},{note}\n" for step in range(rows))
            file.write("torn\n")
    assert (tmp_path / "large.csv").stat().st_size > 100_000_000
    reported = [str(tmp_path / name) for name in ("small.csv", "large.csv")]
    done = subprocess.run(
        [sys.executable, "-c", GROWTH, *reported], check=True, capture_output=True, text=True
    )
    assert int(done.stdout) < 20
