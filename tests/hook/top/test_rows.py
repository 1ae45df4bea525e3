"""What ``tocsin top`` says about an incident."""

from __future__ import annotations

import msgspec

from tocsin.read import Incident
from tocsin.top.rows import by_urgency, incident_lines

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 7\nValueError: \x1b[31mboom'


def incident(id: str, **fields: object) -> Incident:
    """Return an incident of one alert."""
    given = {"run_id": "r", "run_name": "n", "project": "p", "severity": "critical", "summary": "boom"}
    times = {"onset_ms": 0.0, "updated_ms": 0.0, "state": "open", "root": "a", "count": 1, "alerts": []}
    return msgspec.convert({**given, **times, "id": id, **fields}, Incident)


def test_the_most_urgent_incident_is_first() -> None:
    """Open, then unacknowledged, then more severe, then newer: also once the run has ended."""
    ack = {"by": "me", "at_ms": 0.0, "note": ""}
    given = [
        incident("acknowledged", ack=ack),
        incident("new info", state="ended", severity="info", updated_ms=9.0),
        incident("old", state="ended", updated_ms=1.0),
        incident("newer", state="ended", updated_ms=2.0),
        incident("open", severity="info"),
    ]
    assert [one.id for one in by_urgency(given)] == ["open", "acknowledged", "newer", "old", "new info"]


def test_a_traceback_has_its_lines_and_steers_no_terminal() -> None:
    evidence = {"name": "traceback", "value": TRACEBACK, "unit": "", "step": None}
    diagnosis = {"cause": "The script raised an exception.", "evidence": [evidence], "remedies": []}
    alert = {
        "id": "a", "run_id": "r", "run_name": "n", "project": "p", "rule": "x", "severity": "critical",
        "state": "firing", "summary": "boom", "onset_ms": 0.0, "diagnosis": diagnosis,
    }  # fmt: skip
    whole = incident("i", alerts=[alert])
    lines = [line for line, _ in incident_lines(whole)]
    assert lines[-3:] == [
        "  traceback Traceback (most recent call last):",
        '      File "train.py", line 7',
        "    ValueError: \\x1b[31mboom",
    ]
