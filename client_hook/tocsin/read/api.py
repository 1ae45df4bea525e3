"""``tocsin.Api``: read runs, metrics, alerts and incidents of a server."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..core.server_choice import reading_token, reading_url
from ..transport.server_url import parse_target
from .answers import Alert, Checkpoints, ConsoleLine, Event, Incident, Run, RunDetail
from .errors import TokenError
from .exchange import Answer, Asking, Found, Request, Streaming, Wait
from .following import Following
from .http_transport import HttpTransport
from .operations import BUCKETS, Operations
from .table import Gathering, Table

T = TypeVar("T")
TIMEOUT_S, RETRIES = 30.0, 3
INTERVAL_S, OUTAGE_S, LOST_S = 0.5, 300.0, 300.0
COMPARED_BUCKETS = 400
VITAL_SIGNS = ("loss", "grad_norm", "scale", "lr")
FORMATS = ("parquet", "csv", "jsonl")


class Pages(Generic[T]):
    """A stream of results, requested from the server page by page while you iterate.

    Each iteration starts again from the first page.
    """

    def __init__(self, begin: Callable[[], Iterator[T]]) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[T]:
        return self._begin()

    def all(self) -> list[T]:
        """Return all results as a list."""
        return list(self)


class Records(Pages[Table]):
    """Every record of a run, as tables of one page each. Only the current page is in memory."""

    def table(self) -> Table:
        """Return all records as one table: 8 bytes per number, with four coordinates per record."""
        gathering = Gathering()
        for page in self:
            gathering.add(page)
        return gathering.table()


def _sendable(token: str) -> str:
    """Return a token that an HTTP header can carry. The error of another one does not show it."""
    if token.isascii() and token.isprintable() and " " not in token:
        return token
    raise TokenError(
        "The token has a character that no token has, such as a space or a line break inside it. "
        "Check TOCSIN_TOKEN, token= or --token: it must be one token, without quotes or text around it."
    )


class Connected:
    """What ``Api`` and ``AsyncApi`` share: the server's address and the connections to it."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
        retries: int = RETRIES,
    ) -> None:
        target = parse_target(reading_url(url))
        self.url = target.base
        self._http = HttpTransport(target, _sendable(reading_token(target.base, token)), timeout)
        self._ask = Operations(target.base, has_token=self._http.has_token, retries=retries)

    def __repr__(self) -> str:
        return f"tocsin.{type(self).__name__}({self.url!r})"

    def close(self) -> None:
        """Close the connections. The object can still be used."""
        self._http.close_idle()


