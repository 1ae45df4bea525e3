"""Which runs fail together, and share an incident."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.models import RUN_FAILED, TRACEBACK, Alert, AlertState, Diagnosis, Evidence, Severity
from tocsin_server.core.shared_incidents import (
    MOST,
    NODE_NS,
    WINDOW_NS,
    Opening,
    SharedIncidents,
    SharingRun,
    fail_together,
)

NOW = 10**18
RUN = SharingRun("p", "node1", NOW - 10**12)
NAN = Opening(
    incident_id="a.f.1", project="p", run_id="a", host="node1", started_ns=NOW - 10**12,
    rule="nonfinite-loss", cause="Likely a learning rate of #.", shard="", raised="", onset_step=512,
    onset_ns=NOW, at_ns=NOW,
)  # fmt: skip
OTHER = replace(NAN, incident_id="b.f.1", run_id="b", host="node2", onset_step=514, at_ns=NOW + 10**9)
CRASH = replace(NAN, rule=RUN_FAILED, cause="The node was lost.", onset_step=90)


def alert(run_id: str, **given: Any) -> Alert:
    values: dict[str, Any] = {
        "run_id": run_id, "fingerprint": "f", "episode": 1, "rule": "nonfinite-loss", "subject": "loss",
        "severity": Severity.CRITICAL, "state": AlertState.FIRING, "onset_step": 512, "onset_ns": NOW,
        "pending_ns": None, "fired_step": 512, "fired_ns": NOW, "resolved_step": None, "resolved_ns": None,
        "summary": "s", "diagnosis": Diagnosis("NaN."),
    }  # fmt: skip
    return Alert(**values | given)


def test_runs_that_fail_at_the_same_step_share_an_incident() -> None:
    shared = SharedIncidents()
    assert [shared.join(NAN), shared.join(OTHER)] == ["a.f.1", "a.f.1"]


@pytest.mark.parametrize(
    "differs",
    [
        {"project": "q"},
        {"run_id": "a"},
        {"onset_step": 540},
        {"onset_step": None},
        {"rule": "loss-drift", "cause": "Another."},
        {"rule": "data-bound"},
        {"at_ns": NOW + WINDOW_NS + 1},
        {"started_ns": NOW + 1},
    ],
)
def test_runs_that_do_not_fail_together(differs: dict[str, Any]) -> None:
    """A run that was started after the failure is a retry, and its failure is news."""
    assert not fail_together(NAN, replace(OTHER, **differs))


def test_processes_that_stop_on_one_node_for_one_reason_share_an_incident() -> None:
    other = replace(CRASH, run_id="b", incident_id="b.f.1", onset_step=7000)
    assert fail_together(CRASH, other)
    assert not fail_together(CRASH, replace(other, host="node2"))
    assert not fail_together(CRASH, replace(other, cause="ValueError."))
    assert not fail_together(CRASH, replace(other, onset_ns=NOW + NODE_NS + 1))


def crash(run_id: str, line: int, message: str, folder: str = "/home/ann") -> Opening:
    text = f'Traceback (most recent call last):\n  File "{folder}/train.py", line {line}, in main\n    step()'
    why = Diagnosis("The script raised an exception.", (Evidence(TRACEBACK, text),))
    failed = alert(run_id, rule=RUN_FAILED, summary=message, diagnosis=why, onset_step=None)
    return Opening.of(failed, RUN._replace(host=f"node of {run_id}"), NOW)


def test_runs_that_a_push_breaks_share_an_incident() -> None:
    """The same exception at the same line, on any node and in any folder; numbers may differ."""
    one = crash("a", 7, "RuntimeError: shape 3")
    assert fail_together(one, crash("b", 7, "RuntimeError: shape 4", "/scratch/x"))
    assert not fail_together(one, crash("b", 8, "RuntimeError: shape 3"))
    assert not fail_together(one, crash("b", 7, "KeyError: x"))
    assert not fail_together(replace(one, raised=""), crash("b", 7, "RuntimeError: shape 3"))


def test_a_bad_shard_is_shared_at_any_step() -> None:
    shard = replace(NAN, rule="bad-shard", cause="", shard="shard 12")
    other = replace(shard, run_id="b", onset_step=9000)
    assert fail_together(shard, other)
    assert not fail_together(shard, replace(other, shard="shard 13"))


def test_failures_in_the_first_steps_are_not_compared() -> None:
    assert not fail_together(replace(NAN, onset_step=3), replace(OTHER, onset_step=3))


def test_a_run_joins_the_nearest_of_two_incidents() -> None:
    shared = SharedIncidents()
    far = replace(NAN, onset_step=505, incident_id="far.f.1", run_id="far")
    for each in (far, replace(NAN, cause="", rule="loss-divergence", onset_step=513)):
        shared.remember(each)
    assert shared.join(replace(OTHER, rule="loss-divergence")) == "a.f.1"


def test_a_third_run_joins_while_one_failed_lately() -> None:
    """The time counts from the last failure that joined."""
    shared = SharedIncidents()
    later = replace(OTHER, at_ns=NOW + WINDOW_NS)
    third = replace(OTHER, run_id="c", incident_id="c.f.1", at_ns=NOW + 2 * WINDOW_NS)
    assert [shared.join(each) for each in (NAN, later, third)] == ["a.f.1"] * 3


def test_information_and_late_alerts_open_their_own() -> None:
    shared = SharedIncidents()
    shared.join(Opening.of(alert("a"), RUN, NOW))
    join = shared.joining(RUN)
    assert join(alert("b"), NOW) == "a.f.1"
    assert join(alert("c", severity=Severity.INFO), NOW) == "f.1"
    assert join(alert("d", late=True), NOW) == "f.1"


def test_incidents_of_restored_runs_are_joined() -> None:
    """Those in which they are not the first run, too."""
    shared = SharedIncidents()
    shared.restore([alert("b", incident="a.f.1"), alert("b", fingerprint="g", incident="a.f.1")], RUN)
    assert shared.joining(RUN)(alert("c"), NOW) == "a.f.1"


def test_a_deleted_run_is_forgotten() -> None:
    shared = SharedIncidents()
    shared.join(NAN)
    shared.forget("a")
    assert shared.join(OTHER) == "b.f.1"


def test_memory_is_bounded() -> None:
    shared = SharedIncidents()
    for number in range(MOST + 5):
        shared.remember(replace(NAN, run_id=str(number), incident_id=f"{number}.f.1"))
    assert len(shared._known) == MOST


openings = st.builds(
    replace,
    st.just(NAN),
    run_id=st.sampled_from("abcd"),
    host=st.sampled_from(["", "x"]),
    rule=st.sampled_from(["nonfinite-loss", "loss-spike", RUN_FAILED, "bad-shard"]),
    cause=st.sampled_from(["", "C"]),
    shard=st.sampled_from(["", "s"]),
    raised=st.sampled_from(["", "e"]),
    onset_step=st.sampled_from([None, 5, 500, 502, 900]),
    at_ns=st.sampled_from([NOW, NOW + WINDOW_NS // 2, NOW + 2 * WINDOW_NS]),
)


@given(openings, openings)
def test_failing_together_is_mutual(one: Opening, other: Opening) -> None:
    assert fail_together(one, other) == fail_together(other, one)


@given(st.lists(openings, max_size=8), st.integers(0, 8))
def test_a_restart_at_any_point_changes_no_incident(found: list[Opening], cut: int) -> None:
    """What was known before it is remembered from the stored alerts of each run."""
    straight, before, after = SharedIncidents(), SharedIncidents(), SharedIncidents()
    ids = [straight.join(each) for each in found]
    joined = [before.join(each) for each in found[:cut]]
    for each, incident in zip(found[:cut], joined, strict=True):
        after.remember(replace(each, incident_id=incident))
    assert joined + [after.join(each) for each in found[cut:]] == ids
