"""Alerts while a tracker's run is open and after it has finished: ``ended.py TRACKER FOLDER``.

Prints as JSON the alerts that the tracker has.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import tocsin
from tests.trackers.training import TRACKERS
from tocsin.mirrors.write_back import Note, trackers


def alert(rule: str) -> None:
    """Write an alert of this rule to the tracker, as the thread for alerts does."""
    url = "https://tower/runs/r"
    note = Note(rule, rule, "critical", "firing", "NaN", 3, 2, "", url, f"https://tower/incidents/{rule}")
    for targets in tuple(trackers):
        targets.write(note)


def main(name: str, folder: Path) -> None:
    """Log a value, write an alert, end the tracker's run and write another one."""
    out = os.dup(1)
    os.dup2(2, 1)  # what trackers print goes to stderr
    tocsin.mirror(name)
    tracker = TRACKERS[name]()
    tracker.start(folder)
    tracker.log({"train/loss": 1.0}, 1)
    alert("in-time")
    tracker.stop()
    alert("late")
    _, alerts = tracker.read(folder)
    os.write(out, json.dumps(alerts).encode())


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
