"""The runner of the benchmarks: time limits, baselines, and what fails."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import suite
from benchmarks.figures import Figure, Machine, change

HERE = Machine("cpu", 2, "3.11.7", "2.13.0")
REPORTS = """
import json, os
with open(os.environ["TOCSIN_BENCH_FIGURES"], "a") as file:
    one = {{"name": "f", "value": {value}, "ratio": True, "benchmark": "bench_f.py"}}
    file.write(json.dumps(one) + "\\n")
"""


def baseline(value: float) -> suite.Baseline:
    """Return a baseline of one ratio."""
    return suite.Baseline(
        HERE, {"f": Figure("f", value, ratio=True, benchmark="bench_f.py")}, {"f": ("d", "v")}
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep results and baselines in a folder of the test."""
    monkeypatch.setattr(suite, "BASELINES", tmp_path / "baselines")
    monkeypatch.setattr(suite, "RESULTS", tmp_path / "results")
    (tmp_path / "results").mkdir()
    return tmp_path


def test_a_baseline_is_read_as_it_was_written() -> None:
    """With the date and the version of each figure."""
    peer = Figure("f", 0.1, "us", True, peer="p", peer_value=3.0, benchmark="b.py")
    one = suite.Baseline(HERE, {"f": peer}, {"f": ("2026-11-26", "0.1.0")})
    assert suite.Baseline.parse(one.to_json()) == one


def test_a_baseline_keeps_what_a_run_did_not_measure() -> None:
    """It can be completed piece by piece; NaN replaces nothing."""
    new = {"g": Figure("g", 2.0), "f": Figure("f", math.nan)}
    after = baseline(1.0).updated(new, HERE, "2026-11-27", "0.2.0")
    assert after.figures["f"].value == 1.0
    assert after.measured == {"f": ("d", "v"), "g": ("2026-11-27", "0.2.0")}


def test_an_unknown_machine_class_has_an_empty_baseline(folder: Path) -> None:
    """Nothing is compared there."""
    assert suite.read_baseline(HERE, folder).figures == {}


def test_a_figure_is_a_regression_if_both_runs_say_so() -> None:
    """Noise of one run does not fail; another figure of the second run neither."""
    before = Figure("f", 1.0, ratio=True)
    bad = change(Figure("f", 2.0, ratio=True), before)
    assert suite.confirmed({"f": bad}, {"f": bad, "g": bad}) == {"f": bad}
    assert suite.confirmed({"f": bad}, {}) == {}


@pytest.mark.parametrize(("value", "status"), [(1.1, 0), (1.3, 1)])
def test_a_regression_is_measured_again_and_then_fails(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    value: float,
    status: int,
) -> None:
    """The benchmark of the figure runs a second time."""
    file = folder / "bench_f.py"
    file.write_text(REPORTS.format(value=value))
    monkeypatch.setattr(suite, "read_baseline", lambda _here: baseline(1.0))
    monkeypatch.setattr(sys, "argv", ["suite.py", "--regressions", str(file)])
    assert suite.main() == status
    printed = capfd.readouterr().out
    assert printed.count(f"== {file}\n") == 1 + status
    assert " s in all\n" in printed


def test_without_a_baseline_a_comparison_says_that_it_compared_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By its exit status, a file for the workflow, and a baseline that can be committed."""
    file = folder / "bench_f.py"
    file.write_text(REPORTS.format(value=1.5))
    monkeypatch.setattr(suite, "read_baseline", lambda here: suite.Baseline(here, {}, {}))
    monkeypatch.setattr(sys, "argv", ["suite.py", "--regressions", str(file)])
    assert suite.main() == 3
    assert (folder / "results" / "outcome").read_text() == "no baseline\n"
    assert "nothing was compared" in capfd.readouterr().err
    (made,) = (folder / "results" / "new_baselines").iterdir()
    assert suite.Baseline.parse(made.read_text()).figures["f"].value == 1.5


def test_a_failed_benchmark_is_not_hidden_by_a_missing_baseline(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workflow accepts only "no baseline"."""
    file = folder / "bench_f.py"
    file.write_text("raise SystemExit(1)")
    monkeypatch.setattr(suite, "read_baseline", lambda here: suite.Baseline(here, {}, {}))
    monkeypatch.setattr(sys, "argv", ["suite.py", "--regressions", str(file)])
    assert suite.main() == 1
    assert (folder / "results" / "outcome").read_text() == "a benchmark failed\n"


def test_a_benchmark_beyond_its_limit_is_stopped_with_its_processes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that ignore SIGINT."""
    monkeypatch.setattr(suite, "LIMIT_S", 1)
    monkeypatch.setattr(suite, "CLEANUP_S", 1)
    file = folder / "bench_slow.py"
    child = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)"
    file.write_text(
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}, {str(folder)!r}])"
    )
    assert suite.run([file], folder / "figures") == [file]
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert str(folder) not in listed.stdout
