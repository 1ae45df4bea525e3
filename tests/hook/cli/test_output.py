"""Tables, numbers and times of the terminal commands; suggestions for wrong words."""

from __future__ import annotations

import math
import os
import pty
import re
import subprocess
import sys
import termios

import pytest

from tocsin.cli.commands import main
from tocsin.cli.output import fitting, plain_table, print_json
from tocsin.cli.reading import setting_lines
from tocsin.read.text import ago, likely, number, shown


def test_a_plain_table_is_aligned_and_complete() -> None:
    assert list(plain_table(("A", "NAME"), [("1", "x" * 200), ("22", "y")], None)) == [
        "A   NAME",
        "1   " + "x" * 200,
        "22  y",
    ]


def test_on_a_terminal_lines_are_cut_to_its_width() -> None:
    *_, line = plain_table(("NAME",), [("x" * 200,)], 80)
    assert (len(line), line[-1]) == (80, "…")


def test_wide_letters_take_two_cells() -> None:
    assert list(plain_table(("N", "X"), [("🔥a", "1"), ("é", "2")], None)) == [
        "N    X",
        "🔥a  1",
        "é    2",
    ]


def test_a_long_name_leaves_room_for_the_problem() -> None:
    """Its end is shown, because runs of a sweep begin alike."""
    head, rows = ("ID", "NAME", "STATE", "PROBLEM"), [("r", "sweep/" * 10 + "lr-1", "failed", "p" * 60)]
    found = fitting(head, rows, 80, ("STATE",))
    assert found == (list(head), [["r", "sweep/sweep/…ep/sweep/lr-1", "failed", "p" * 60]])


def test_a_narrow_terminal_leaves_out_less_important_columns() -> None:
    head, rows = ("ID", "PROJECT", "STATE"), [("1", "a", "ok")]
    assert fitting(head, rows, 80, ("PROJECT", "ID")) == (list(head), [list(rows[0])])
    assert fitting(head, rows, 10, ("PROJECT", "ID")) == (["ID", "STATE"], [["1", "ok"]])


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (math.nan, "NaN"), (-math.inf, "-Inf"), (3.0, "3"), (0.123456, "0.1235")]
)
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(("ms", "text"), [(5_000, "5 s"), (120_000, "2 min"), (7.2e6, "2 h"), (2e8, "2 d")])
def test_ages(ms: float, text: str) -> None:
    assert ago(0.0, ms) == text


def test_json_has_names_for_what_is_not_finite(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([math.nan, {"a": math.inf}, "é"])
    assert capsys.readouterr().out == '["NaN", {"a": "Infinity"}, "é"]\n'


def test_control_characters_are_escaped() -> None:
    assert shown("a\x1b]0;x\x07\u202e") == "a\\x1b]0;x\\x07\\u202e"


@pytest.mark.parametrize(
    ("words", "meant"), [(["rnus", "list"], "runs"), (["runs", "lst"], "list"), (["doctr"], "doctor")]
)
def test_similar_commands_are_suggested(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert f"Did you mean {meant}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "given", "meant"),
    [(["runs", "list", "--jsn"], "--jsn", "--json"), (["login", "--server", "x"], "--server", "--url")],
)
def test_a_similar_option_is_suggested(
    words: list[str], given: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(words)
    assert f"unrecognized arguments: {given}. Did you mean {meant}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["export", "folder", "-o", "x"], ["enable", "--url", "http://lab:8321"], ["login", "--severty", "info"]],
)
def test_an_option_of_another_command_is_not_corrected(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(words)
    assert "Did you mean" not in capsys.readouterr().err


def on_terminal(script: str, **environment: str) -> tuple[str, str]:
    """Return what a script writes to a terminal of 80 x 24, and to a pipe."""
    known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    environment = {**known, "TERM": "xterm-256color", **environment}
    command = [sys.executable, "-c", script]
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    subprocess.run(command, stdout=theirs, stderr=theirs, env=environment, timeout=60, check=True)
    os.close(theirs)
    drawn = os.read(ours, 1 << 16).decode()
    os.close(ours)
    piped = subprocess.run(command, capture_output=True, env=environment, timeout=60, check=True, text=True)
    return drawn, piped.stdout + piped.stderr


def test_in_80_columns_the_id_stays_complete() -> None:
    """The id in front is what other commands need. In a pipe, nothing is cut."""
    drawn, piped = on_terminal(
        "from tocsin.cli.output import print_table\n"
        "print_table(('ID', 'NAME', 'PROBLEM'), [('r_123456789012', 'n' * 60, 'p' * 60)], empty='')"
    )
    row = re.sub(r"\x1b\[[0-9;]*m", "", drawn).splitlines()[1]
    assert (row.startswith(f"r_123456789012  {'n' * 12}…{'n' * 13}  ppp"), len(row)) == (True, 80)
    assert piped.splitlines()[1] == f"r_123456789012  {'n' * 60}  {'p' * 60}"


@pytest.mark.parametrize(("no_color", "has_color"), [("", True), ("1", False)])
def test_colors_are_for_terminals_and_follow_no_color(no_color: str, has_color: bool) -> None:
    drawn, piped = on_terminal(
        "from tocsin.cli.output import print_result, print_table\n"
        "print_result(False, 'bad')\nprint_table(('STATE',), [('failed',)], empty='')",
        NO_COLOR=no_color,
    )
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-7]", drawn)) is has_color
    assert "FAIL" in drawn
    assert piped == "FAIL  bad\nSTATE\nfailed\n"


def test_a_terminal_shows_the_first_settings_that_have_a_value() -> None:
    """A Trainer of Hugging Face has 150, a third of them null. A pipe gets all."""
    config = {"lr": 0.1, "seed": None, "steps": 3, "width": 64}
    assert setting_lines(config, 2) == ["  lr = 0.1", "  steps = 3", "  and 2 more (--json has them)"]
    assert len(setting_lines(config, None)) == 4


def test_a_cause_is_not_called_likely_twice() -> None:
    assert likely("Likely a bad batch.") == "A bad batch."
    assert likely("A bad batch.") == "A bad batch."
