"""``GET /about``: storage, retention, pings, versions and time zone of the server, for the settings page."""

from __future__ import annotations

import datetime as dt
import platform
import shutil
from typing import Any, Literal
from urllib.parse import urlsplit

from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server import __version__
from tocsin_server.core.responses import ExactJSON
from tocsin_server.core.settings import Settings
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.resource import resource
from tocsin_server.http.services import services_of
from tocsin_server.store.vacuum import size_bytes

router = resource("about")


class Storage(TypedDict):
    """``free_bytes`` is null if the database is on another machine."""

    database: Literal["sqlite", "postgresql"]
    bytes: int
    free_bytes: int | None


class Retention(TypedDict):
    """Days that ended runs are kept, 0 for indefinitely; ``projects`` holds exceptions."""

    days: float
    projects: dict[str, float]


class Ping(TypedDict):
    """Host that the server pings while it is healthy; the full URL may be a secret."""

    host: str
    every_s: float


class About(TypedDict):
    """This server as its settings page shows it."""

    version: str
    python: str
    now_ms: float
    zone: str
    public_url: str
    storage: Storage
    retention: Retention
    ping: Ping | None
    private_addresses: bool
    runs: int


@router.get("/about", response_model=About)
def about(request: Request, _identity: Reader) -> ExactJSON:
    """Return versions, storage, retention and the ping target, without secrets."""
    services = services_of(request)
    settings, now = services.settings, dt.datetime.now().astimezone()
    local = services.database.dialect == "sqlite"
    return ExactJSON(
        {
            "version": __version__,
            "python": platform.python_version(),
            "now_ms": now.timestamp() * 1000,
            "zone": f"{now.tzname()} (UTC{now:%z})",
            "public_url": settings.public_url,
            "storage": {
                "database": services.database.dialect,
                "bytes": size_bytes(services.database),
                "free_bytes": shutil.disk_usage(settings.data_dir).free if local else None,
            },
            "retention": {"days": settings.retention_days, "projects": dict(settings.retention_projects)},
            "ping": ping_of(settings),
            "private_addresses": settings.notify_private_addresses,
            "runs": len(services.reader.runs()),
        }
    )


def ping_of(settings: Settings) -> dict[str, Any] | None:
    """Return the host that is pinged and how often, or None if pings are off."""
    if not settings.ping_url:
        return None
    return {"host": urlsplit(settings.ping_url).hostname or "", "every_s": settings.ping_s}
