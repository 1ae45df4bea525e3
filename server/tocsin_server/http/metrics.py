"""``/metrics``: the server's metrics for Prometheus. docs/reference/metrics.md lists them.

It requires a token with scope read, on loopback too. The metrics of this process are available even if the
database does not respond, which ``tocsin_database_up`` reports.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from tocsin_server import __version__
from tocsin_server.core.models import RunState, Severity
from tocsin_server.delivery.service import FAILED_NS
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.connections import LIMITS
from tocsin_server.http.services import Services, services_of
from tocsin_server.runs.health import health_of
from tocsin_server.store.connection import SQLAlchemyError
from tocsin_server.store.gauges import Gauges, read_gauges

router = APIRouter(include_in_schema=False)

PATH = "/metrics"
OUTCOMES = ("sent", "retry", "failed")


@router.get(PATH)
def metrics(request: Request, _identity: Reader) -> Response:
    """Return all metrics in the Prometheus text format."""
    registry = CollectorRegistry()
    registry.register(_Scrape(services_of(request)))
    ProcessCollector(registry=registry)
    headers = {"cache-control": "no-store"}
    return Response(generate_latest(registry), headers=headers, media_type=CONTENT_TYPE_LATEST)


@dataclass(eq=False)
class _Scrape(Collector):
    """One scrape of a running server."""

    services: Services

    def collect(self) -> Iterator[Metric]:
        yield from of_process(self.services)
        found = _stored(self.services)
        yield _gauge("database_up", "Whether the database answers.", float(found is not None))
        if found is not None:
            yield from of_database(found)


def _stored(services: Services) -> Gauges | None:
    now_ns = time.time_ns()
    try:
        with services.database.reader.connect() as connection:
            return read_gauges(connection, now_ns, now_ns - FAILED_NS)
    except SQLAlchemyError:
        return None


def of_process(services: Services) -> Iterator[Metric]:
    """Yield the counters of this process since its start, and its current state."""
    inside, taken = health_of(services.pipeline), services.pipeline.counts
    build = GaugeMetricFamily("tocsin_build_info", "The running version.", labels=["version"])
    build.add_metric([__version__], 1.0)
    yield build
    yield _counter("records", "Records received.", taken.records)
    yield _counter("points", "Values in these records.", taken.points)
    yield _counter("batches", "Messages that contained them.", taken.batches)
    yield _counter("events", "Events received.", taken.events)
    yield _counter("rejections", "Rejections reported to training processes.", inside["rejected"])
    yield _counter("client_dropped_records", "Records that training processes dropped.", inside["gaps"])
    connections = services.connections
    yield _gauge("connections", "Open connections.", len(connections))
    yield _gauge("connections_limit", "Maximum number of connections.", connections.bounds.total)
    closed = CounterMetricFamily(
        "tocsin_connections_closed", "Connections that were closed or rejected by a limit.", labels=["limit"]
    )
    for limit in LIMITS:
        closed.add_metric([limit], connections.closed[limit])
    yield closed
    yield _counter(
        "rejected_write_batches",
        "Write batches that the database rejected because of their content.",
        inside["rejected_write_batches"],
    )
    yield _counter("rule_evaluation_seconds", "Time spent evaluating rules.", taken.evaluated_s)
    yield _gauge("rule_crashes", "Rule crashes in the runs in memory.", inside["rule_crashes"])
    yield _gauge("rule_processes", "Processes that evaluate rules.", inside["rule_processes"])
    yield _counter(
        "rule_process_restarts", "Rule processes that ended unexpectedly.", inside["rule_process_restarts"]
    )
    yield _gauge("backlog_bytes", "Bytes accepted but not durable yet.", inside["backlog_bytes"])
    yield _gauge(
        "backlog_limit_bytes",
        "Backlog above which the server stops reading from training processes.",
        inside["backlog_limit_bytes"],
    )
    yield _gauge(
        "commit_lag_seconds",
        "How long the oldest record that is not durable has waited.",
        inside["lag_ms"] / 1000,
    )
    yield _gauge(
        "database_write_failing", "1 while writing to the database fails.", inside["failing"] is not None
    )
    yield _labelled("job_failures", "Failing items of each periodic job.", ["job"], _by_round(services))
    yield _gauge("training_processes", "Connections of training processes.", inside["training_processes"])
    yield _gauge("live_sockets", "Open pages.", len(services.live.subscribers))
    durations = services.writer.commits
    commits = HistogramMetricFamily("tocsin_commit_seconds", "Group commits that succeeded.")
    commits.add_metric([], durations.cumulative(), durations.sum_s)
    yield commits
    yield from _of_attempts(services.delivery)


def _by_round(services: Services) -> list[tuple[tuple[str, ...], float]]:
    counted = Counter(item["job"] for item in services.pipeline.jobs.failing())
    return [((name,), float(count)) for name, count in sorted(counted.items())]


def _of_attempts(delivery: Any) -> Iterator[Metric]:
    attempts = CounterMetricFamily(
        "tocsin_delivery_attempts",
        "Attempts to deliver notifications: sent, retry (failed and tried again), failed (given up).",
        labels=["channel", "kind", "outcome"],
    )
    reported = dict(delivery.browser_notifier.attempts)
    for channel, kind in sorted({key[:2] for key in reported}):
        for outcome in OUTCOMES:
            attempts.add_metric([channel, kind, outcome], reported.get((channel, kind, outcome), 0))
    yield attempts
    pushes = [((name,), float(bool(error))) for name, error in sorted(delivery.pushes.items())]
    yield _labelled(
        "alertmanager_failing", "Whether the last push to an Alertmanager failed.", ["channel"], pushes
    )


def of_database(found: Gauges) -> Iterator[Metric]:
    """Yield the contents of the tables, whichever process wrote them."""
    runs = [((state.value,), found.runs.get(state.value, 0)) for state in RunState]
    yield _labelled("runs", "Runs by state.", ["state"], runs)
    states = ("pending", "firing", "recovering")
    alerts = [
        ((severity.value, state), found.alerts.get((state, severity.value), 0))
        for severity in Severity
        for state in states
    ]
    yield _labelled("open_alerts", "Open alerts.", ["severity", "state"], alerts)
    yield _gauge("transitions_unrouted", "Alert transitions that are not routed yet.", found.unrouted)
    channels, by = found.channels, ["channel"]
    waiting = [((each.channel,), each.waiting) for each in channels]
    yield _labelled("notifications_waiting", "Notifications that are queued or being sent.", by, waiting)
    retrying = [((each.channel,), each.retrying) for each in channels]
    yield _labelled("notifications_retrying", "Queued notifications that failed before.", by, retrying)
    failed = [((each.channel,), each.failed) for each in channels]
    yield _labelled(
        "notifications_failed", "Notifications that were given up within the last day.", by, failed
    )
    oldest = [((name,), age) for name, age in sorted(found.oldest_s.items())]
    yield _labelled("notification_oldest_seconds", "Age of the oldest queued notification.", by, oldest)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"tocsin_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"tocsin_{name}", text, value=value)


def _labelled(
    name: str, text: str, labels: list[str], values: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    family = GaugeMetricFamily(f"tocsin_{name}", text, labels=labels)
    for of, value in values:
        family.add_metric(list(of), value)
    return family
