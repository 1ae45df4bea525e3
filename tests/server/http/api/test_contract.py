"""The API conforms to its OpenAPI description, and no request makes it fail.

Routes, parameters and bodies come from the description. With ``TOCSIN_TEST_ALL=1``, Schemathesis tries every
operation with every role extensively; ``TOCSIN_TEST_SEED`` sets its seed.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from tests.matrix import ALL, DATABASES, LONG
from tests.server.conftest import ServerProcess, server_process, wait_until
from tests.server.http.api.conftest import Trainer
from tocsin import protocol
from tocsin.protocol import Hello, WriterId

IDS = ("run_id", "alert_id", "incident_id", "project")
WORDS = (
    "", "NaN", "-inf", "1e308", "1.5", "1_0", "%201", "9007199254740993", "9223372036854775808",
    "-9223372036854775809", "0.9223372036854775808", "2147483648.0", "%D9%A3", "a%00b", "%ff", "true,",
    "9" * 5000,
)  # fmt: skip
"""Unusual values of a query parameter, percent-encoded."""
VALUES: tuple[Any, ...] = (
    None, True, -1, 1.5, 1e308, 2**63, 10**300, "", "x" * 100_000, "a\0b", "\ud800", [None], ["\ud800"],
    {}, {"\0": 1},
)  # fmt: skip
RAW = (
    b"", b"null", b"{", b"\xff", b'"\xed\xa0\x80"', b"[" * 100_000, b'{"a":' * 100_000, b"9" * 5000, b"NaN",
    b'{"a": 1, "a": 2}', b"\xef\xbb\xbf{}", b'{"a": Infinity}', b'{"name": 1e999}',
)  # fmt: skip
STRIDE = 1 if ALL else 16
"""Each parameter and body is tried with every STRIDE-th unusual value, each with others than its neighbor."""
SEED = int(os.environ.get("TOCSIN_TEST_SEED", "0"))
ROLES: dict[str, dict[str, Any]] = {
    "read": {"method": "GET"},
    "write": {"method_regex": "^(POST|PUT|PATCH|DELETE)$"},
    "admin": {"path_regex": "^/api/v1/(audit|channels|routes|tokens)"},
}
"""By scope of the token: what is tried without ``TOCSIN_TEST_ALL``."""
DOCUMENTS = "^/api/v1/(backtest|channels|diagnose|push|routes|rules|runs|silences|tokens)"
"""The fields of their bodies depend on each other and on stored data, which JSON Schema cannot express: a
body that matches the schema may still be rejected."""
OUTWARD = ("/channels/test", "/channels/{channel_id}/test")
"""Routes that send requests to other servers."""


@pytest.fixture(scope="module", params=DATABASES)
def own_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """Start a server that no other test uses, on either database."""
    options: tuple[str, ...] = ()
    if request.param == "postgresql":
        url = request.getfixturevalue("own_postgres").migrated_database()
        options = ("--database-url", url.render_as_string(hide_password=False))
    with server_process(tmp_path_factory.mktemp("odd"), *options) as running:
        yield running


@pytest.fixture(scope="module")
def known(own_server: ServerProcess) -> Iterator[dict[str, str]]:
    """Store a run with records, events of layers and an alert; return the ids for the paths."""
    who = WriterId("launch", 0, "boot", 1, time.time_ns())
    hello = Hello(version=protocol.VERSION, writer=who, token=own_server.client_token, project="p", name="n",
                  run="r_odd", world_size=1, host="node", time_ns=time.time_ns())  # fmt: skip
    with ExitStack() as stack:
        address = own_server.base.replace("http", "ws", 1) + protocol.PATH
        client = Trainer(stack.enter_context(connect(address)), hello)
        client.records({"loss": [1.0, math.nan, 2.0], "val/x": [1.0, None, 2.0]})
        client.event("layer-names", series="", table=0, names=["a"], parameters=[1])
        client.event("layers", step=1, series="", table=0, norms=[1.0])
        alerts = wait_until(lambda: own_server.get("/alerts", run="r_odd")["items"], "an alert")
        yield {
            "run_id": "r_odd", "alert_id": alerts[0]["id"], "incident_id": alerts[0]["incident"],
            "name": "amp-classic", "rule_id": "loss-spike", "project": "p",
        }  # fmt: skip


@pytest.fixture(scope="module")
def api(own_server: ServerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=own_server.base, headers=own_server.headers, timeout=60) as client:
        yield client


def operations(
    server: ServerProcess, known: dict[str, str]
) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield (verb, path as described, path with ids, operation)."""
    for path, verbs in server.get("/openapi.json")["paths"].items():
        address = path
        for name, value in known.items():
            address = address.replace(f"{{{name}}}", value)
        for verb, operation in verbs.items():
            yield verb, path.removeprefix("/api/v1"), address.replace("{", "").replace("}", ""), operation


