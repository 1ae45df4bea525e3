"""The layout of the run pages of a project is saved for all users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest

LAYOUT = "pin=val%2Fpsnr&panel=formula%3Aa+-+b&size=2x240%3Aval%2Fpsnr"


@pytest.fixture
def ask(server: Any) -> Callable[..., httpx.Response]:
    """``ask(method, project, body)``: the response of the route."""

    def send(method: str, project: str, body: Any = None) -> httpx.Response:
        address = f"{server.base}/api/v1/projects/{quote(project, safe='')}/layout"
        return httpx.request(method, address, json=body, headers=server.headers, timeout=60)

    return send


@pytest.fixture
def project(trainer: Callable[..., Any]) -> str:
    """A project with a run; its name has a slash."""
    name = "team/layout"
    trainer(project=name)
    return name


def test_a_layout_is_saved_as_it_was_sent(ask: Callable[..., httpx.Response], project: str) -> None:
    """Empty before; an empty one is the standard again."""
    ask("PUT", project, {"layout": ""}).raise_for_status()
    saved = ask("PUT", project, {"layout": LAYOUT}).json()
    assert saved["layout"] == LAYOUT
    assert ask("GET", project).json() == saved
    ask("PUT", project, {"layout": ""}).raise_for_status()
    assert ask("GET", project).json()["layout"] == ""


def test_a_project_without_a_layout_has_the_standard_one(
    ask: Callable[..., httpx.Response], trainer: Callable[..., Any]
) -> None:
    trainer(project="plain")
    assert ask("GET", "plain").json() == {"layout": "", "author": "", "updated_ms": None}


def test_names_of_renamed_runs_are_kept(
    ask: Callable[..., httpx.Response], trainer: Callable[..., Any], server: Any
) -> None:
    """Both are settings of the project: a renamed run is found by its name in the script afterwards."""
    first = trainer(project="kept", name="script")
    address = f"{server.base}/api/v1/runs/{first.run}"
    httpx.patch(address, json={"name": "better"}, headers=server.headers, timeout=60).raise_for_status()
    ask("PUT", "kept", {"layout": LAYOUT}).raise_for_status()
    again = httpx.patch(address, json={"name": "best"}, headers=server.headers, timeout=60)
    again.raise_for_status()
    assert ask("GET", "kept").json()["layout"] == LAYOUT


def test_comparisons_have_a_layout_of_their_own(server: Any, project: str) -> None:
    """Saving one leaves the other as it is."""
    address = f"{server.base}/api/v1/projects/{quote(project, safe='')}/layout"
    for page, layout in (("run", LAYOUT), ("compare", "series=acc")):
        body, asked = {"layout": layout}, {"page": page}
        httpx.put(address, json=body, params=asked, headers=server.headers, timeout=60).raise_for_status()
    found = [
        httpx.get(address, params={"page": page}, headers=server.headers, timeout=60).json()["layout"]
        for page in ("run", "compare")
    ]
    assert found == [LAYOUT, "series=acc"]


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_an_unknown_project_is_rejected(ask: Callable[..., httpx.Response], method: str) -> None:
    answer = ask(method, "nowhere", {"layout": LAYOUT} if method == "PUT" else None)
    assert (answer.status_code, answer.json()["subject"]) == (404, "project")


def test_a_layout_that_is_too_long_is_rejected(ask: Callable[..., httpx.Response], project: str) -> None:
    answer = ask("PUT", project, {"layout": "x" * 30_001})
    assert (answer.status_code, answer.json()["subject"]) == (422, "layout")
