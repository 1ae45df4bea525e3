"""``POST /diagnose``: evaluate the rules on a pasted log, as ``tocsin-server diagnose`` does on a file."""

from __future__ import annotations

import re
import tempfile
import threading
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin.importers import UnreadableLogError, open_log
from tocsin_server.core.models import AlertState, Severity
from tocsin_server.core.responses import ExactJSON, Problem
from tocsin_server.http.api.description import failing
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.shapes import Evidence, Remedy
from tocsin_server.offline.diagnose import as_data, report
from tocsin_server.offline.replay import evaluate_log

router = resource("diagnose")

MOST_CHARACTERS = 500_000
"""Maximum length of a log. ``tocsin-server diagnose`` has no limit."""
_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")
_turn = threading.Lock()
"""One log at a time, because it takes a CPU core and incoming records have priority."""


class PastedLog(Body):
    """The text of a log of any known format. ``name`` is its file name, which some formats are known by."""

    text: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    name: Annotated[str, Field(max_length=200)] = "pasted.log"


class TimelineRow(TypedDict):
    """What happened at a step, and the rule that noticed it."""

    step: int
    text: str
    rule: str


class LogAlertRow(TypedDict):
    """An alert that a rule would have fired. ``causes`` begins with the most likely one."""

    rule: str
    severity: Severity
    state: AlertState
    attempt: int
    onset_step: int | None
    fired_step: int | None
    resolved_step: int | None
    series: str
    summary: str
    evidence: list[Evidence]
    causes: list[str]
    remedies: list[Remedy]
    how_to_confirm: str
    timeline: list[TimelineRow]


class UnreadLine(TypedDict):
    """The number of a line that could not be read, and why."""

    line: int
    why: str


class UnreadLines(TypedDict):
    """How many lines could not be read, and the first of them."""

    count: int
    first: list[UnreadLine]


class DiagnosisOfLog(TypedDict):
    """What the rules find in a log. ``text`` is the report that ``tocsin-server diagnose`` prints."""

    path: str
    format: str
    records: int
    alerts: list[LogAlertRow]
    alerts_left_out: int
    first_step: int | None
    last_step: int | None
    attempts: int
    unread_lines: UnreadLines
    notes: list[str]
    text: str


@router.post("/diagnose", response_model=DiagnosisOfLog, responses=failing(429))
def diagnose(_request: Request, pasted: PastedLog, _identity: Reader) -> ExactJSON:
    """Evaluate the rules on the text of a log. Nothing is stored, and no notification is sent."""
    if not _turn.acquire(blocking=False):
        detail = "Another log is being diagnosed. Try again when that has finished."
        raise Problem(429, subject="diagnose", expected="one at a time", got="another one", detail=detail)
    try:
        return ExactJSON(_evaluated(pasted))
    finally:
        _turn.release()


def _evaluated(pasted: PastedLog) -> dict[str, Any]:
    """Evaluate the text from a file, which is how logs are read. Raises a 422 Problem if it is no log."""
    name = _PLAIN.sub("-", Path(pasted.name).name).strip(".-")[-100:] or "pasted.log"
    with tempfile.TemporaryDirectory(prefix="tocsin-") as folder:
        path = Path(folder, name)
        path.write_bytes(pasted.text.encode("utf-8", "replace"))
        try:
            result = evaluate_log(open_log(path))
        except UnreadableLogError as error:
            raise _unreadable(str(error).replace(str(path), name)) from error
    if not result.records:
        raise _unreadable(f"{name}: {result.format}, but no step with a number")
    result.path = name
    return as_data(result) | {"text": report(result)}


def _unreadable(why: str) -> Problem:
    detail = f"The log cannot be read: {why}. Paste lines that contain a step and numbers."
    return Problem(422, subject="text", expected="a log of a known format", got=why, detail=detail)
