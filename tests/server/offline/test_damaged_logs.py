"""Logs that are doubled, cut, thinned, interleaved, rewound, or nearly empty."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.matrix import ALL, represented
from tocsin.importers import open_log
from tocsin_server.core.models import Severity
from tocsin_server.offline.diagnose import notes, report
from tocsin_server.offline.replay import LogResult, evaluate_log

RECORDINGS = sorted((Path(__file__).parents[1] / "detect" / "recordings").glob("*.csv"))
Damage = Callable[[str, list[str]], list[str]]


def _healthy() -> str:
    """Return a CSV with 600 records of a healthy run, and an evaluation every 20."""
    noise = random.Random(7)
    rows = ["step,loss,grad_norm,lr,validation/loss"]
    for step in range(600):
        loss = 0.4 + 1.9 * math.exp(-step / 150)
        evaluation = f"{loss + 0.05:.4f}" if step % 20 == 0 else ""
        norm = noise.gauss(1.0, 0.1)
        rows.append(f"{step},{loss * noise.gauss(1.0, 0.03):.4f},{norm:.3f},0.001,{evaluation}")
    return "\n".join(rows)


def _doubled(_: str, rows: list[str]) -> list[str]:
    return [row for row in rows for _ in range(2)]


def _thinned(_: str, rows: list[str]) -> list[str]:
    return rows[::7]


def _of_two_ranks(_: str, rows: list[str]) -> list[str]:
    """The second rank prints each line three lines later."""
    delayed: list[list[str]] = [[], [], [], *[[row] for row in rows]]
    return [line for row, late in zip(rows, delayed, strict=False) for line in (row, *late)]


def _cut(_: str, rows: list[str]) -> list[str]:
    half = rows[: len(rows) // 2]
    return [*half[:-1], half[-1][: len(half[-1]) // 2]]


def _rewound(_: str, rows: list[str]) -> list[str]:
    return rows[: 6 * len(rows) // 10] + rows[4 * len(rows) // 10 :]


def _restarted(head: str, rows: list[str]) -> list[str]:
    return [*rows[: len(rows) // 2], head, *rows]


def _with_another_column(head: str, rows: list[str]) -> list[str]:
    half = len(rows) // 2
    later = [row.replace(",", ",0.5,", 1) for row in rows[half:]]
    return [*rows[:half], head.replace(",", ",extra,", 1), *later]


DAMAGES = (
    _doubled,
    _thinned,
    _of_two_ranks,
    _cut,
    _rewound,
    _restarted,
    _with_another_column,
)


def _diagnosed(path: Path, head: str, rows: list[str]) -> LogResult:
    """Write a log, check that its report can be written, and return the result."""
    path.write_text("\n".join([head, *rows]) + "\n")
    result = evaluate_log(open_log(path))
    assert report(result)
    return result


def _critical(result: LogResult) -> set[str]:
    return {alert.rule for alert in result.alerts if alert.severity is Severity.CRITICAL}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_healthy_log_has_no_critical_alert(tmp_path: Path, damage: Damage) -> None:
    head, *rows = _healthy().splitlines()
    result = _diagnosed(tmp_path / "log.csv", head, damage(head, rows))
    assert result.training_records
    assert _critical(result) == set()


@pytest.mark.parametrize("damage", represented(DAMAGES, _doubled, _cut, _restarted))
def test_damage_adds_no_critical_rule(tmp_path: Path, damage: Damage) -> None:
    """The recordings of a collapse: what is critical in a damaged one is critical in the whole one too."""
    for recording in RECORDINGS if ALL else RECORDINGS[::2]:
        head, *rows = recording.read_text().splitlines()
        whole = _critical(_diagnosed(tmp_path / recording.name, head, rows))
        assert _critical(_diagnosed(tmp_path / recording.name, head, damage(head, rows))) <= whole


@pytest.mark.parametrize("records", [1, 3, 49])
def test_a_short_log_says_that_there_are_too_few_records(tmp_path: Path, records: int) -> None:
    for source in [_healthy(), *[recording.read_text() for recording in RECORDINGS]]:
        head, *rows = source.splitlines()
        result = _diagnosed(tmp_path / "log.csv", head, rows[:records])
        assert any(
            note.startswith(f"Only {result.training_records} training record") for note in notes(result)
        )


def test_a_log_of_nan_only_reports_them(tmp_path: Path) -> None:
    head, *_ = _healthy().splitlines()
    result = _diagnosed(tmp_path / "log.csv", head, [f"{step},nan,nan,nan,nan" for step in range(200)])
    assert {alert.state.value for alert in result.alerts if alert.rule == "nonfinite-loss"} == {"firing"}
