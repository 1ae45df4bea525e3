"""The baselines of a project are pinned for all users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest

PROJECT = "team/baselines"


@pytest.fixture
def ask(server: Any) -> Callable[..., httpx.Response]:
    """``ask(method, project, body)``: the response of the route."""

    def send(method: str, project: str, body: Any = None) -> httpx.Response:
        address = f"{server.base}/api/v1/projects/{quote(project, safe='')}/baselines"
        return httpx.request(method, address, json=body, headers=server.headers, timeout=60)

    return send


def test_a_baseline_is_pinned_once_and_unpinned(
    ask: Callable[..., httpx.Response], trainer: Callable[..., Any]
) -> None:
    """In order of pins; a second pin makes it the newest."""
    one, two = (trainer(project=PROJECT).run for _ in range(2))
    for run in (one, two, one):
        ask("PUT", PROJECT, {"run": run, "pinned": True}).raise_for_status()
    assert ask("GET", PROJECT).json() == {"runs": [two, one]}
    assert ask("PUT", PROJECT, {"run": two, "pinned": False}).json() == {"runs": [one]}


def test_a_run_of_another_project_is_rejected(
    ask: Callable[..., httpx.Response], trainer: Callable[..., Any]
) -> None:
    trainer(project=PROJECT)
    other = trainer(project="other").run
    answer = ask("PUT", PROJECT, {"run": other, "pinned": True})
    assert (answer.status_code, answer.json()["subject"]) == (404, "run")
    assert ask("GET", "nowhere").status_code == 404
