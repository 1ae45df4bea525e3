"""``GET /projects``: all projects with their run counts."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from typing_extensions import TypedDict

from tocsin_server.core.responses import ExactJSON
from tocsin_server.http.api.permission import Reader
from tocsin_server.http.api.resource import resource
from tocsin_server.http.services import services_of
from tocsin_server.store.results import StoredRun

router = resource("projects")


class ProjectRow(TypedDict):
    """A project. ``active`` counts its runs that have not ended."""

    name: str
    runs: int
    active: int
    last_seen_ms: float


class ProjectList(TypedDict):
    """All projects, most recently seen first."""

    items: list[ProjectRow]


@router.get("/projects", response_model=ProjectList)
def list_projects(request: Request, _identity: Reader) -> ExactJSON:
    """List all projects that have a run."""
    found: dict[str, dict[str, Any]] = {}
    for run in services_of(request).reader.runs():
        count(found.setdefault(run.project, _empty(run.project)), run)
    rows = sorted(found.values(), key=lambda row: (-row["last_seen_ms"], row["name"]))
    return ExactJSON({"items": rows})


def _empty(name: str) -> dict[str, Any]:
    return {"name": name, "runs": 0, "active": 0, "last_seen_ms": 0.0}


def count(row: dict[str, Any], run: StoredRun) -> None:
    """Count a run in its project's row."""
    row["runs"] += 1
    row["active"] += not run.state.ended
    row["last_seen_ms"] = max(row["last_seen_ms"], run.last_seen_ns / 1e6)