def fault(api: httpx.Client, verb: str, address: str, body: bytes | None = None) -> str:
    """Send an unusual request; return what is wrong with the response, or an empty text."""
    try:
        answer = api.request(verb, address, content=body, headers={"content-type": "application/json"})
    except httpx.RemoteProtocolError as error:
        return repr(error)
    if answer.status_code >= 500 or answer.status_code == 405:
        return f"{answer.status_code}"
    if answer.status_code >= 400 and answer.headers.get("content-type") != "application/problem+json":
        return f"{answer.status_code} as {answer.headers.get('content-type')}"
    if answer.status_code >= 400 and len(answer.content) > 3000:
        return f"an error of {len(answer.content)} bytes"
    return ""


def test_odd_queries(own_server: ServerProcess, known: dict[str, str], api: httpx.Client) -> None:
    """Each parameter of each GET route with some of WORDS, and given twice."""
    found, turn = [], itertools.count()
    for verb, _path, address, operation in operations(own_server, known):
        names = [part["name"] for part in operation.get("parameters", ()) if part["in"] == "query"]
        if verb != "get":
            continue
        for name in names:
            extra = "&format=csv" if name in ("from", "to") and "format" in names else ""
            words = WORDS[next(turn) % STRIDE :: STRIDE]
            for query in (*(f"{name}={word}{extra}" for word in words), f"{name}=x&{name}=y"):
                wrong = fault(api, "get", f"{address}?{query}")
                if wrong:
                    found.append(f"{address}?{query[:80]}: {wrong}")
    assert not found, "\n".join(found)


def test_odd_paths(own_server: ServerProcess, known: dict[str, str], api: httpx.Client) -> None:
    """Some of WORDS in the place of an id."""
    found, turn = [], itertools.count()
    for verb, path, _address, _operation in operations(own_server, known):
        if "{" in path and path not in OUTWARD:
            for word in filter(None, WORDS[next(turn) % STRIDE :: STRIDE]):
                address = "/api/v1" + path.replace(path[path.index("{") : path.index("}") + 1], word)
                wrong = fault(api, verb, address)
                if wrong:
                    found.append(f"{verb} {address[:90]}: {wrong}")
    assert not found, "\n".join(found)


def bodies(names: Iterable[str], whole: dict[str, Any]) -> Iterator[bytes]:
    """Yield bodies with each field set to some of VALUES, and valid values in the others."""
    for first, name in enumerate([*names, "unknown"]):
        for value in VALUES[first % STRIDE :: STRIDE]:
            yield json.dumps(whole | {name: value}).encode()
    for value in VALUES:
        yield json.dumps(value).encode()
    yield from RAW


GOOD: dict[str, dict[str, Any]] = {
    "NewToken": {"name": "x", "scope": "read"},
    "NewChannel": {"name": "x", "kind": "webhook", "config": {"url": "http://127.0.0.1:9/"}},
    "NewSilence": {"matchers": ["rule=x"], "ends_ms": 2e12, "reason": "x"},
    "RuleBody": {"id": "odd", "series": "loss", "comparison": ">", "limit": 1.0, "window": "10 steps"},
    "RuleFile": {"source": "x"},
    "CopyName": {"id": "odd-copy"},
    "PackSwitch": {"enabled": False},
    "BacktestRequest": {"rule": "loss-spike", "runs": ["r_odd"]},
    "SilenceTrial": {"matchers": ["rule=x"]},
}


@LONG
def test_odd_bodies(own_server: ServerProcess, known: dict[str, str], api: httpx.Client) -> None:
    """Each field of each body with some of VALUES, and text that is barely JSON."""
    description = own_server.get("/openapi.json")
    found = []
    for verb, path, address, operation in operations(own_server, known):
        if "requestBody" not in operation or path in OUTWARD:
            continue
        reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        name = reference.rpartition("/")[2]
        schema = description["components"]["schemas"][name]
        for body in bodies(schema.get("properties", ()), GOOD.get(name, {})):
            wrong = fault(api, verb, address, body)
            if wrong:
                found.append(f"{verb} {address} {body[:90]!r}: {wrong}")
    assert not found, "\n".join(found)


