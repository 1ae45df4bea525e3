"""The operations of the API as generators of requests, without I/O; see :mod:`exchange`."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Optional, TypeVar, Union
from urllib.parse import quote

import msgspec

from ..core.values import kind_of
from .answer_checks import AnswerChecks
from .answers import Alert, Checkpoints, ConsoleLine, Event, Incident, Run, RunDetail
from .errors import ApiError, NotFoundError, RejectedError, UnreachableError
from .exchange import Answer, Asking, Found, Request, Streaming, answered
from .filters import (
    filter_means,
    filter_metrics,
    filter_problems,
    may_name_metrics,
    needs_settings,
    run_filter,
)
from .following import Following
from .packed_numbers import ComparedRun, RecordPage, SeriesAnswer
from .table import Table

T = TypeVar("T")
BUCKETS = 2000
RUNS_AT_ONCE, MORE_RUNS_AT_ONCE = 200, 2000
"""Runs of the first page, and of each one after it. The server's work per page grows with all its runs."""
EVENTS_AT_ONCE, RUNS_COMPARED = 1000, 200
MOST_NAMES, MOST_METRICS = 5000, 20
ALERTS_AT_ONCE, INCIDENTS_AT_ONCE = 200, 50
LINES_AT_ONCE = 1000
MOST_COMPARED = 1 << 23
"""Runs x series x buckets of one comparison."""
LOG_START = -1
"""The place before the oldest line."""


class _Runs(msgspec.Struct):
    items: list[Run]
    next: str | None


class _Config(msgspec.Struct):
    id: str
    config: Any


class _Configs(msgspec.Struct):
    items: list[_Config]


class _Name(msgspec.Struct):
    name: str


class _Names(msgspec.Struct):
    items: list[_Name]


class _Alerts(msgspec.Struct):
    items: list[Alert]
    next: Optional[str] = None
    """None at the end, and from a server that has no pages."""


class _Incidents(msgspec.Struct):
    items: list[Incident]
    next: Optional[str] = None


_Changed = Union[_Alerts, _Incidents]


class _Events(msgspec.Struct):
    items: list[Event]
    next: str | None


class _Console(msgspec.Struct):
    items: list[ConsoleLine]
    older: int | None
    newer: int
    state: str


