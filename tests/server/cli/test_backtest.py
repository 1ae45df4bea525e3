"""The command ``tocsin-server backtest``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.server.offline.test_backtest import calm, log_of
from tocsin_server.cli.main import main


def backtested(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["tocsin-server", "backtest", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_text_and_json_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where it fired, the number of healthy steps, and the settings used."""
    file = str(log_of(tmp_path / "a.csv", [*calm(300), *[3.0] * 5, *calm(200)]))
    status, text, _ = backtested(monkeypatch, capsys, "loss-spike", file, "--set", "relative=0.3")
    assert status == 0
    assert "relative=0.3" in text
    assert "step 300 warning loss" in text or "step 301 warning loss" in text
    _, reported, _ = backtested(monkeypatch, capsys, "loss-spike", file, "--set", "relative=0.3", "--json")
    found = json.loads(reported)
    assert (found["steps"], found["settings"]["relative"]) == (505, 0.3)
    assert found["runs"][0]["firings"][0]["onset_step"] == 300


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["loss-spike"], "Pass log files"),
        (["loss-spike", "none.log"], "none.log"),
        (["spike", "none.log"], "rule: expected the id of"),
        (["loss-spike", "none.log", "--set", "window"], "NAME=VALUE"),
        (["loss-spike", "none.log", "--set", "window=x"], "loss-spike: window: expected a whole number"),
        (["loss-spike", "--run", "gone"], "There is no run 'gone' in this database"),
        (["loss-spike", "--project", "gone"], "has no runs"),
    ],
)
def test_untestable_input_is_reported(
    words: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """One message and status 2, no traceback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOCSIN_DATA_DIR", str(tmp_path))
    status, _, err = backtested(monkeypatch, capsys, *words)
    assert status == 2
    assert reason in err
    assert "Traceback" not in err
