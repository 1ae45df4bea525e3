"""The row of a run summarizes its records, alerts and client."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tocsin.protocol import Alive
from tocsin_server.core import exact_json
from tocsin_server.core.models import (
    Alert,
    AlertState,
    Column,
    Diagnosis,
    Evidence,
    RecordBatch,
    RunEvent,
    RunState,
    Severity,
    Writer,
)
from tocsin_server.runs.run_summary import RunMetadata, RunSummary, alert_json

S = 1_000_000_000
Batch = Callable[..., RecordBatch]


def batch(steps: list[int], *, attempt: int = 1, **columns: list[float]) -> RecordBatch:
    read = {name.replace("__", "/"): Column(np.array(values)) for name, values in columns.items()}
    step = np.array(steps, np.int64)
    return RecordBatch(Writer("r1", attempt, attempt, 0), 0, 0, len(steps), step, step * S, read)


def dropped(records: Any) -> RunEvent:
    """Return the report of a process that has lost records."""
    return RunEvent(Writer("r1", 1, 1, 0), 1, 0, "dropped", 0, None, {"records": records}, 1)


def board(**changes: Any) -> RunSummary:
    return RunSummary(RunMetadata(**({"id": "r1", "project": "p", "name": "n"} | changes)))


def alert(rule: str, severity: Severity, onset_ns: int = 0) -> Alert:
    diagnosis = Diagnosis("cause", (Evidence("loss", math.nan),))
    return Alert(
        "r1",
        rule,
        1,
        rule,
        "",
        severity,
        AlertState.FIRING,
        3,
        onset_ns,
        None,
        4,
        5,
        None,
        None,
        "s",
        diagnosis,
    )


def test_a_row_counts_what_went_wrong() -> None:
    """Skipped steps and non-finite vital signs of every optimizer are counted, each value once."""
    run = board()
    run.take(batch([0, 1, 2], loss=[1.0, math.nan, 2.0], skipped=[0.0, 1.0, 0.0]), 0)
    run.take(batch([3], loss__D=[math.inf], skipped__D=[1.0], fft=[math.nan]), S)
    row = run.row(S)
    assert (row["skipped"], row["nonfinite"], row["last_step"]) == (2, 2, 3)


def test_a_row_shows_the_newest_values_as_they_are() -> None:
    """The last value of each vital sign, also if it is infinite; unknown ones are null."""
    run = board()
    run.take(batch([0, 1], loss=[1.0, 0.5], grad_norm=[1.0, math.inf]), 0)
    last = json.loads(exact_json.dumps(run.row(0)))["last"]
    assert last == {"loss": 0.5, "grad_norm": "Infinity", "scale": None, "lr": None}


def test_an_older_attempt_does_not_set_the_row_back() -> None:
    """Late records of an older attempt are in the sparkline, not in the newest values."""
    run = board()
    run.take(batch([50], attempt=2, loss=[2.0]), 0)
    run.take(batch([900], attempt=1, loss=[9.0]), S)
    row = run.row(S)
    assert (row["last_step"], row["last"]["loss"]) == (50, 2.0)
    assert row["sparks"]["loss"]["x1"] == 900


def test_speed_is_that_of_the_last_half_minute() -> None:
    """Steps/s of the last 30 s by arrival; unknown after a silence."""
    run = board()
    for second in range(100):
        run.take(batch([second * 10], loss=[1.0]), second * S)
    assert run.steps_per_s(99 * S) == pytest.approx(10.0)
    assert run.steps_per_s(200 * S) is None


@pytest.mark.parametrize(
    ("state", "severities", "health"),
    [
        (RunState.RUNNING, [], "ok"),
        (RunState.RUNNING, [Severity.INFO], "ok"),
        (RunState.RUNNING, [Severity.WARNING], "warning"),
        (RunState.LOST, [], "warning"),
        (RunState.STALLED, [Severity.CRITICAL], "critical"),
        (RunState.FAILED, [Severity.CRITICAL], "critical"),
        (RunState.FAILED, [Severity.INFO], "ended"),
    ],
)
def test_health_is_the_worst_of_state_and_alerts(
    state: RunState, severities: list[Severity], health: str
) -> None:
    """Health is critical, warning, ok or ended."""
    run = board(state=state)
    run.open_alerts = tuple(alert("rule", severity) for severity in severities)
    assert run.health == health


def test_the_reason_is_the_most_severe_alert() -> None:
    """A row has its most severe open alert, the oldest of these, and the number of all."""
    run = board()
    warning, late = alert("plateau", Severity.WARNING), alert("late", Severity.CRITICAL, 9)
    run.open_alerts = (warning, late, alert("early", Severity.CRITICAL, 1))
    row = run.row(0)
    assert row["reason"]["rule"] == "early"
    assert (row["alerts"], row["severities"]) == (3, {"critical": 2, "warning": 1, "info": 0})


def test_severities_count_incidents_not_their_alerts() -> None:
    """Each by its most severe open alert."""
    run = board()
    causes = [alert("loss-spike", Severity.WARNING), alert("nonfinite-loss", Severity.CRITICAL)]
    run.open_alerts = (*(replace(one, incident="one.1") for one in causes), alert("other", Severity.INFO))
    row = run.row(0)
    assert (row["alerts"], row["severities"]) == (3, {"critical": 1, "warning": 0, "info": 1})


def test_a_row_has_the_state_of_the_client() -> None:
    """The queue states of a run's processes are added up until they disconnect."""
    run = board()
    run.alive(0, Alive(0, queued=2, dropped=1, phase="eval"))
    run.alive(1, Alive(0, queued=3))
    assert run.row(0)["client"] == {"queued": 5, "dropped": 1, "spooled_bytes": 0, "phase": "eval"}
    run.gone(0)
    assert run.row(0)["client"]["queued"] == 3


