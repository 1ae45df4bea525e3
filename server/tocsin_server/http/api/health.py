"""``/health``, ``/ready``: the state of the server for users, proxies and process supervisors."""

from __future__ import annotations

from typing import Any, NotRequired

from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server import __version__
from tocsin_server.core.responses import ExactJSON
from tocsin_server.http.api.resource import resource
from tocsin_server.http.services import Services, services_of
from tocsin_server.runs.health import health_of
from tocsin_server.store.connection import SQLAlchemyError

router = resource("health")


class ConnectionCounts(TypedDict):
    """``open`` of at most ``limit`` connections, those ``closed`` by a limit, and what sends records."""

    training_processes: int
    runs: int
    open: int
    limit: int
    closed: int


class DisabledRule(TypedDict):
    """A rule (``*``: all) that is evaluated no more for a run, because it did not end or raised errors."""

    run: str
    rule: str


class WriterHealth(TypedDict):
    """The record path, from the socket to the database.

    ``failing``: why records cannot be stored. ``rule_process_problem``: why the server evaluates the rules
    itself although it should use rule processes.
    """

    backlog_bytes: int
    backlog_limit_bytes: int
    commit_s: float
    failing: str | None
    pressed: bool
    flush_ms: float
    tick_ms: float
    lag_ms: float
    rule_crashes: int
    rules_disabled: list[DisabledRule]
    rule_processes: int
    rule_process_restarts: int
    rule_process_problem: str | None
    restoring: int
    rejected: int
    rejected_write_batches: int
    gaps: int


class DeliveryStatus(TypedDict):
    """Notifications that wait or failed in the last day, the failing channels, and this in a sentence."""

    waiting: int
    failed: int
    failing: list[str]
    trouble: str


class FailingJob(TypedDict):
    """Periodic work that fails and is retried, and the run that it concerns."""

    job: str
    subject: str
    reason: str
    failures: int
    since_ms: NotRequired[int]
    next_try_s: NotRequired[float]


class Health(TypedDict):
    """``status`` is ``ok``, or ``failing`` while records cannot be stored or the database is unavailable."""

    status: str
    version: str
    writer: NotRequired[WriterHealth]
    database: NotRequired[str]
    connections: NotRequired[ConnectionCounts]
    notifications: NotRequired[DeliveryStatus]
    jobs: NotRequired[list[FailingJob]]


class Readiness(TypedDict):
    """Whether a load balancer should send requests here, and if not, why."""

    ready: bool
    reason: str


@router.get("/health", response_model=Health)
async def health(request: Request) -> ExactJSON:
    """Return status and version; with a login also backlog, database, connections and errors.

    It uses neither the database nor a thread, so that it works during any outage.
    """
    services = services_of(request)
    answer: dict[str, Any] = {"status": _status(services), "version": __version__}
    if request.state.identity is not None:
        answer |= details(services) | {"notifications": services.delivery.standing}
    return ExactJSON(answer)


@router.get("/ready", response_model=Readiness, responses={503: {"model": Readiness}})
def ready(request: Request) -> ExactJSON:
    """Return 200 while the database responds and the writer commits, else 503 with the reason."""
    reason = _unready(services_of(request))
    return ExactJSON({"ready": not reason, "reason": reason}, status_code=503 if reason else 200)


def details(services: Services) -> dict[str, Any]:
    """Return the internal state that users with a login may see."""
    inside = health_of(services.pipeline)
    connections = services.connections
    counted = ConnectionCounts(
        training_processes=inside.pop("training_processes"),
        runs=inside.pop("runs"),
        open=len(connections),
        limit=connections.bounds.total,
        closed=sum(connections.closed.values()),
    )
    return {
        "writer": inside,
        "database": services.database.dialect,
        "connections": counted,
        "jobs": services.pipeline.jobs.failing(),
    }


def _status(services: Services) -> str:
    return "failing" if services.writer.failing or services.pipeline.jobs.outage else "ok"


def _unready(services: Services) -> str:
    if services.writer.failing:
        return "records cannot be stored"
    try:
        services.database.ping()
    except SQLAlchemyError:
        return "the database is unavailable"
    return ""
