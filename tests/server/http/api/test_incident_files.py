"""The files of an incident over the API: its postmortem and its report."""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Callable
from typing import Any

import httpx

from tests.server.http.api.test_channels import ask
from tests.server.http.api.test_incidents import NAN, opened

HOSTILE = "![x](http://evil.example/p.png) | <img src=x> @all `"
MARKED = r"(?<!\\)(?:\[x|<img|`|\*|_)|@all"
"""Unescaped Markdown, or a mention."""


def fetched(server: Any, incident: str, kind: str, **asked: str) -> httpx.Response:
    address = f"{server.base}/api/v1/incidents/{incident}/{kind}"
    return httpx.get(address, params=asked, headers=server.headers, timeout=30)


def text_of(server: Any, incident: str) -> str:
    return fetched(server, incident, "postmortem", format="markdown").text


def test_a_postmortem_is_markdown_with_its_charts(server: Any, trainer: Callable[..., Any]) -> None:
    """Every picture that the Markdown shows is in the ZIP file, and nothing else."""
    response = fetched(server, opened(server, trainer)["id"], "postmortem")
    assert response.headers["content-type"] == "application/zip"
    archive = zipfile.ZipFile(io.BytesIO(response.content))
    (folder,) = {name.partition("/")[0] for name in archive.namelist()}
    text = archive.read(f"{folder}/postmortem.md").decode()
    charts = {f"{folder}/{path}" for path in re.findall(r"\]\((charts/[^)]+\.png)\)", text)}
    assert {*archive.namelist()} == {f"{folder}/postmortem.md", *charts}
    assert all(archive.read(name).startswith(b"\x89PNG") for name in charts)
    assert len(charts) == 2


def test_a_postmortem_says_what_happened_and_what_it_cost(
    server: Any, trainer: Callable[..., Any], kind: str
) -> None:
    run = trainer(project=f"postmortem {kind}")
    run.records(NAN)
    (incident,) = server.get("/incidents", run=run.run, state="open")["items"]
    text = text_of(server, incident["id"])
    heads = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert heads == ["Summary", "Impact", "Cause", "Timeline", "Actions", "Alerts"]
    assert "| Onset | step 10, " in text
    assert "9 steps and " in text
    assert re.search(r"^- \[ \] .+", text, re.MULTILINE)


def test_a_postmortem_names_who_acknowledged(server: Any, trainer: Callable[..., Any]) -> None:
    incident = opened(server, trainer)["id"]
    assert "| Acknowledged | no |" in text_of(server, incident)
    ask(server, "POST", f"/incidents/{incident}/ack", {"note": "lr halved"})
    assert "| Acknowledged | by admin login link, " in (text := text_of(server, incident))
    assert "Acknowledged by admin login link: lr halved" in text


def test_the_name_of_a_run_cannot_inject_markdown(server: Any, trainer: Callable[..., Any]) -> None:
    """No picture, link, mention or table cell."""
    run = trainer(name=HOSTILE)
    run.records(NAN)
    (incident,) = server.get("/incidents", run=run.run, state="open")["items"]
    lines = [line for line in text_of(server, incident["id"]).splitlines() if "evil" in line]
    assert len(lines) == 2
    assert [line for line in lines if re.search(MARKED, line)] == []
    assert len(re.findall(r"(?<!\\)\|", lines[1])) == 3


def test_a_report_of_an_incident_shows_only_its_alerts(server: Any, trainer: Callable[..., Any]) -> None:
    """An incident that resolved before is not in the report of a later one."""
    run = trainer()
    losses = [1.0 + 0.01 * (step % 7) for step in range(900)]
    losses[100] = losses[-1] = losses[-2] = math.nan
    run.records({"loss": losses})
    (late,) = server.get("/incidents", run=run.run, state="open")["items"]
    (early,) = server.get("/incidents", run=run.run, state="resolved")["items"]
    page = fetched(server, late["id"], "report").text
    shown = set(re.findall(r'data-alert="([^"]+)"', page))
    assert shown == {alert["id"] for alert in late["alerts"]}
    assert early["alerts"][0]["id"] not in shown
    assert "<h2>Impact</h2>" in page


def test_an_unknown_incident_has_no_files(server: Any) -> None:
    found = [fetched(server, "r_none.f.1", kind).status_code for kind in ("postmortem", "report")]
    assert found == [404, 404]
