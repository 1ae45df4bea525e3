"""The reading side of the store. Thread-safe: each method has a read transaction of its own.

A method raises what the database raises where it cannot be reached (``sqlalchemy.exc``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection

from tocsin_server.core.models import RunEvent
from tocsin_server.store import alert_rows, layer_rows, pagination, recovery, run_rows, series_window
from tocsin_server.store.database import Database
from tocsin_server.store.results import (
    AlertStep,
    EventPage,
    RecordPage,
    Recovery,
    SeriesAnswer,
    StoredAlert,
    StoredRun,
)


class StoreReader:
    """Answers from one consistent moment each."""

    def __init__(self, database: Database) -> None:
        self._engine = database.reader

    @contextmanager
    def consistent(self) -> Iterator[Connection]:
        """A read transaction for several questions about one moment."""
        with self._engine.begin() as connection:
            yield connection

    def runs(self) -> list[StoredRun]:
        """Every run, newest first, without its lists of attempts, writers and series."""
        with self._engine.begin() as connection:
            return run_rows.read_runs(connection)

    def active_runs(self) -> list[StoredRun]:
        """Runs that have not ended."""
        with self._engine.begin() as connection:
            return run_rows.read_runs(connection, active=True)

    def unsettled_runs(self) -> list[StoredRun]:
        """Runs that failed and have alerts that are not over: they wait for a further attempt."""
        with self._engine.begin() as connection:
            return run_rows.read_unsettled(connection)

    def run(self, run_id: str) -> StoredRun | None:
        """One run with its lists, or None."""
        with self._engine.begin() as connection:
            return run_rows.read_run(connection, run_id)

    def series(
        self,
        run_id: str,
        names: Sequence[str] | None,
        *,
        start: float | None = None,
        stop: float | None = None,
        buckets: int = 2000,
        x: str = "step",
    ) -> SeriesAnswer:
        """Series in a window, exact where it holds at most ``buckets`` values, else in that many buckets.

        ``names`` None: all. ``start`` and ``stop`` belong to the window; their unit is that of ``x``:
        ``step``, or ``time`` in Unix ms. An unknown name has no layers. Raises ValueError for another x.
        """
        if x not in ("step", "time"):
            raise ValueError(f"x: expected step or time, got {x!r}")
        with self._engine.begin() as connection:
            asked = series_window.Window(start, stop, x)
            return series_window.read_series(connection, run_id, names, asked, max(1, buckets))

    def since(self, run_id: str, names: Sequence[str], cursor: int) -> SeriesAnswer | None:
        """The exact records that arrived after ``cursor``; None where they are too many for a delta."""
        with self._engine.begin() as connection:
            return recovery.read_since(connection, run_id, names, cursor)

    def records(
        self,
        run_id: str,
        *,
        names: Sequence[str] | None = None,
        start: int | None = None,
        stop: int | None = None,
        after: str | None = None,
        limit: int = 10_000,
    ) -> RecordPage:
        """Every record with a step from ``start`` to ``stop`` (both included), page by page.

        Raises ValueError where ``after`` is not the ``next`` of an earlier page.
        """
        with self._engine.begin() as connection:
            asked = series_window.Window(start, stop, "step")
            return pagination.read_records(connection, run_id, names, asked, after, max(1, limit))

    def events(
        self, run_id: str, *, after: str | None = None, limit: int = 1000, without: Sequence[str] = ()
    ) -> EventPage:
        """Events in order of arrival, but for some kinds. Raises ValueError where ``after`` is not the
        ``next`` of a page."""
        with self._engine.begin() as connection:
            return pagination.read_events(connection, run_id, after, max(1, limit), without)

    def layers(self, run_id: str, *, start: int | None, stop: int | None, limit: int) -> list[RunEvent]:
        """Events about gradient norms of layers (``layer_rows.read_layers``)."""
        with self._engine.begin() as connection:
            return layer_rows.read_layers(connection, run_id, start=start, stop=stop, limit=limit)

    def alerts(
        self,
        run_id: str | None = None,
        states: Sequence[str] | None = None,
        severities: Sequence[str] | None = None,
        limit: int = 200,
    ) -> list[StoredAlert]:
        """Alerts, newest change first; ``states`` None: all that are not over, then ``limit`` resolved."""
        with self._engine.begin() as connection:
            return alert_rows.read_alerts(connection, run_id, states, severities, limit)

    def alert(self, alert_id: str) -> StoredAlert | None:
        """One alert, or None."""
        with self._engine.begin() as connection:
            return alert_rows.read_alert(connection, alert_id)

    def alert_history(self, alert_id: str) -> list[AlertStep]:
        """The life of one alert, oldest first; empty for an unknown one."""
        with self._engine.begin() as connection:
            return alert_rows.read_history(connection, alert_id)

    def recovery(self, run_id: str, *, from_start: bool = False) -> Recovery:
        """What to go on from: the newest snapshot and all that came after it, alerts, last arrival.

        With ``anew`` the snapshot is passed over and ``replay`` goes over every record of the run.
        ``replay`` is read while it is gone through, once, in pages (see ``store/replay.py``).
        """
        return recovery.read_recovery(self._engine, run_id, from_start=from_start)
