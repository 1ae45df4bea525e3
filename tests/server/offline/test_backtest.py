"""Backtests of log files: where a rule would have fired with other settings."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tocsin_server.core.errors import FieldError
from tocsin_server.offline.backtest import Backtest, Bounds
from tocsin_server.offline.backtest_score import settings_of


def log_of(path: Path, losses: list[float]) -> Path:
    path.write_text("step,loss\n" + "".join(f"{step},{loss}\n" for step, loss in enumerate(losses)))
    return path


def calm(n: int) -> list[float]:
    """A loss that falls a little and swings by a percent."""
    return [2.0 + 0.02 * ((step * 7) % 11 - 5) / 5 for step in range(n)]


@pytest.fixture
def spiky(tmp_path: Path) -> Path:
    """Three records at 2.6 from step 300 on, a third above the usual level."""
    losses = calm(600)
    losses[300:303] = [2.6, 2.6, 2.6]
    return log_of(tmp_path / "log.csv", losses)


def test_settings_decide_whether_a_rule_fires(spiky: Path) -> None:
    """A spike of 30 % fires at the default of 20 %, and not at a threshold of 50 %."""
    fired = Backtest("loss-spike", settings_of("loss-spike", {})).of_file(spiky)
    silent = Backtest("loss-spike", settings_of("loss-spike", {"relative": 0.5})).of_file(spiky)
    assert [(firing.onset_step, firing.severity.value) for firing in fired.firings] == [(300, "warning")]
    assert silent.firings == []
    assert fired.steps == 600


def test_each_launch_in_a_file_is_evaluated_separately(tmp_path: Path) -> None:
    """A repeated header starts a new run with separate steps."""
    one, two = log_of(tmp_path / "a", calm(300)), log_of(tmp_path / "b", calm(100))
    both = tmp_path / "both.csv"
    both.write_text(one.read_text() + two.read_text())
    tested = Backtest("loss-spike", settings_of("loss-spike", {})).of_file(both)
    assert (tested.steps, tested.firings) == (400, [])


def test_limits_are_kept_and_reported(spiky: Path) -> None:
    """Records of one run, and total time."""
    settings = settings_of("loss-spike", {})
    short = Backtest("loss-spike", settings, Bounds(records=599)).of_file(spiky)
    assert 0 < short.steps < 599
    assert f"first {short.steps} records" in short.cut
    late = Backtest("loss-spike", settings, Bounds(seconds=0.5), clock=itertools.count().__next__)
    assert "ran out" in late.of_file(spiky).cut


def test_settings_under_which_a_rule_breaks_are_named(spiky: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not crash: it names the rule and its message."""
    from tocsin_server.detect.rules.loss.loss_spike import LossSpike

    def broken(self: object, view: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(LossSpike, "observe", broken)
    with pytest.raises(FieldError, match="loss-spike: settings: expected a valid combination of values"):
        Backtest("loss-spike", settings_of("loss-spike", {})).of_file(spiky)