def contract(server: ServerProcess, known: dict[str, str], role: str) -> Any:
    """Return the description, configured for Schemathesis with ``role``."""
    import schemathesis  # not while tests are collected: only one worker needs it
    from schemathesis.config import SchemathesisConfig

    token = server.token
    if role != "admin":
        made = httpx.post(
            f"{server.base}/api/v1/tokens", json={"name": role, "scope": role}, headers=server.headers
        )
        token = made.json()["token"]
    phases = ("examples", "coverage", "fuzzing", "stateful")
    config = SchemathesisConfig.from_dict(
        {
            "seed": SEED,
            "generation": {"max-examples": 60 if ALL else 1, "database": "none", "allow-x00": False},
            "phases": {name: {"enabled": ALL or name == "fuzzing"} for name in phases},
            "auth": {"openapi": {"token": {"bearer": token}}},
            "parameters": {name: known[name] for name in IDS} if role == "read" else {},
            "operations": [
                {
                    "include-path-regex": DOCUMENTS,
                    "include-method": ["POST", "PUT", "PATCH"],
                    "checks": {"positive_data_acceptance": {"enabled": False}},
                }
            ],
            "max-failures": 20,
        }
    )
    schema: Any = schemathesis.openapi.from_url(
        f"{server.base}/api/v1/openapi.json", headers={"authorization": f"Bearer {token}"}, config=config
    )
    if not ALL:
        schema = schema.include(**ROLES[role])
    # A random channel could point outside this machine, and an alert or a test would be sent there.
    return schema.exclude(path_regex="^/api/v1/channels", method=["POST", "PATCH"])


def broken(schema: Any) -> Iterator[str]:
    """Run Schemathesis; yield its findings with the request that shows each."""
    from schemathesis.engine import events, from_schema

    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            yield str(getattr(event, "info", event))
        if isinstance(event, events.ScenarioFinished):
            for checks in event.recorder.checks.values():
                for check in checks:
                    if check.failure_info is not None:
                        failure = check.failure_info.failure
                        words = f"{failure.title}: {failure.message}"
                        yield f"{event.label}: {words}\n{check.failure_info.code_sample}"


@pytest.mark.timeout(3600 if ALL else 180)
@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of a large response, which is no fault
@pytest.mark.parametrize("role", ROLES)
def test_the_description_is_true(own_server: ServerProcess, known: dict[str, str], role: str) -> None:
    """Statuses, headers, bodies and methods are as described, with a token of each role."""
    found = list(broken(contract(own_server, known, role)))
    assert not found, "\n\n".join(found)


def test_a_foreign_host_is_described(
    own_server: ServerProcess, known: dict[str, str], api: httpx.Client
) -> None:
    """Every operation responds with 421."""
    for verb, path, address, operation in operations(own_server, known):
        assert "421" in operation["responses"], (verb, path)
        assert api.request(verb, address, headers={"host": "evil.example"}).status_code == 421


@pytest.mark.parametrize(
    ("body", "status", "subject"),
    [
        (b'{"name": "x", "scope": "read", "project": NaN}', 400, "body"),
        (b'{"name": "\\ud800", "scope": "read"}', 400, "body.name"),
        (b'{"name": ' + b"[" * 101 + b"]" * 101 + b"}", 400, "body.name"),
        (b'{"name": 1e400}', 400, "body"),
        (b'{"name": 5, "scope": "read"}', 422, "name"),
        (b'{"name": "x", "scope": "root"}', 422, "scope"),
    ],
)
def test_an_invalid_body_is_explained(api: httpx.Client, body: bytes, status: int, subject: str) -> None:
    """Invalid JSON gives 400, invalid values 422 with the name of the field."""
    answer = api.post("/api/v1/tokens", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert answer.json()["subject"].startswith(subject)


def test_a_rule_takes_no_id_that_is_part_of_a_path(api: httpx.Client) -> None:
    """`/rules/export` is a separate resource, so a rule with that id could not be changed."""
    answer = api.post("/api/v1/rules", json=GOOD["RuleBody"] | {"id": "export", "reducer": "mean"})
    assert (answer.status_code, answer.json()["subject"]) == (422, "id")
