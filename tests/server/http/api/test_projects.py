"""The list of projects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_projects_count_their_runs(server: Any, trainer: Callable[..., Any]) -> None:
    """All of them, and those that have not ended."""
    trainer(project="counted")
    done = trainer(project="counted")
    done.records({"loss": [1.0]})
    done.finish()
    projects = {row["name"]: row for row in server.get("/projects")["items"]}
    assert (projects["counted"]["runs"], projects["counted"]["active"]) == (2, 1)
