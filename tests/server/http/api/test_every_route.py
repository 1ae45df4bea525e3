"""Tests of all routes, taken from the server's own description."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.matrix import represented

FILES = {"text/html", "application/zip", "image/png"}
"""Media types of routes that return files instead of JSON."""
NASTY = [math.nan, math.inf, -math.inf, -0.0]
NAMED = ["NaN", "Infinity", "-Infinity", -0.0]
HOSTILE = [
    "<b>bold</b>",
    "\"'`;--",
    "../../etc/passwd",
    "a b%2Fc?d#e&f",
    "名前\u202e‮",
    "x" * 250,
    "=1+1",
    "{}[]",
]


def get_paths(server: Any) -> list[str]:
    """Return every GET path of the API that returns JSON, below /api/v1.

    Except the message of a notification, which is text, and is tested with the senders.
    """
    paths = server.get("/openapi.json")["paths"]
    found = {path: verbs["get"] for path, verbs in paths.items() if "get" in verbs}
    return [
        path.removeprefix("/api/v1")
        for path, get in found.items()
        if FILES.isdisjoint(get["responses"]["200"]["content"]) and "{notification_id}" not in path
    ]


def strict(text: str) -> Any:
    """Parse JSON as a browser does: a bare NaN is an error."""

    def refuse(constant: str) -> float:
        raise AssertionError(f"bare {constant}")

    return json.loads(text, parse_constant=refuse)


def filled(
    path: str, run: str, alert: str, incident: str = "x", project: str = "p", rule: str = "loss-spike"
) -> str:
    """Return ``path`` with these ids."""
    path = path.replace("{run_id}", run).replace("{alert_id}", alert).replace("{rule_id}", rule)
    return path.replace("{incident_id}", incident).replace("{project}", quote(project, safe=""))


def streamed(server: Any, run: str, names: list[str] | None = None) -> Any:
    """Return the run's line of the stream of many runs, which is a POST."""
    asked = {"runs": [{"id": run}], "names": names or []}
    answer = httpx.post(f"{server.base}/api/v1/compare", headers=server.headers, json=asked)
    assert answer.status_code == 200, answer.text
    return strict(answer.text)


def test_non_finite_values_pass_every_route(server: Any, trainer: Callable[..., Any]) -> None:
    """For a run of NaN, infinities and -0.0, every response is strict JSON with the values."""
    run = trainer(config={"values": NASTY})
    run.records({"loss": NASTY, "grad_norm": NASTY, "scale": NASTY, "lr": NASTY})
    run.event("note", values=NASTY)
    alert = server.get("/alerts", run=run.run)["items"][0]
    for path in get_paths(server):
        address = filled(path, run.run, alert["id"], alert["incident"])
        answer = httpx.get(f"{server.base}/api/v1{address}", headers=server.headers)
        assert answer.status_code == 200, path
        strict(answer.text)
    assert streamed(server, run.run)["config"]["values"] == NAMED
    assert server.get(f"/runs/{run.run}")["config"]["values"] == NAMED
    assert server.get(f"/runs/{run.run}/events")["items"][0]["data"]["values"] == NAMED


@pytest.mark.parametrize("name", represented(HOSTILE, "<b>bold</b>", "../../etc/passwd", HOSTILE[4]))
def test_hostile_names_break_no_route(server: Any, trainer: Callable[..., Any], name: str) -> None:
    """Hostile names of every kind are stored unchanged, and every route responds."""
    run = trainer(project=name, name=name, tags=[name], host=name, notes=name, config={name: name})
    run.records({name: [1.0, math.nan], "loss": [1.0, math.nan]})
    run.event(name, **{name: name})
    alert = server.get("/alerts", run=run.run)["items"][0]
    for path in get_paths(server):
        address = filled(path, run.run, alert["id"], alert["incident"], name)
        answer = httpx.get(f"{server.base}/api/v1{address}", headers=server.headers)
        assert answer.status_code == 200, path
    found = server.get(f"/runs/{run.run}")
    assert (found["project"], found["name"], found["config"]) == (name, name, {name: name})
    line = streamed(server, run.run, [name])
    assert (line["project"], line["name"], line["config"]) == (name, name, {name: name})
    assert len(line["series"][name]) == 1
    assert server.get("/runs", project=name)["items"][0]["id"] == run.run
    assert len(server.get(f"/runs/{run.run}/series", names=[name, "loss"])["series"][name]) == 1


