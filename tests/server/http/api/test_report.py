"""Reports over the API and the command line, on a real server."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

HOSTILE = '</script><b>"x'


def report_of(server: Any, path: str, **query: Any) -> httpx.Response:
    return httpx.get(f"{server.base}/api/v1{path}", params=query, headers=server.headers, timeout=60)


def test_a_report_is_a_file_to_keep(server: Any, trainer: Callable[..., Any]) -> None:
    """An attachment with a safe name, whatever the run is called; the run's name is text in it."""
    run = trainer(name=HOSTILE, notes=HOSTILE, tags=[HOSTILE], config={HOSTILE: HOSTILE})
    run.records({"loss": [1.0, math.nan], HOSTILE: [1.0, -math.inf]})
    answer = report_of(server, f"/runs/{run.run}/report")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["content-disposition"].startswith('attachment; filename="')
    assert "<b>&quot;x" not in answer.text
    assert '<b>"x' not in answer.text
    assert "&lt;/script&gt;&lt;b&gt;&quot;x" in answer.text


@pytest.mark.parametrize("runs", [[], ["one"], [f"r{n}" for n in range(201)]])
def test_a_comparison_has_two_runs_at_least(server: Any, runs: list[str]) -> None:
    """A comparison needs at least two runs and has at most two hundred."""
    answer = report_of(server, "/compare/report", runs=runs)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")


def test_an_unknown_run_has_no_report(server: Any, trainer: Callable[..., Any]) -> None:
    """An unknown run is rejected, alone or together with a known run."""
    known = trainer().run
    assert report_of(server, "/runs/no-such-run/report").status_code == 404
    assert report_of(server, "/compare/report", runs=[known, "no-such-run"]).status_code == 404


def test_the_command_writes_the_same_report(
    start_server: Callable[..., Any], dial: Callable[..., Any], tocsin: Callable[..., Any], tmp_path: Path
) -> None:
    """The command takes ids; for an unknown run it prints one message and exits with status 2."""
    server = start_server()
    client = dial(server.base, run="r", token=server.client_token)
    client.acked(client.train([0, 1], loss=[1.0, math.nan]))
    done = tocsin("report", "r", "-o", str(tmp_path / "r.html"), "--data-dir", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "1 NaN" in (tmp_path / "r.html").read_text("utf-8")
    assert tocsin("report", "nobody", "--data-dir", str(tmp_path)).returncode == 2
