"""The alert of a failed run: severity, cause, evidence and first action follow from the error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tocsin_server.core.models import Finding
from tocsin_server.runs.alert_state import LATE_NS, RunAlerts
from tocsin_server.runs.run_failure import failure_finding

NOW = 10**18


def failed(error: Mapping[str, Any], **known: Any) -> Finding:
    facts: dict[str, Any] = {"step": 7, "time_ns": NOW, "firing": (), "checkpoint": None}
    return failure_finding(error, **{**facts, **known})


@pytest.mark.parametrize(
    ("kind", "severity"),
    [("OutOfMemoryError", "critical"), ("SIGTERM", "warning"), ("KeyboardInterrupt", "info")],
)
def test_the_severity_depends_on_who_stopped_the_run(kind: str, severity: str) -> None:
    assert failed({"type": kind}).severity == severity


def test_the_summary_is_type_and_message() -> None:
    assert failed({"type": "E", "message": "m"}).summary == "E: m"
    assert failed({}, step=None).summary == "The run failed without an error"


def test_a_failure_from_a_spool_is_late() -> None:
    """A failure from a spool is not notified like a current one."""
    (transition,) = RunAlerts("r_1").apply(failed({"type": "E"}), NOW + LATE_NS + 1)
    assert transition.alert.late


def test_the_last_lines_of_the_traceback_are_evidence() -> None:
    """The evidence has only the last twelve lines."""
    lines = [f"line {number}" for number in range(30)]
    evidence = {item.name: item.value for item in failed({"type": "E", "lines": lines}).diagnosis.evidence}
    assert evidence["traceback"] == "\n".join(lines[-12:])


@pytest.mark.parametrize(
    "error", [{"type": "OutOfMemoryError"}, {"type": "RuntimeError", "message": "CUDA out of memory"}]
)
def test_a_lack_of_memory_has_its_own_remedy(error: Mapping[str, Any]) -> None:
    assert failed(error).diagnosis.remedies[0].text.startswith("Reduce the batch size")


def test_a_known_checkpoint_is_named() -> None:
    remedy = failed({"type": "E"}, checkpoint=(5, "ckpt_5.pt")).diagnosis.remedies[-1]
    assert (remedy.text, remedy.code) == ("Resume from the checkpoint of step 5.", "ckpt_5.pt")


def test_what_fired_before_is_the_likely_cause() -> None:
    """An exception after a NaN loss is its consequence."""
    tracker = RunAlerts("r_1")
    nan = replace(failed({}), rule="nonfinite-loss", summary="Loss is NaN", onset_step=6)
    tracker.apply(nan, NOW)
    diagnosis = failed({"type": "ValueError"}, firing=tracker.open()).diagnosis
    assert diagnosis.cause == "The run was unstable before it failed: Loss is NaN (nonfinite-loss)."
    assert diagnosis.timeline == ((6, "Loss is NaN", "nonfinite-loss"),)