@pytest.mark.parametrize("name", [*HOSTILE, "x" * 10_000, "..", "%00", "%ff%fe", "r%0d%0aSet-Cookie:x", "/"])
def test_hostile_ids_are_404_problems(server: Any, name: str) -> None:
    """Any text in the place of an id gives a short 404 problem (or 400, 422) and never a crash."""
    for path in get_paths(server):
        if "{" not in path:
            continue
        own = name.replace("?", "%3F").replace("#", "%23")
        address = f"{server.base}/api/v1{filled(path, own, name, project=f'no {name}', rule=own)}"
        answer = httpx.get(address, headers=server.headers)
        assert answer.status_code in (400, 404, 422), (path, answer.text[:300])
        assert answer.headers["content-type"] == "application/problem+json"
        assert len(answer.content) < 3000


def test_the_description_names_every_shape(server: Any) -> None:
    """OpenAPI: each response has a schema, each error is a problem, and every reference resolves."""
    description = server.get("/openapi.json")
    text = json.dumps(description)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in description["components"]["schemas"]
    for path, verbs in description["paths"].items():
        for verb, route in verbs.items():
            answer = (
                route["responses"].get("200") or route["responses"].get("201") or route["responses"]["204"]
            )
            if verb != "delete" and FILES.isdisjoint(answer["content"]):
                content = answer["content"]
                shape = content.get("application/json") or content["application/x-ndjson"]
                assert "$ref" in json.dumps(shape), path
            failures = {status: answer for status, answer in route["responses"].items() if int(status) >= 400}
            for status, failure in failures.items():
                known = "Readiness" if (path.endswith("/ready") and status == "503") else "Problem"
                assert known in json.dumps(failure["content"]), (path, status)


def test_wrong_methods_and_paths_are_problems(server: Any) -> None:
    """405 lists all allowed methods; 404 names the path."""
    wrong = httpx.put(f"{server.base}/api/v1/rules", headers=server.headers)
    assert (wrong.status_code, wrong.json()["expected"], wrong.json()["got"]) == (405, "GET, POST", "PUT")
    assert wrong.headers["allow"] == "GET, POST"
    absent = httpx.get(f"{server.base}/api/v1/nothing", headers=server.headers)
    assert (absent.status_code, absent.json()["subject"]) == (404, "path")


@pytest.mark.parametrize("part", ["events", "layers", "media", "records", "report", "series", "restore"])
def test_a_part_of_a_run_is_no_run(server: Any, trainer: Callable[..., Any], part: str) -> None:
    """PATCH and DELETE of them return 405, and do not change a run whose id ends like that."""
    run = trainer().run
    allowed = "POST" if part == "restore" else "GET"
    for method in ("PATCH", "DELETE", "PUT"):
        answer = httpx.request(method, f"{server.base}/api/v1/runs/{run}/{part}", headers=server.headers)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


def test_answers_are_neither_stored_nor_large(server: Any, trainer: Callable[..., Any]) -> None:
    """no-store on every route; compressed if the client accepts it."""
    run = trainer()
    run.records({"loss": [float(n) for n in range(2000)]})
    for path in get_paths(server):
        answer = httpx.get(f"{server.base}/api/v1{filled(path, run.run, 'x')}", headers=server.headers)
        assert path == "/openapi.json" or answer.headers["cache-control"] == "no-store", path
    series = httpx.get(f"{server.base}/api/v1/runs/{run.run}/series", headers=server.headers)
    assert series.headers["content-encoding"] == "zstd"