def test_lost_records_are_counted_also_after_a_restart() -> None:
    """Malformed counts of a client are ignored."""
    run = board()
    for lost in (3, 4, -1, "x", 2**60, True):
        run.note(dropped(lost))
    again = RunSummary.restore(run.metadata, run.saved())
    assert again.row(0)["lost_records"] == run.row(0)["lost_records"] == 7


def test_the_text_is_the_row() -> None:
    """The text for the live page equals the row of the API."""
    run = board()
    run.take(batch([0, 1], loss=[1.0, math.nan]), 0)
    assert json.loads(run.json(0)) == json.loads(exact_json.dumps(run.row(0)))
    assert "sparks" not in json.loads(run.json(0, sparks=False))


def test_a_restart_does_not_change_the_row() -> None:
    """A row that is saved as JSON and restored continues unchanged."""
    run = board()
    run.take(batch([0, 1], loss=[1.0, math.nan], skipped=[1.0, 0.0], scale=[8.0, math.inf]), 0)
    again = RunSummary.restore(run.metadata, exact_json.loads(exact_json.dumps(run.saved())))
    for one in (run, again):
        one.take(batch([2], loss=[3.0]), S)
    assert json.loads(again.json(S)) | {"steps_per_s": 0} == json.loads(run.json(S)) | {"steps_per_s": 0}


def test_an_alert_has_the_format_of_the_api() -> None:
    """An alert's JSON has milliseconds, its run's name, and evidence that may be NaN."""
    reported = json.loads(
        exact_json.dumps(
            alert_json(replace(alert("r", Severity.INFO), fired_ns=7 * S), run_name="n", project="p")
        )
    )
    assert (reported["fired_ms"], reported["run_name"], reported["resolved_ms"]) == (7000, "n", None)
    assert reported["diagnosis"]["evidence"][0]["value"] == "NaN"


@pytest.mark.parametrize("onsets", [(3, 7), (7, 3)])
def test_of_simultaneous_alerts_the_reason_is_the_cause(onsets: tuple[int, int]) -> None:
    """The reason is the same whichever alert started a few steps earlier."""
    run = board()
    loss, scale = (
        alert(rule, Severity.CRITICAL, at)
        for rule, at in zip(("nonfinite-loss", "scaler-collapse"), onsets, strict=True)
    )
    run.open_alerts = (loss, scale)
    assert run.row(0)["reason"]["rule"] == "scaler-collapse"


