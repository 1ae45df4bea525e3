"""The list of runs for an agent."""

from __future__ import annotations

from tocsin.mcp.runs import open_incidents


def test_an_incident_without_a_step_has_none_in_its_line() -> None:
    """A run that never trained can have an alert of its script."""
    row = {"id": "i", "severity": "warning", "run_id": "r", "onset_step": None, "ack": None, "summary": "S"}
    assert open_incidents([row]) == [
        "1 open incident.",
        'incident "i": warning, run "r", not acknowledged: "S"',
    ]
