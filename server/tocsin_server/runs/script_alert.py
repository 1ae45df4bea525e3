"""Turn an alert that the script itself raised (``run.alert``) into a finding. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tocsin_server.core.models import SCRIPT_ALERT, AlertState, Diagnosis, Evidence, Finding, Severity

KIND = "alert"
"""Kind of the event that reports it."""
TITLE = "title"
"""Label that distinguishes the alerts of a script."""
LONGEST_TITLE = 200
LONGEST_TEXT = 4_000
MOST_TITLES = 100
"""Maximum number of alerts of a run with different titles. Further titles share one alert."""
CAUSE = "The script raised this alert itself."


def script_finding(
    data: Mapping[str, Any], *, step: int | None, time_ns: int, known: Collection[str]
) -> Finding | None:
    """Return the finding for an alert of the script, or None if it has no title.

    Args:
        data: ``title``, ``text``, ``severity``, and ``resolved`` if the alert of this title is over.
        step: The step of the event.
        time_ns: Its time, Unix ns.
        known: Titles that have an alert already.
    """
    title = " ".join(str(data.get("title") or "").split())[:LONGEST_TITLE]
    if not title:
        return None
    text = str(data.get("text") or "").strip()[:LONGEST_TEXT]
    given = str(data.get("severity") or "")
    return Finding(
        rule=SCRIPT_ALERT,
        severity=Severity(given) if given in set(Severity) else Severity.WARNING,
        state=AlertState.RESOLVED if data.get("resolved") else AlertState.FIRING,
        subject="",
        onset_step=step,
        onset_ns=time_ns,
        step=step,
        time_ns=time_ns,
        summary=title,
        diagnosis=Diagnosis(cause=CAUSE, evidence=(Evidence("text", text),) if text else ()),
        labels={TITLE: title} if title in known or len(known) < MOST_TITLES else {},
    )
