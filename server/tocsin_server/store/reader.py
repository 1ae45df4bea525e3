"""The read API of the store. Thread-safe: each method uses its own read transaction.

Methods raise database errors (``sqlalchemy.exc``) if the database is unavailable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection

from tocsin_server.core.models import RunEvent
from tocsin_server.store import (
    alert_rows,
    incident_rows,
    layer_rows,
    pagination,
    recovery,
    run_rows,
    series_window,
)
from tocsin_server.store.acks import acks_in_force
from tocsin_server.store.database import Database
from tocsin_server.store.metric_summaries import MetricSummaries, MetricSummary, metric_names
from tocsin_server.store.results import (
    AlertPage,
    AlertStep,
    EventPage,
    IncidentPage,
    RecordPage,
    Recovery,
    SeriesAnswer,
    StoredAlert,
    StoredIncident,
    StoredRun,
)


class StoreReader:
    """Reads the store; each answer is one consistent snapshot."""

    def __init__(self, database: Database) -> None:
        self._engine = database.reader
        self._summaries = MetricSummaries()

    @contextmanager
    def consistent(self) -> Iterator[Connection]:
        """Return a read transaction for several queries on one snapshot."""
        with self._engine.begin() as connection:
            yield connection

    def existing_runs(self, run_ids: Collection[str]) -> set[str]:
        """Return those of these runs that are not deleted."""
        with self._engine.begin() as connection:
            return run_rows.existing(connection, run_ids)

    def runs(self, run_ids: Collection[str] | None = None) -> list[StoredRun]:
        """Return all runs or these, newest first, without their lists of attempts, writers and series."""
        with self._engine.begin() as connection:
            return run_rows.read_runs(connection, run_ids=run_ids)

    def active_runs(self) -> list[StoredRun]:
        """Return the runs that have not ended."""
        with self._engine.begin() as connection:
            return run_rows.read_runs(connection, active=True)

    def unsettled_runs(self) -> list[StoredRun]:
        """Return failed runs with unresolved alerts; they wait for another attempt."""
        with self._engine.begin() as connection:
            return run_rows.read_unsettled(connection)

    def run(self, run_id: str) -> StoredRun | None:
        """Return one run with its lists, or None."""
        with self._engine.begin() as connection:
            return run_rows.read_run(connection, run_id)

    def run_head(self, run_id: str) -> StoredRun | None:
        """Return one run with the times of its attempts, without steps, writers and series, or None."""
        with self._engine.begin() as connection:
            return run_rows.read_head(connection, run_id)

    def series(
        self,
        run_id: str,
        names: Sequence[str] | None,
        *,
        start: float | None = None,
        stop: float | None = None,
        buckets: int = 2000,
        x: str = "step",
        log_from: float | None = None,
    ) -> SeriesAnswer:
        """Return series in a window: exact with at most ``buckets`` values, else in that many buckets.

        Args:
            run_id: The run.
            names: Names of series; None for all. An unknown name has no layers.
            start: Start of the window, included, in units of ``x``.
            stop: End of the window, included, in units of ``x``.
            buckets: Maximum number of values or buckets.
            x: ``step``, or ``time`` in Unix ms.
            log_from: Use buckets for a logarithmic axis of the distance from this step; only with ``step``.

        Raises:
            ValueError: ``x`` is neither.
        """
        if x not in ("step", "time"):
            raise ValueError(f"x: expected step or time, got {x!r}")
        with self._engine.begin() as connection:
            asked = series_window.Window(start, stop, x, log_from)
            return series_window.read_series(connection, run_id, names, asked, max(1, buckets))

    def metric_summaries(
        self,
        run_ids: Sequence[str],
        names: Sequence[str],
        means: Mapping[str, Collection[int]] | None = None,
    ) -> dict[str, dict[str, MetricSummary]]:
        """Return the newest, lowest and highest value of these series, by run and name.

        ``means`` has, by series, the numbers of newest values whose means are returned.
        """
        with self._engine.begin() as connection:
            return self._summaries.read(connection, run_ids, names, means)

    def metric_names(self, project: str | None, limit: int) -> tuple[list[tuple[str, int]], bool]:
        """Return the most frequent names of series with their numbers of runs, and whether there are more."""
        with self._engine.begin() as connection:
            return metric_names(connection, project, limit)

    def since(self, run_id: str, names: Sequence[str], cursor: int) -> SeriesAnswer | None:
        """Return the exact records after arrival ``cursor``, or None if they are too many for a delta."""
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
        since: int | None = None,
    ) -> RecordPage:
        """Return a page of the records with a step from ``start`` to ``stop`` (both included).

        With ``since``, only of those that arrived after this arrival number.

        Raises:
            ValueError: ``after`` is not the ``next`` of an earlier page.
        """
        with self._engine.begin() as connection:
            asked = series_window.Window(start, stop, "step")
            return pagination.read_records(connection, run_id, names, asked, after, max(1, limit), since)

    def last_arrival(self, run_id: str) -> int:
        """Return the newest arrival number of a run, -1 if nothing has arrived."""
        with self._engine.begin() as connection:
            return series_window.last_arrival(connection, run_id)

    def events(
        self, run_id: str, *, after: str | None = None, limit: int = 1000, without: Sequence[str] = ()
    ) -> EventPage:
        """Return a page of events in order of arrival, except the kinds in ``without``.

        Raises:
            ValueError: ``after`` is not the ``next`` of a page.
        """
        with self._engine.begin() as connection:
            return pagination.read_events(connection, run_id, after, max(1, limit), without)

    def layers(self, run_id: str, *, start: int | None, stop: int | None, limit: int) -> list[RunEvent]:
        """Return events about gradient norms of layers (``layer_rows.read_layers``)."""
        with self._engine.begin() as connection:
            return layer_rows.read_layers(connection, run_id, start=start, stop=stop, limit=limit)

    def media(self, run_id: str, limit: int) -> list[RunEvent]:
        """Return the newest events about images, histograms, texts and tables, in order of arrival."""
        with self._engine.begin() as connection:
            return layer_rows.read_media(connection, run_id, limit)

    def media_content(self, run_id: str, digest: str) -> RunEvent | None:
        """Return the event with the content of an object, or None."""
        with self._engine.begin() as connection:
            return layer_rows.read_content(connection, run_id, digest)

    def console(
        self, run_id: str, *, before: int | None = None, after: int | None = None, limit: int = 100
    ) -> list[RunEvent]:
        """Return events with lines of output, in order of arrival (``layer_rows.read_console``)."""
        with self._engine.begin() as connection:
            return layer_rows.read_console(connection, run_id, before=before, after=after, limit=limit)

    def checkpoints(self, run_id: str, limit: int) -> list[RunEvent]:
        """Return the newest events about checkpoints, in order of arrival."""
        with self._engine.begin() as connection:
            return layer_rows.read_checkpoints(connection, run_id, limit)

    def alerts(
        self,
        run_id: str | Collection[str] | None = None,
        states: Sequence[str] | None = None,
        severities: Sequence[str] | None = None,
        limit: int = 200,
    ) -> list[StoredAlert]:
        """Return alerts, newest change first.

        Args:
            run_id: Only alerts of this run, or of these.
            states: Only these states; None for all alerts that are not over, then ``limit`` ended and
                ``limit`` resolved ones.
            severities: Only these severities.
            limit: Maximum number of alerts of the given states.
        """
        with self._engine.begin() as connection:
            return alert_rows.read_alerts(connection, run_id, states, severities, limit)

    def alert_page(
        self,
        run_id: str | None,
        states: Sequence[str] | None,
        severities: Sequence[str] | None,
        *,
        after: str,
        limit: int,
    ) -> AlertPage:
        """Return a page of alerts, newest change first. ``after`` is "" for the first page.

        An alert that changes moves to the front, so it may be missing in the later pages.

        Raises:
            ValueError: ``after`` is not the ``next`` of a page.
        """
        with self._engine.begin() as connection:
            return alert_rows.read_alert_page(connection, run_id, states, severities, after, limit)

    def incident_page(
        self, run_id: str | None, states: Collection[str] | None, *, after: str, limit: int
    ) -> IncidentPage:
        """Return a page of incidents; see ``alert_page``. With ``states``, it may have fewer than ``limit``.

        Raises:
            ValueError: ``after`` is not the ``next`` of a page.
        """
        with self._engine.begin() as connection:
            return incident_rows.read_incident_page(connection, run_id, states, after, limit)

    def alerts_since(self, fired_ns: int, limit: int) -> list[StoredAlert]:
        """Return alerts that fired since then, the newest first, whatever their state is now."""
        with self._engine.begin() as connection:
            return alert_rows.read_alerts_since(connection, fired_ns, limit)

    def incidents(
        self,
        run_id: str | None = None,
        states: Collection[str] | None = None,
        limit: int = 200,
        project: str | None = None,
    ) -> list[StoredIncident]:
        """Return incidents of a run, of a project or of all, the newest change first.

        At most ``limit`` of each state are returned.
        """
        with self._engine.begin() as connection:
            return incident_rows.read_incidents(connection, run_id, states, limit, project)

    def incident(self, incident_id: str) -> StoredIncident | None:
        """Return one incident, or None."""
        with self._engine.begin() as connection:
            return incident_rows.read_incident(connection, incident_id)

    def alert(self, alert_id: str) -> StoredAlert | None:
        """Return one alert, or None."""
        with self._engine.begin() as connection:
            return alert_rows.read_alert(connection, alert_id)

    def acknowledged(self, alert_ids: Iterable[str]) -> set[str]:
        """Return those of these alerts that are acknowledged."""
        keys = {alert_rows.alert_key(alert_id): alert_id for alert_id in alert_ids}
        if not keys:
            return set()
        with self._engine.begin() as connection:
            found = acks_in_force(connection, {key[0] for key in keys if key is not None})
        return {keys[key] for key in found if key in keys}

    def alert_history(self, alert_id: str) -> list[AlertStep]:
        """Return the transitions of one alert, oldest first; empty if it is unknown."""
        with self._engine.begin() as connection:
            return alert_rows.read_history(connection, alert_id)

    def recovery(self, run_id: str, *, from_start: bool = False) -> Recovery:
        """Return what is needed to resume: the newest rule state, all later data, alerts, last arrival.

        Args:
            run_id: The run.
            from_start: Ignore the rule state; ``replay`` then yields every record of the run.

        Returns:
            The recovery. Its ``replay`` reads the data lazily in pages, once (see ``store/replay.py``).
        """
        return recovery.read_recovery(self._engine, run_id, from_start=from_start)