ERROR = {"type": "RuntimeError", "message": "x" * 999}
COLLAPSE = replace(alert("collapse", Severity.CRITICAL), state=AlertState.ENDED, summary="Loss is NaN")


def test_an_ended_run_keeps_its_most_severe_reason() -> None:
    """Nothing is open, but the row still has the cause, also after a restart."""
    run = board(state=RunState.FAILED, error=ERROR)
    run.show([], [replace(alert("spike", Severity.WARNING), state=AlertState.ENDED), COLLAPSE])
    for row in (run.row(0), RunSummary.restore(run.metadata, run.saved()).row(0)):
        assert (row["alerts"], row["severities"]["critical"]) == (0, 0)
        assert row["reason"]["rule"] == "collapse"
    assert run.ending.startswith("Run ended: failed, RuntimeError: xxx")
    assert len(run.ending) < 400


def test_a_run_that_continues_keeps_its_reason_until_records_arrive() -> None:
    """Another attempt has connected. That shows nothing about the problem of the one before."""
    run = board(state=RunState.RUNNING)
    run.show([], [COLLAPSE])
    row = run.row(0)
    assert (row["reason"]["rule"], row["health"], row["outcome"]) == ("collapse", "critical", None)


@pytest.mark.parametrize(
    ("about", "text"),
    [
        ({"state": RunState.FINISHED}, "finished with problems: Loss is NaN"),
        ({"state": RunState.FAILED, "error": {"type": "E", "message": "m"}}, "crashed: E: m"),
        ({"state": RunState.FAILED, "error": {"type": "SIGTERM"}}, "stopped with problems: Loss is NaN"),
        ({"state": RunState.LOST}, "lost"),
    ],
)
def test_the_outcome_describes_how_a_run_ended(about: dict[str, Any], text: str) -> None:
    run = board(**about)
    run.show([], [COLLAPSE])
    assert run.row(0)["outcome"]["text"] == text


def test_a_run_that_ended_broken_is_critical_until_acknowledged() -> None:
    run = board(state=RunState.FINISHED)
    run.show([], [COLLAPSE])
    before, run.acked = run.health, {run.ended_with[0]}
    assert (before, run.health) == ("critical", "ended")


def test_a_run_that_ended_well_has_no_severity() -> None:
    """Also if an alert of severity info was firing: a plateau is no problem."""
    run = board(state=RunState.FINISHED)
    run.show([], [replace(alert("plateau", Severity.INFO), state=AlertState.ENDED)])
    assert (run.outcome or {})["text"] == "finished"
    assert ((run.outcome or {})["severity"], run.health) == (None, "ended")


@pytest.mark.parametrize("used", [[40.0, 97.5], [math.nan]])
def test_a_row_has_the_gpu_utilization(used: list[float]) -> None:
    """The newest value of `gpu_util`, also after a restart; nothing without one."""
    run = board()
    assert run.row(0)["gpu_util"] is None
    run.take(batch([*range(len(used))], gpu_util=used), S)
    again = RunSummary.restore(run.metadata, exact_json.loads(exact_json.dumps(run.saved())))
    assert repr(again.row(0)["gpu_util"]) == repr(run.row(0)["gpu_util"]) == repr(used[-1])


def test_a_row_has_user_edits_and_deletion() -> None:
    """The time of the last edit and of the scheduled deletion; nothing without them."""
    plain, touched = board().row(0), board(edited={"notes": 5, "tags": 7}, deletion_ns=9 * 10**6).row(0)
    assert (plain["edited_ms"], plain["deletion_ms"]) == (None, None)
    assert (touched["edited_ms"], touched["deletion_ms"]) == (7, 9)


def test_only_the_most_severe_alerts_acknowledge_the_outcome() -> None:
    """An acknowledged warning does not hide a critical alert; one acknowledged before the end counts."""
    run = board()
    minor = alert("overfitting", Severity.WARNING)
    run.show([COLLAPSE, minor], [])
    run.acked = {minor.id}
    run.metadata.state = RunState.FINISHED
    run.show([], [replace(one, state=AlertState.ENDED) for one in (COLLAPSE, minor)])
    before, run.acked = run.health, {COLLAPSE.id}
    assert (before, run.health) == ("critical", "ended")