class Operations(AnswerChecks):
    """The operations on one server.

    Args:
        base: Address of the server, for messages.
        has_token: Whether a token is sent.
        retries: How often a request is repeated while the server is not available.
    """

    def __init__(self, base: str, *, has_token: bool, retries: int) -> None:
        super().__init__(base, has_token=has_token)
        self._retries = retries

    def runs(self, filter: str, project: str | None) -> Streaming[Run]:
        """Yield the runs that match a filter, newest first."""
        names: set[str] = set()
        if may_name_metrics(filter):
            known = yield from self._read(
                Request("/metric-names", {"project": project, "limit": MOST_NAMES}), _Names
            )
            names = {each.name for each in known.items}
        for problem in filter_problems(filter, names):
            place = f"{filter[problem.at : problem.end]!r} at character {problem.at + 1}"
            raise RejectedError(f"filter {filter!r}: expected {problem.expected}, got {place}")
        settings: dict[str, Any] = {}
        if needs_settings(filter):
            found = yield from self._read(Request("/configs", {"project": project}), _Configs)
            settings = {row.id: row.config for row in found.items}
        matches = run_filter(filter, settings, names)
        metrics = filter_metrics(filter, names)
        if len(metrics) > MOST_METRICS:
            raise RejectedError(f"filter: expected at most {MOST_METRICS} metrics, got {len(metrics)}")
        asked = {"metrics": metrics or None, "means": filter_means(filter, names) or None}
        after: str | None = None
        while True:
            limit = RUNS_AT_ONCE if after is None else MORE_RUNS_AT_ONCE
            query = {"project": project, "sparks": False, "limit": limit, "after": after}
            page = yield from self._read(Request("/runs", {**query, **asked}), _Runs)
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

    def compare(
        self, runs: Iterable[str | Run], names: tuple[str, ...], buckets: int
    ) -> Asking[dict[str, Table]]:
        """Return a table of series of each run, by its id, in the order of the runs."""
        _check(names)
        several = [runs] if isinstance(runs, (str, Run)) else runs
        ids = [run.id if isinstance(run, Run) else run for run in several]
        lines: list[ComparedRun] = []
        size = max(1, min(RUNS_COMPARED, MOST_COMPARED // max(1, len(names) * buckets)))
        for start in range(0, len(ids), size):
            lines += yield from self._compared(ids[start : start + size], names, buckets)
        for at, line in enumerate(lines):
            if line.error is not None and line.error.status == 404:  # it may be a name
                named = yield from self._named(line.id)
                [lines[at]] = yield from self._compared([named.id], names, buckets)
        for line in lines:
            if line.error is not None:
                raise ApiError(f"Run {line.id}: {line.error.detail}")
        return {line.id: line.table() for line in lines}

    def _compared(self, ids: list[str], names: tuple[str, ...], buckets: int) -> Asking[list[ComparedRun]]:
        wanted = {
            "runs": [{"id": id} for id in ids],
            "names": list(dict.fromkeys(names)),
            "buckets": buckets,
            "details": False,
        }
        request = Request("/compare", method="POST", body=msgspec.json.encode(wanted))
        return self._lines(request, (yield from self._get(request)), ComparedRun)

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
        self, run: str | Run, names: tuple[str, ...], since: int | None, following: Following
    ) -> Streaming[Table]:
        """Yield new records until the run has ended, or is lost, and all are read; survive an outage."""
        known = yield from self._id(run)
        query = {**_series(names), "format": "packed"}
        if since is None:
            newest = yield from self._of_run(known, "/records", {**query, "limit": 1}, RecordPage)
            since = newest.cursor
        state = ""
        cursor = after = None
        while True:
            try:
                asked = {**query, "since": since, "after": after}
                page = yield from self._of_run(known, "/records", asked, RecordPage)
            except UnreachableError as error:
                yield following.missed(error)
                continue
            following.reached()
            if cursor is None:
                cursor, state = page.cursor, page.state
            table = page.until(cursor)
            if table.n:
                yield Found(table if page.next is None else replace(table, cursor=since))
            after = page.next
            if after is None:
                since, cursor = max(since, cursor), None
                pause = following.after(state)
                if pause is None:
                    return
                yield pause

    def console(
        self, run: str | Run, contains: str, start: int | None, stop: int | None, tail: int | None
    ) -> Streaming[ConsoleLine]:
        """Yield the lines of a run's output, oldest first, each progress bar once."""
        known = yield from self._id(run)
        query = {"contains": contains or None, "from": start, "to": stop}
        if tail is not None:
            lines, _ = yield from self._last_lines(known, query, tail)
            yield from map(Found, lines)
            return
        is_open: dict[Any, ConsoleLine] = {}
        newer = LOG_START
        while True:
            page = yield from self._console_after(known, query, newer)
            for line in page.items:
                is_open.pop(line.writer, None)
                if line.open:
                    is_open[line.writer] = line
                else:
                    yield Found(line)
            if page.newer == newer:
                yield from map(Found, is_open.values())
                return
            newer = page.newer

    def follow_console(
        self, run: str | Run, contains: str, tail: int | None, following: Following
    ) -> Streaming[ConsoleLine]:
        """Yield lines until the run has ended, or is lost, and all are read; survive an outage."""
        known = yield from self._id(run)
        query = {"contains": contains or None}
        lines, newer = yield from self._last_lines(known, query, tail)
        yield from map(Found, lines)
        while True:
            try:
                page = yield from self._console_after(known, query, newer)
            except UnreachableError as error:
                yield following.missed(error)
                continue
            following.reached()
            yield from map(Found, page.items)
            if page.newer == newer:
                pause = following.after(page.state)
                if pause is None:
                    return
                yield pause
            newer = page.newer

    def _console_after(self, run: str, query: Mapping[str, Any], place: int) -> Asking[_Console]:
        asked = {**query, "after": place, "limit": LINES_AT_ONCE}
        return (yield from self._of_run(run, "/console", asked, _Console))

    def _last_lines(
        self, run: str, query: Mapping[str, Any], tail: int | None
    ) -> Asking[tuple[list[ConsoleLine], int]]:
        """Return the last ``tail`` lines, and the place after them; no line and the start for None."""
        if tail is None:
            return [], LOG_START
        asked = {**query, "limit": min(max(tail, 1), LINES_AT_ONCE)}
        page = yield from self._of_run(run, "/console", asked, _Console)
        lines, newer = page.items, page.newer
        while len(lines) < tail and page.older is not None:
            page = yield from self._of_run(run, "/console", {**asked, "before": page.older}, _Console)
            lines = page.items + lines
        return lines[len(lines) - tail if tail < len(lines) else 0 :], newer

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

    def alerts(self, run: str | Run | None, state: str | None, severity: str | None) -> Streaming[Alert]:
        """Yield alerts, active ones first, each with the newest change first."""
        known = None if run is None else (yield from self._id(run))
        query = {"run": known, "severity": severity, "limit": ALERTS_AT_ONCE}
        parts = [state] if state else ["pending,firing,recovering", "ended,resolved"]
        yield from self._by_change("/alerts", [{**query, "state": part} for part in parts], _Alerts)

    def alert(self, id: str) -> Asking[Alert]:
        """Return one alert."""
        return (yield from self._read(Request(f"/alerts/{_quoted(id)}"), Alert))

    def incidents(self, run: str | Run | None, state: str | None) -> Streaming[Incident]:
        """Yield incidents, open and mitigated ones first, each with the newest change first."""
        known = None if run is None else (yield from self._id(run))
        parts = [state] if state else ["open,mitigated", "ended,resolved"]
        query = {"run": known, "limit": INCIDENTS_AT_ONCE}
        yield from self._by_change("/incidents", [{**query, "state": part} for part in parts], _Incidents)

    def incident(self, id: str) -> Asking[Incident]:
        """Return one incident."""
        return (yield from self._read(Request(f"/incidents/{_quoted(id)}"), Incident))

    def acknowledge(self, kind: str, id: str, note: str) -> Asking[Answer]:
        """Acknowledge an alert or an incident."""
        body = msgspec.json.encode({"note": note})
        return (yield from self._get(Request(f"/{kind}/{_quoted(id)}/ack", method="POST", body=body)))

    def get(self, path: str, query: Mapping[str, Any]) -> Asking[Any]:
        """Return the JSON of any path."""
        return (yield from self._plain(Request(path, query)))

    def post(self, path: str, body: Mapping[str, Any]) -> Asking[Any]:
        """Send JSON to any path and return the JSON of the answer."""
        return (yield from self._plain(Request(path, method="POST", body=msgspec.json.encode(body))))

    def _plain(self, request: Request) -> Asking[Any]:
        """Return the JSON of an answer, as a list if it is JSON Lines."""
        answer = yield from self._get(request)
        if answer.has_lines:
            return self._lines(request, answer, object)
        return self._decoded(request, answer, object)

    def _lines(self, request: Request, answer: Answer, kind: type[T]) -> list[T]:
        lines = [replace(answer, body=line) for line in answer.body.splitlines() if line]
        return [self._decoded(request, line, kind) for line in lines]

    def export(self, run: str | Run, names: tuple[str, ...], form: str) -> Asking[Request]:
        """Return the request whose answer is a whole run as a file, after checking that the run exists."""
        known = yield from self._id(run)
        return Request(f"/runs/{_quoted(known)}/records", {**_series(names), "format": form})

    def _by_change(self, path: str, queries: list[dict[str, Any]], kind: type[_Changed]) -> Streaming[Any]:
        """Yield what lists in order of change hold, each item once.

        What changes meanwhile moves to a first page. So the first pages are read again at the end.
        """
        seen: set[str] = set()
        pages = 0
        for query in queries:
            pages += yield from self._unseen(path, query, kind, seen, until_known=False)
        if pages > len(queries):
            for query in queries:
                yield from self._unseen(path, query, kind, seen, until_known=True)

    def _unseen(
        self, path: str, query: dict[str, Any], kind: type[_Changed], seen: set[str], *, until_known: bool
    ) -> Generator[Any, Answer, int]:
        """Yield unseen items, up to a page without any if ``until_known``; return the number of pages."""
        after: str | None = ""
        pages = 0
        while after is not None:
            page = yield from self._read(Request(path, {**query, "after": after}), kind)
            new = [item for item in page.items if item.id not in seen]
            seen.update(item.id for item in new)
            yield from map(Found, new)
            pages += 1
            after = None if until_known and not new else page.next
        return pages

    # Runs by id or name

    def _id(self, run: str | Run) -> Asking[str]:
        """Return the id of a run given by id or name."""
        return run.id if isinstance(run, Run) else (yield from self.run(run)).id

    def _of_run(self, run: str | Run, what: str, query: Mapping[str, Any], kind: type[T]) -> Asking[T]:
        """Return what is below the address of a run, which is an id or a name that only one run has."""
        given = run.id if isinstance(run, Run) else run
        if not isinstance(given, str):
            raise RejectedError(f"Pass the id or the name of a run, or a Run, not {kind_of(given)}.")
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


def _series(names: Iterable[str]) -> dict[str, Any]:
    """Return the query for series; one with a comma in its name needs the parameter twice."""
    _check(names)
    found = list(dict.fromkeys(names))
    return {"names": (found * 2 if len(found) == 1 and "," in found[0] else found) or None}


def _check(names: Iterable[Any]) -> None:
    if any(not isinstance(name, str) for name in names):
        raise RejectedError('Pass the names of series one by one, such as metrics(run, "loss", "lr").')


def _quoted(id: str) -> str:
    return quote(id, safe="")


def _did_you_mean(name: str, known: Iterable[Run]) -> str:
    """Return " Did you mean ...?" with up to three similar names or ids, or an empty text."""
    runs: dict[str, Run] = {}
    for run in known:
        for word in (run.id, run.name, f"{run.project}/{run.name}"):
            runs.setdefault(word.lower(), run)
    begins = [word for word in runs if word.startswith(name.lower())][:6]
    close = begins + get_close_matches(name.lower(), runs, n=6, cutoff=0.6)
    found = list(dict.fromkeys(f"{runs[word].project}/{runs[word].name} ({runs[word].id})" for word in close))
    if not found:
        return " `tocsin runs list` or `Api.runs()` lists them."
    return f" Did you mean {' or '.join(found[:3])}?"
