"""What ``tocsin top`` says about an incident."""

from __future__ import annotations

import msgspec

from tocsin.read import Incident
from tocsin.top.rows import incident_lines

TRACEBACK = 'Traceback (most recent call last):\n  File "train.py", line 7\nValueError: \x1b[31mboom'


def test_a_traceback_has_its_lines_and_steers_no_terminal() -> None:
    evidence = {"name": "traceback", "value": TRACEBACK, "unit": "", "step": None}
    diagnosis = {"cause": "The script raised an exception.", "evidence": [evidence], "remedies": []}
    alert = {
        "id": "a", "run_id": "r", "run_name": "n", "project": "p", "rule": "x", "severity": "critical",
        "state": "firing", "summary": "boom", "onset_ms": 0.0, "diagnosis": diagnosis,
    }  # fmt: skip
    given = {
        name: alert[name] for name in ("run_id", "run_name", "project", "severity", "summary", "onset_ms")
    }
    whole = {
        **given,
        "id": "i",
        "state": "open",
        "updated_ms": 0.0,
        "root": "a",
        "count": 1,
        "alerts": [alert],
    }
    lines = [line for line, _ in incident_lines(msgspec.convert(whole, Incident))]
    assert lines[-3:] == [
        "  traceback Traceback (most recent call last):",
        '      File "train.py", line 7',
        "    ValueError: \\x1b[31mboom",
    ]
