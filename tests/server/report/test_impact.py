"""What an incident cost."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tocsin_server.core.checkpoints import Checkpoint
from tocsin_server.core.incidents import Incident, IncidentState
from tocsin_server.core.models import Alert, AlertState, Diagnosis, Severity
from tocsin_server.report.impact import impact_lines, impact_of
from tocsin_server.store.results import StoredAttempt

HOUR_NS = 3600 * 10**9
START_NS = 10**18
FIRING = Alert(
    run_id="r", fingerprint="f", episode=1, rule="loss-divergence", subject="loss",
    severity=Severity.CRITICAL, state=AlertState.FIRING, onset_step=1000, onset_ns=START_NS, pending_ns=None,
    fired_step=1010, fired_ns=START_NS + 10**9, resolved_step=None, resolved_ns=None,
    summary="loss 18x", diagnosis=Diagnosis("The loss grows."), incident="f.1",
)  # fmt: skip
ENDED = replace(FIRING, state=AlertState.ENDED, resolved_step=1900, resolved_ns=START_NS + HOUR_NS)


def run(**given: Any) -> Any:
    """A run of 8 processes that has sent step 5000 two hours after the onset."""
    values: dict[str, Any] = {"last_seen_ns": START_NS + 2 * HOUR_NS, "last_step": 5000, "world_size": 8}
    values |= {"id": "r", "name": "mdt", "ended_ns": None, "attempts_list": ()}
    return SimpleNamespace(**(values | {"environment": {"versions": {"cuda": "12.4"}}} | given))


def sentences(
    alert: Alert, state: IncidentState, resume: Checkpoint | None = None, **given: Any
) -> list[str]:
    return impact_of(Incident("r.f.1", (alert,)), state, run(**given), resume).sentences()


def test_an_ended_incident_cost_what_ran_until_the_run_ended() -> None:
    """Not what a later attempt ran."""
    (line,) = sentences(ENDED, IncidentState.ENDED)
    assert line == "900 steps and 8.0 GPU hours (8 processes, 60 min) from the onset until the run ended."


def test_an_open_incident_costs_until_the_newest_message() -> None:
    (line,) = sentences(FIRING, IncidentState.OPEN, world_size=1)
    assert line == "4\u202f000 steps and 2.0 GPU hours from the onset until now."


def test_a_resume_repeats_the_steps_since_the_checkpoint() -> None:
    saved = Checkpoint("ckpt.pt", 900, START_NS - HOUR_NS)
    assert sentences(ENDED, IncidentState.ENDED, saved)[1] == (
        "Resuming from the last good checkpoint repeats 100 healthy steps before the onset (8.0 GPU hours)."
    )


def test_the_grace_period_of_a_failed_run_costs_nothing() -> None:
    """The alert ended ten minutes after the run, when no other attempt had begun."""
    (line,) = sentences(ENDED, IncidentState.ENDED, world_size=1, ended_ns=START_NS + HOUR_NS - 600 * 10**9)
    assert line == "900 steps and 50 min of GPU time from the onset until the run ended."


def test_an_open_incident_costs_until_the_newest_record() -> None:
    """The row of a run is older than its newest records."""
    attempts = (StoredAttempt(1, START_NS - HOUR_NS, 0, 6000, START_NS + 3 * HOUR_NS),)
    (line,) = sentences(FIRING, IncidentState.OPEN, world_size=1, attempts_list=attempts, last_step=6000)
    assert line == "5\u202f000 steps and 3.0 GPU hours from the onset until now."


def test_the_time_between_attempts_costs_nothing() -> None:
    """The first attempt ended ten minutes after the onset, the next one began 50 minutes later."""
    attempts = (
        StoredAttempt(1, START_NS - HOUR_NS, 0, 1500, START_NS + 600 * 10**9),
        StoredAttempt(2, START_NS + HOUR_NS, 900, 5000, START_NS + 2 * HOUR_NS),
    )
    (line,) = sentences(FIRING, IncidentState.OPEN, world_size=1, attempts_list=attempts)
    assert line == "4\u202f000 steps and 1.2 GPU hours from the onset until now."


@pytest.mark.parametrize("versions", [{"versions": {"torch": "2.13.0"}}, {"versions": None}, {}])
def test_time_without_cuda_is_process_time(versions: Any) -> None:
    (line,) = sentences(ENDED, IncidentState.ENDED, environment=versions, world_size=1)
    assert "1.0 process hours" in line


def test_runs_that_failed_together_are_counted_one_by_one() -> None:
    """The alerts of one do not end those of the other; a run without loaded alerts is only counted."""
    other = replace(ENDED, run_id="s", onset_step=100, resolved_step=150)
    stored: Any = SimpleNamespace(
        incident=Incident("r.f.1", (ENDED, other)),
        state=IncidentState.ENDED,
        runs={"r": "mdt", "s": "sweep", "t": "third"},
    )
    runs = [run(world_size=1), run(world_size=1, id="s", name="sweep")]
    assert impact_lines(stored, runs, None) == [
        ("mdt", "900 steps and 1.0 GPU hours from the onset until the run ended."),
        ("sweep", "50 steps and 1.0 GPU hours from the onset until the run ended."),
        ("", "1 more run not counted."),
    ]