class Api(Connected):
    """A connection to a tocsin server, for scripts and notebooks. Its methods raise; the hook does not.

    A run is given by its id, by its name or ``project/name`` if only one run has it, or as a :class:`Run`.
    Requests are repeated while the server is not available. An object may be used by several threads.

    Args:
        url: Address of the server; default: ``TOCSIN_URL``, else that of ``tocsin login``, else
            ``http://127.0.0.1:8321``.
        token: A token with the scope ``read``; default: ``TOCSIN_TOKEN``, else that of ``tocsin login``.
        timeout: Seconds without a byte from the server after which a request has failed.
        retries: How often a request is repeated while the server is not available.

    Raises:
        ValueError: ``url`` is not an address.
        TokenError: The token cannot be one, such as a text of two lines.
        UnreachableError: From each method: the server did not respond. It is a ``ConnectionError``.
        TokenError: From each method: the token is missing, unknown, or may not read. It is a
            ``PermissionError``, and its message names the command that creates a token.
        NotFoundError: From each method: there is no such run, alert or incident. It is a ``LookupError``.
    """

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def runs(self, filter: str = "", *, project: str | None = None) -> Pages[Run]:
        """Return the runs that match a filter, newest first.

        Args:
            filter: As on the fleet page: ``project:deblur state:running config.lr>1e-4 -tag:debug``.
            project: Only this project.
        """
        return Pages(lambda: self._stream(self._ask.runs(filter, project)))

    def run(self, run: str | Run) -> RunDetail:
        """Return one run with its configuration, environment, series and attempts."""
        return self._done(self._ask.run(run))

    def metrics(
        self,
        run: str | Run,
        *names: str,
        start: float | None = None,
        stop: float | None = None,
        buckets: int = BUCKETS,
    ) -> Table:
        """Return series for a chart: at most ``buckets`` rows per series, attempt and rank.

        A window with fewer values is returned exactly (``Table.is_exact``). Otherwise, a row stands for
        several records and has their extremes, so that no spike and no NaN is lost. For every record, see
        :meth:`records`.

        Columns: ``series``, ``attempt``, ``rank``, ``step`` to ``step_end``, ``time_ms``; ``value`` (exact,
        or the mean of the finite values), ``min``, ``max``, ``first``, ``last``; ``n`` values, of which
        ``nan``, ``pinf`` and ``ninf`` are not finite.

        Args:
            run: The run.
            names: The series; default: loss, grad_norm, scale and lr.
            start: First step.
            stop: Last step, included.
            buckets: 50 to 8192.
        """
        return self._done(self._ask.metrics(run, names, start, stop, buckets))

    def compare(
        self, runs: Iterable[str | Run], *names: str, buckets: int = COMPARED_BUCKETS
    ) -> dict[str, Table]:
        """Return series of many runs by run id, in few requests: for charts and tables over runs.

        The tables have the columns of :meth:`metrics`, except ``first``.

        Args:
            runs: The runs.
            names: The series; default: loss, grad_norm, scale and lr.
            buckets: 50 to 8192, at most so many rows per series, attempt and rank.
        """
        return self._done(self._ask.compare(runs, names or VITAL_SIGNS, buckets))

    def records(
        self, run: str | Run, *names: str, start: int | None = None, stop: int | None = None
    ) -> Records:
        """Return every record of a run, exactly as it was sent, in tables of at most half a million numbers.

        Iterate to process a run of any length in bounded memory, or call ``.table()`` for all of it. Columns:
        ``attempt``, ``rank``, ``step``, ``time_ns``, and one per series.

        Args:
            run: The run.
            names: The series; default: all.
            start: First step.
            stop: Last step, included.
        """
        return Records(lambda: self._stream(self._ask.records(run, names, start, stop)))

    def follow(
        self,
        run: str | Run,
        *names: str,
        since: int | None = None,
        interval: float = INTERVAL_S,
        outage: float = OUTAGE_S,
        lost: float = LOST_S,
    ) -> Iterator[Table]:
        """Yield new records of a run while it trains, each record once; end when the run has ended.

        It also ends if the run is lost, which is 30 seconds without a connection to its training process,
        and does not come back. :meth:`run` then has the state ``lost``.

        Args:
            run: The run.
            names: The series; default: all.
            since: ``Table.cursor`` of an earlier table, to continue after it; -1 for all records. Default:
                only records from now on.
            interval: Seconds between two requests.
            outage: Seconds for which the server may be unavailable before this raises.
            lost: Seconds for which a lost run is followed in case it comes back; ``math.inf``: always.
        """
        return self._stream(self._ask.follow(run, names, since, Following(interval, outage, lost)))

    def console(
        self,
        run: str | Run,
        *,
        contains: str = "",
        start: int | None = None,
        stop: int | None = None,
        tail: int | None = None,
    ) -> Pages[ConsoleLine]:
        """Return the lines that the script wrote to its terminal, oldest first.

        About the newest million characters of a run are kept. A progress bar is one line: its newest state.

        Args:
            run: The run.
            contains: Only lines with this text; case does not matter.
            start: Only lines from this step on.
            stop: Only lines up to this step.
            tail: Only so many, the newest.
        """
        return Pages(lambda: self._stream(self._ask.console(run, contains, start, stop, tail)))

    def follow_console(
        self,
        run: str | Run,
        *,
        contains: str = "",
        tail: int | None = 0,
        interval: float = INTERVAL_S,
        outage: float = OUTAGE_S,
        lost: float = LOST_S,
    ) -> Iterator[ConsoleLine]:
        """Yield new lines of the script's output while it trains; end when the run has ended.

        A line with ``open`` has not ended, such as a progress bar. Its newer states follow as lines.

        Args:
            run: The run.
            contains: Only lines with this text; case does not matter.
            tail: How many lines from before now come first; None: all.
            interval: As for :meth:`follow`; so are the others.
            outage: See there.
            lost: See there.
        """
        return self._stream(self._ask.follow_console(run, contains, tail, Following(interval, outage, lost)))

    def events(self, run: str | Run, *, without: tuple[str, ...] = ()) -> Pages[Event]:
        """Return the events of a run in order of arrival, except the kinds in ``without``."""
        return Pages(lambda: self._stream(self._ask.events(run, tuple(without))))

    def checkpoints(self, run: str | Run, *, before: int | None = None) -> Checkpoints:
        """Return the checkpoints of a run, and the last one that is good to resume from.

        Args:
            run: The run.
            before: Only checkpoints before this step are good.
        """
        return self._done(self._ask.checkpoints(run, before))

    def alerts(
        self,
        run: str | Run | None = None,
        *,
        state: str | None = None,
        severity: str | None = None,
    ) -> Pages[Alert]:
        """Return alerts of a run or of all runs, each with its diagnosis; active ones first.

        Args:
            run: The run; default: all runs.
            state: One or several of pending, firing, recovering, resolved, ended; comma separated.
            severity: One or several of critical, warning, info; comma separated.
        """
        return Pages(lambda: self._stream(self._ask.alerts(run, state, severity)))

    def alert(self, id: str) -> Alert:
        """Return one alert."""
        return self._done(self._ask.alert(id))

    def incidents(self, run: str | Run | None = None, *, state: str | None = None) -> Pages[Incident]:
        """Return incidents of a run or of all runs, open and mitigated ones first.

        Args:
            run: The run; default: all runs.
            state: One or several of open, mitigated, ended, resolved; comma separated.
        """
        return Pages(lambda: self._stream(self._ask.incidents(run, state)))

    def incident(self, id: str) -> Incident:
        """Return one incident, with the checkpoint to resume from."""
        return self._done(self._ask.incident(id))

    def acknowledge_alert(self, id: str, note: str = "") -> None:
        """Acknowledge an alert, so that reminders stop. Needs a token with the scope ``write``."""
        self._done(self._ask.acknowledge("alerts", id, note))

    def acknowledge_incident(self, id: str, note: str = "") -> None:
        """Acknowledge all alerts of an incident. Needs a token with the scope ``write``."""
        self._done(self._ask.acknowledge("incidents", id, note))

    def export(self, run: str | Run, path: str | os.PathLike[str], *names: str, format: str = "") -> Path:
        """Write every record of a run to a file, in bounded memory, and return its path.

        Args:
            run: The run.
            path: The file; it is replaced once the export is complete.
            names: The series; default: all.
            format: parquet, csv or jsonl; default: the ending of ``path``; parquet if it has none.
        """
        place, form = export_of(path, format)
        self._download(self._done(self._ask.export(run, names, form)), place, None)
        return place

    def download(
        self,
        path: str,
        file: str | os.PathLike[str],
        query: Mapping[str, Any] | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> Path:
        """Write the answer of any path to a file, in bounded memory, and return the file's path.

        Args:
            path: Path below ``/api/v1``, such as ``/runs/r_1/report``.
            file: The file; it is replaced once the answer is complete.
            query: Parameters of the path.
            advance: Called with the number of bytes after each piece.
        """
        place = Path(file)
        self._download(Request(path, query or {}), place, advance)
        return place

    def _download(self, request: Request, place: Path, advance: Callable[[int], object] | None) -> None:
        body = self._http.streamed(request)
        if isinstance(body, Answer):
            self._ask.check(request, body)
        else:
            written(body, place, advance)

    def get(self, path: str, **query: Any) -> Any:
        """Return the JSON of any path below ``/api/v1``, as plain data; non-finite numbers are strings.

        JSON Lines are returned as a list.
        """
        return self._done(self._ask.get(path, query))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send JSON to any path below ``/api/v1`` and return the JSON of the answer, as :meth:`get` does."""
        return self._done(self._ask.post(path, body))

    def _done(self, steps: Asking[T]) -> T:
        """Carry out an operation and return its result."""
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = self._carried_out(step)

    def _stream(self, steps: Streaming[T]) -> Generator[T, None, None]:
        """Carry out an operation and yield its results."""
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return
            if isinstance(step, Found):
                answer = None
                yield step.value
            else:
                answer = self._carried_out(step)

    def _carried_out(self, step: Request | Wait) -> Answer | None:
        if isinstance(step, Request):
            return self._http.send(step)
        time.sleep(step.seconds)
        return None


def export_of(path: str | os.PathLike[str], form: str) -> tuple[Path, str]:
    """Return the file and the format of an export.

    Raises:
        ValueError: The format is unknown, or the ending of a file without ``form``.
        IsADirectoryError: It is a folder.
    """
    place = Path(path)
    if place.is_dir():
        raise IsADirectoryError(f"{place} is a folder. Pass the path of a file.")
    ending = place.suffix.lstrip(".").lower()
    chosen = form or ending or FORMATS[0]
    if chosen in FORMATS:
        return place, chosen
    known = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
    if form:
        raise ValueError(f"Unknown format {form!r}. Use {known}.")
    raise ValueError(f"{place}: no format has the ending .{ending}. Use {known}, or pass format=.")


def written(body: Iterator[bytes], place: Path, advance: Callable[[int], object] | None = None) -> None:
    """Write a body to a file, which replaces ``place`` once it is complete."""
    part = place.with_name(f"{place.name}.part")
    try:
        with part.open("wb") as file:
            for piece in body:
                file.write(piece)
                if advance is not None:
                    advance(len(piece))
        part.replace(place)
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no folder {place.parent}.") from None
    finally:
        part.unlink(missing_ok=True)
