"""Read the data of a report from the store: bounded, with counts of what was left out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tocsin_server.core.causal_order import by_cause
from tocsin_server.core.errors import TocsinError
from tocsin_server.core.models import RunEvent
from tocsin_server.report.ranks import merged_ranks
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.results import AlertStep, SeriesLayer, StoredAlert, StoredIncident, StoredRun

VITAL_SIGNS = ("loss", "grad_norm", "scale", "lr")
MOST_SERIES = 48
MOST_ALERTS = 100
MOST_EVENTS = 300
MOST_EVENT_PAGES = 50
MOST_RUNS = 200
MOST_ATTEMPTS = 200
MOST_FAILED_TOGETHER = 20
"""Runs of one incident whose cost is given."""
FEWEST, MOST = 60, 1600
"""Minimum and maximum number of buckets of one curve."""
ITEMS = 90_000
"""Number of buckets of all curves together: about 9 MB of a report."""
AROUND = 500
"""Steps before and after its onset that the charts of an incident show."""
MACHINE = ("sys/", "hook/", "gpu_util")
"""Beginnings of the names of series of the machine and the hook, which follow those of the script."""
NOT_SHOWN = ("layers", "layer-names", "media-content", "console")


class ReportError(TocsinError):
    """There is nothing to report, or too much at once: subject, expected and got."""


@dataclass(frozen=True, slots=True)
class ReportedAlert:
    """An alert and its state changes, oldest first."""

    stored: StoredAlert
    history: tuple[AlertStep, ...]


@dataclass(frozen=True, slots=True)
class Material:
    """One run: environment, alerts (most severe first), newest events, curves by series, omitted names."""

    run: StoredRun
    alerts: tuple[ReportedAlert, ...]
    alerts_left: int
    events: tuple[RunEvent, ...]
    events_left: int
    curves: dict[str, tuple[SeriesLayer, ...]]
    left_out: tuple[str, ...]


def gather(
    reader: StoreReader, run_id: str, names: Sequence[str] | None = None, *, share: int = 1
) -> Material:
    """Return the data of a run.

    Args:
        reader: The store.
        run_id: The run.
        names: The series to include; None for the vital signs, then all others by name.
        share: Number of runs that share the budget of curves.

    Raises:
        ReportError: There is no such run.
    """
    stored = reader.run(run_id)
    if stored is None:
        raise ReportError(f"Run {run_id!r} not found.")
    room = series_for(_attempts(stored) * share)
    wanted, left_out = choose([one.name for one in stored.series], names, room)
    alerts, alerts_left = _alerts(reader, run_id)
    events, events_left = _events(reader, run_id)
    drawn = _curves(reader, stored, wanted, share)
    return Material(stored, alerts, alerts_left, events, events_left, drawn, left_out)


def runs_of(reader: StoreReader, stored: StoredIncident) -> list[StoredRun]:
    """Return the first runs of an incident, that of its lead first."""
    ids = list(dict.fromkeys([stored.incident.lead.run_id, *stored.runs]))[:MOST_FAILED_TOGETHER]
    return [run for run in map(reader.run, ids) if run is not None]


def gather_incident(reader: StoreReader, stored: StoredIncident) -> Material:
    """Return the data of an incident: its alerts, and the curves of its signals around the onset.

    Raises:
        ReportError: Its run does not exist any more.
    """
    incident = stored.incident
    run = reader.run(incident.lead.run_id)
    if run is None:
        raise ReportError(f"Run {incident.lead.run_id!r} not found.")
    names = dict.fromkeys([incident.lead.subject, *VITAL_SIGNS])
    present = [name for name in names if any(one.name == name for one in run.series)]
    onset = incident.onset_step
    start, stop = (None, None) if onset is None else (max(0, onset - AROUND), onset + AROUND)
    curves = {
        name: tuple(
            merged_ranks(reader.series(run.id, [name], start=start, stop=stop, buckets=MOST).series[name])
        )
        for name in present
    }
    alerts = tuple(
        ReportedAlert(
            StoredAlert(alert, stored.runs[alert.run_id], stored.project),
            tuple(reader.alert_history(alert.id)[-20:]),
        )
        for alert in incident.alerts
    )
    events, events_left = _events(reader, run.id)
    return Material(run, alerts, stored.count - len(alerts), events, events_left, curves, ())


def choose(
    known: Sequence[str], names: Sequence[str] | None, room: int = MOST_SERIES
) -> tuple[list[str], tuple[str, ...]]:
    """Return at most ``room`` series to draw, vital signs first, and those beyond it."""
    metrics = sorted({*known} - {*VITAL_SIGNS, "skipped"}, key=lambda name: (name.startswith(MACHINE), name))
    others = metrics if names is None else list(dict.fromkeys(names))
    ordered = [*VITAL_SIGNS, *(name for name in others if name not in VITAL_SIGNS)]
    return ordered[:room], tuple(ordered[room:])


def series_for(curves: int) -> int:
    """Return the number of series that fit the budget if each has ``curves`` curves of few buckets."""
    return max(len(VITAL_SIGNS), min(MOST_SERIES, ITEMS // (FEWEST * max(1, curves))))


def buckets_for(curves: int) -> int:
    """Return the number of buckets per curve: as many as the budget for all of them allows."""
    return max(FEWEST, min(MOST, ITEMS // max(1, curves)))


def _curves(
    reader: StoreReader, stored: StoredRun, names: list[str], share: int
) -> dict[str, tuple[SeriesLayer, ...]]:
    """Return the curves of the newest attempts; with hundreds of attempts, each would get too few buckets.

    Series are read one at a time, because a run of hundreds of ranks does not fit in memory before merging.
    """
    present = [name for name in names if any(one.name == name for one in stored.series)]
    buckets = buckets_for(len(present) * _attempts(stored) * share)
    oldest = max((one.attempt for one in stored.attempts_list), default=0) - MOST_ATTEMPTS
    found: dict[str, tuple[SeriesLayer, ...]] = {}
    for name in present:
        layers = reader.series(stored.id, [name], buckets=buckets).series[name]
        found[name] = tuple(merged_ranks(layer for layer in layers if layer.attempt > oldest))
    return found


def _attempts(stored: StoredRun) -> int:
    """Return the number of attempts whose curves are drawn."""
    return min(len(stored.attempts_list) or 1, MOST_ATTEMPTS)


def _alerts(reader: StoreReader, run_id: str) -> tuple[tuple[ReportedAlert, ...], int]:
    found = reader.alerts(run_id, limit=10 * MOST_ALERTS)
    order = {alert.id: place for place, alert in enumerate(by_cause(one.alert for one in found))}
    found.sort(key=lambda one: (not one.alert.is_open, order[one.alert.id]))
    reported = tuple(
        ReportedAlert(one, tuple(reader.alert_history(one.alert.id)[-20:])) for one in found[:MOST_ALERTS]
    )
    return reported, len(found) - len(reported)


def _events(reader: StoreReader, run_id: str) -> tuple[tuple[RunEvent, ...], int]:
    """Return the newest events, and the number of older ones."""
    kept: deque[RunEvent] = deque(maxlen=MOST_EVENTS)
    seen, after = 0, None
    for _ in range(MOST_EVENT_PAGES):
        page = reader.events(run_id, after=after, limit=1000, without=NOT_SHOWN)
        kept.extend(page.items)
        seen += len(page.items)
        after = page.next
        if after is None:
            break
    return tuple(kept), seen - len(kept)
