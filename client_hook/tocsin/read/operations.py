"""The operations of the API as generators of requests, without I/O; see :mod:`exchange`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from .answers import Alert, Checkpoints, Event, Incident, Run, RunDetail
from .errors import ApiError, NotFoundError, RejectedError, TokenError, UnreachableError
from .exchange import REPEATED, Answer, Asking, Found, Request, Streaming, Wait, answered
from .filters import needs_settings, run_filter
from .packed_numbers import RecordPage, SeriesAnswer
from .table import Table

T = TypeVar("T")
BUCKETS = 2000
RUNS_AT_ONCE, EVENTS_AT_ONCE = 200, 1000
ENDED = ("finished", "failed")
LOST = "lost"
LOST_PAUSE_S = 1.0
"""Least pause of ``follow`` between two requests while the run is lost."""
OUTAGE_PAUSE_S = 2.0
"""Pause of ``follow`` between two attempts to reach the server, in addition to the retries."""


class _Problem(msgspec.Struct):
    """An error of the server (RFC 9457)."""

    detail: str = ""
    subject: str = ""


class _Runs(msgspec.Struct):
    items: list[Run]
    next: str | None


class _Config(msgspec.Struct):
    id: str
    config: Any


class _Configs(msgspec.Struct):
    items: list[_Config]


class _Alerts(msgspec.Struct):
    items: list[Alert]


class _Incidents(msgspec.Struct):
    items: list[Incident]


class _Events(msgspec.Struct):
    items: list[Event]
    next: str | None


class Operations:
    """The operations on one server.

    Args:
        base: Address of the server, for messages.
        has_token: Whether a token is sent.
        retries: How often a request is repeated while the server is not available.
    """

    def __init__(self, base: str, *, has_token: bool, retries: int) -> None:
        self._base = base
        self._has_token = has_token
        self._retries = retries

    def runs(self, filter: str, project: str | None) -> Streaming[Run]:
        """Yield the runs that match a filter, newest first."""
        settings: dict[str, Any] = {}
        if needs_settings(filter):
            found = yield from self._read(Request("/configs", {"project": project}), _Configs)
            settings = {row.id: row.config for row in found.items}
        matches = run_filter(filter, settings)
        after: str | None = None
        while True:
            query = {"project": project, "sparks": False, "limit": RUNS_AT_ONCE, "after": after}
            page = yield from self._read(Request("/runs", query), _Runs)
            for run in page.items:
                if matches(run):
                    yield Found(run)
            if page.next is None:
                return
            after = page.next

    def run(self, run: str | Run) -> Asking[RunDetail]:
        """Return one run."""
        return (yield from self._of_run(run, "", {}, RunDetail))

    def metrics(
        self, run: str | Run, names: tuple[str, ...], start: float | None, stop: float | None, buckets: int
    ) -> Asking[Table]:
        """Return a table of series in buckets."""
        query = {**_series(names), "from": start, "to": stop, "buckets": buckets}
        found = yield from self._of_run(run, "/series", query, SeriesAnswer)
        return found.table()

    def records(
        self, run: str | Run, names: tuple[str, ...], start: int | None, stop: int | None
    ) -> Streaming[Table]:
        """Yield every record of a run, page by page."""
        known = yield from self._id(run)
        query = {**_series(names), "from": start, "to": stop, "format": "packed"}
        cursor = after = None
        while True:
            page = yield from self._of_run(known, "/records", {**query, "after": after}, RecordPage)
            cursor = page.cursor if cursor is None else cursor
            yield Found(page.until(cursor))
            if page.next is None:
                return
            after = page.next

    def follow(
        self,
        run: str | Run,
        names: tuple[str, ...],
        since: int | None,
        interval_s: float,
        outage_s: float,
        lost_s: float,
    ) -> Streaming[Table]:
        """Yield new records until the run has ended, or is lost, and all are read; survive an outage."""
        known = yield from self._id(run)
        query = {**_series(names), "format": "packed"}
        if since is None:
            newest = yield from self._of_run(known, "/records", {**query, "limit": 1}, RecordPage)
            since = newest.cursor
        state, missed_s, silent_s = "", 0.0, 0.0
        cursor = after = None
        while True:
            try:
                asked = {**query, "since": since, "after": after}
                page = yield from self._of_run(known, "/records", asked, RecordPage)
            except UnreachableError:
                if missed_s >= outage_s:
                    raise
                missed_s += OUTAGE_PAUSE_S
                yield Wait(OUTAGE_PAUSE_S)
                continue
            missed_s = 0.0
            if cursor is None:
                cursor, state = page.cursor, page.state
            table = page.until(cursor)
            if table.n:
                yield Found(table if page.next is None else replace(table, cursor=since))
            after = page.next
            if after is None:
                since, cursor = max(since, cursor), None
                if state != LOST:
                    silent_s = 0.0
                if state in ENDED or (state == LOST and silent_s >= lost_s):
                    return
                pause_s = interval_s if state != LOST else max(interval_s, min(LOST_PAUSE_S, lost_s))
                silent_s += pause_s
                yield Wait(pause_s)

    def events(self, run: str | Run, without: tuple[str, ...]) -> Streaming[Event]:
        """Yield the events of a run in order of arrival."""
        known = yield from self._id(run)
        after: str | None = None
        while True:
            query = {"limit": EVENTS_AT_ONCE, "after": after, "without": without or None}
            page = yield from self._of_run(known, "/events", query, _Events)
            for event in page.items:
                yield Found(event)
            if page.next is None:
                return
            after = page.next

    def checkpoints(self, run: str | Run, before: int | None) -> Asking[Checkpoints]:
        """Return the checkpoints of a run."""
        return (yield from self._of_run(run, "/checkpoints", {"before": before}, Checkpoints))

    def alerts(
        self, run: str | Run | None, state: str | None, severity: str | None, limit: int
    ) -> Asking[list[Alert]]:
        """Return alerts, newest change first."""
        known = None if run is None else (yield from self._id(run))
        query = {"run": known, "state": state, "severity": severity, "limit": limit}
        return (yield from self._read(Request("/alerts", query), _Alerts)).items

    def alert(self, id: str) -> Asking[Alert]:
        """Return one alert."""
        return (yield from self._read(Request(f"/alerts/{_quoted(id)}"), Alert))

    def incidents(self, run: str | Run | None, state: str | None, limit: int) -> Asking[list[Incident]]:
        """Return incidents, newest change first."""
        known = None if run is None else (yield from self._id(run))
        query = {"run": known, "state": state, "limit": limit}
        return (yield from self._read(Request("/incidents", query), _Incidents)).items

    def incident(self, id: str) -> Asking[Incident]:
        """Return one incident."""
        return (yield from self._read(Request(f"/incidents/{_quoted(id)}"), Incident))

    def acknowledge(self, kind: str, id: str, note: str) -> Asking[Answer]:
        """Acknowledge an alert or an incident."""
        body = msgspec.json.encode({"note": note})
        return (yield from self._get(Request(f"/{kind}/{_quoted(id)}/ack", method="POST", body=body)))

    def get(self, path: str, query: Mapping[str, Any]) -> Asking[Any]:
        """Return the JSON of any path."""
        request = Request(path, query)
        return self._decoded(request, (yield from self._get(request)), object)

    def post(self, path: str, body: Mapping[str, Any]) -> Asking[Any]:
        """Send JSON to any path and return the JSON of the answer."""
        request = Request(path, method="POST", body=msgspec.json.encode(body))
        return self._decoded(request, (yield from self._get(request)), object)

    def export(self, run: str | Run, names: tuple[str, ...], form: str) -> Asking[Request]:
        """Return the request whose answer is a whole run as a file, after checking that the run exists."""
        known = yield from self._id(run)
        return Request(f"/runs/{_quoted(known)}/records", {**_series(names), "format": form})

    # Runs by id or name

    def _id(self, run: str | Run) -> Asking[str]:
        """Return the id of a run given by id or name."""
        return run.id if isinstance(run, Run) else (yield from self.run(run)).id

    def _of_run(self, run: str | Run, what: str, query: Mapping[str, Any], kind: type[T]) -> Asking[T]:
        """Return what is below the address of a run, which is an id or a name that only one run has."""
        given = run.id if isinstance(run, Run) else run
        if not given:
            raise RejectedError("The id or name of a run is empty.")
        asked = Request(f"/runs/{_quoted(given)}{what}", query)
        answer = yield from answered(asked, self._retries)
        if answer.status == 404:
            named = yield from self._named(given)
            asked = Request(f"/runs/{_quoted(named.id)}{what}", query)
            answer = yield from answered(asked, self._retries)
        return self._decoded(asked, answer, kind)

    def _named(self, name: str) -> Asking[Run]:
        """Return the run with this name, or ``project/name``.

        Raises:
            NotFoundError: No run has it, or several.
        """
        known: list[Run] = []
        stream = self.runs("", None)
        answer = None
        while True:
            try:
                step = stream.send(answer)  # type: ignore[arg-type] # None starts a generator
            except StopIteration:
                break
            answer = None
            if isinstance(step, Found):
                known.append(step.value)
            else:
                answer = yield step
        named = [run for run in known if name in (run.name, f"{run.project}/{run.name}")]
        if len(named) == 1:
            return named[0]
        if named:
            ids = ", ".join(run.id for run in named[:5])
            raise NotFoundError(f"{len(named)} runs are named {name!r}. Use an id: {ids}.")
        raise NotFoundError(f"There is no run {name!r} on {self._base}.{_did_you_mean(name, known)}")

    # Answers

    def _read(self, request: Request, kind: type[T]) -> Asking[T]:
        answer = yield from self._get(request)
        return self._decoded(request, answer, kind)

    def _get(self, request: Request) -> Asking[Answer]:
        answer = yield from answered(request, self._retries)
        self.check(request, answer)
        return answer

    def _decoded(self, request: Request, answer: Answer, kind: type[T]) -> T:
        self.check(request, answer)
        try:
            return msgspec.json.decode(answer.body, type=kind, strict=False)
        except msgspec.MsgspecError as error:
            place = f"{self._base}{request.target.partition('?')[0]}"
            why = f"The answer of {place} is not that of a tocsin server of this version ({error})."
            raise UnreachableError(f"{why} Check TOCSIN_URL, or update tocsin.") from error

    def check(self, request: Request, answer: Answer) -> None:
        """Raise the error that an answer stands for, if it does.

        Raises:
            UnreachableError: There was no answer, or 429, 502, 503 or 504.
            TokenError: 401 or 403.
            NotFoundError: 404.
            RejectedError: Another status of 400 to 499.
            ApiError: Any other status but 200 to 299.
        """
        status = answer.status
        if 200 <= status < 300:
            return
        if not status:
            advice = (
                "Is the server running? Set TOCSIN_URL or pass url=; `tocsin doctor` checks the connection."
            )
            raise UnreachableError(f"No answer from {self._base}: {answer.failure}. {advice}")
        detail = _problem(answer).detail or f"{self._base}{request.target}"
        if status in (401, 403):
            raise TokenError(self._token_advice(request, status, detail))
        sentence = f"The server answered {status}: {detail}"
        if status == 404:
            raise NotFoundError(detail if _problem(answer).detail else sentence)
        if status in REPEATED:
            raise UnreachableError(f"{self._base} is not available at the moment ({status}): {detail}")
        raise RejectedError(sentence) if 400 <= status < 500 else ApiError(sentence)

    def _token_advice(self, request: Request, status: int, detail: str) -> str:
        scope = "read" if request.method == "GET" else "write"
        if status == 403:
            what = f"{self._base} does not allow this with your token (403): {detail}"
        elif self._has_token:
            what = f"{self._base} rejected the token (401): it is unknown or revoked."
        else:
            what = f"{self._base} needs a token (401), and none is set."
        command = f"tocsin-server token create NAME --scope {scope}"
        return f"{what} Run `{command}` on the server, then set TOCSIN_TOKEN or pass token=."


def _series(names: Iterable[str]) -> dict[str, Any]:
    """Return the query for series; one with a comma in its name needs the parameter twice."""
    found = list(dict.fromkeys(names))
    return {"names": (found * 2 if len(found) == 1 and "," in found[0] else found) or None}


def _quoted(id: str) -> str:
    return quote(id, safe="")


def _problem(answer: Answer) -> _Problem:
    try:
        return msgspec.json.decode(answer.body, type=_Problem)
    except msgspec.MsgspecError:
        return _Problem()


def _did_you_mean(name: str, known: Iterable[Run]) -> str:
    """Return " Did you mean ...?" with up to three similar names or ids, or an empty text."""
    runs: dict[str, Run] = {}
    for run in known:
        for word in (run.id, run.name, f"{run.project}/{run.name}"):
            runs.setdefault(word.lower(), run)
    close = get_close_matches(name.lower(), runs, n=6, cutoff=0.6)
    found = list(dict.fromkeys(f"{runs[word].project}/{runs[word].name} ({runs[word].id})" for word in close))
    if not found:
        return " `tocsin runs list` or `Api.runs()` lists them."
    return f" Did you mean {' or '.join(found[:3])}?"
