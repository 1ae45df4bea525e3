"""``/metrics`` as read by the parser of Prometheus's own client."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

Start = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("url")
AT_ONCE = {"routes": [{"name": "all", "group_wait_s": 0, "group_interval_s": 1}]}
QUICK = {"notify_private_addresses": True, "notify_poll_s": 0.05}
DOC = Path(__file__).resolve().parents[3] / "docs" / "reference" / "metrics.md"


def fetch(server: Any, token: str = "") -> httpx.Response:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return httpx.get(f"{server.base}/metrics", headers=headers, timeout=60)


def scraped(server: Any) -> dict[tuple[str, ...], float]:
    """Return value by name and label values."""
    families = text_string_to_metric_families(fetch(server, server.token).text)
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in families
        for sample in family.samples
    }


def test_prometheus_reads_what_the_server_counts(
    run_server: Start, dial: Any, receive: Any, eventually: Any
) -> None:
    """Records, events, commits, runs, alerts, channels and attempts, with a NaN and a broken receiver."""
    server, receiver = run_server(**QUICK), receive(404)
    headers = {"authorization": f"Bearer {server.token}"}
    channel = {"name": "phone", "kind": "webhook", "config": {"url": receiver.url}}
    httpx.post(f"{server.base}/api/v1/channels", headers=headers, json=channel, timeout=60)
    httpx.put(f"{server.base}/api/v1/routes", headers=headers, json=AT_ONCE, timeout=60)
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0, 1], loss=[1.0, math.nan], lr=[0.1, 0.1]))
    failed = ("tocsin_delivery_attempts_total", "phone", "webhook", "failed")
    found = eventually(
        lambda: (reported := scraped(server)).get(failed) and reported, "the attempt to be counted"
    )
    expected = {
        ("tocsin_records_total",): 2,
        ("tocsin_points_total",): 4,
        ("tocsin_runs", "running"): 1,
        ("tocsin_runs", "lost"): 0,
        ("tocsin_open_alerts", "critical", "firing"): 1,
        ("tocsin_notifications_failed", "phone"): 1,
        ("tocsin_notifications_waiting", "phone"): 0,
        ("tocsin_training_processes",): 1,
        ("tocsin_database_up",): 1,
        ("tocsin_database_write_failing",): 0,
    }
    assert {name: found[name] for name in expected} == expected
    assert found["tocsin_commit_seconds_count",] >= 1
    assert found["tocsin_rule_evaluation_seconds_total",] > 0
    assert found["process_resident_memory_bytes",] > 0


def test_waiting_notifications_have_an_age(
    run_server: Start, dial: Any, receive: Any, eventually: Any
) -> None:
    """A notification that is being retried counts as waiting, and its age increases."""
    server, receiver = run_server(**QUICK), receive(503)
    headers = {"authorization": f"Bearer {server.token}"}
    channel = {"name": "phone", "kind": "webhook", "config": {"url": receiver.url}}
    httpx.post(f"{server.base}/api/v1/channels", headers=headers, json=channel, timeout=60)
    httpx.put(f"{server.base}/api/v1/routes", headers=headers, json=AT_ONCE, timeout=60)
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0, 1], loss=[1.0, math.nan]))
    retrying = ("tocsin_notifications_retrying", "phone")
    first = eventually(lambda: (reported := scraped(server)).get(retrying) and reported, "the first attempt")
    assert first["tocsin_notifications_waiting", "phone"] == 1
    age = ("tocsin_notification_oldest_seconds", "phone")
    eventually(lambda: scraped(server)[age] > first[age], "it to grow older")


def test_metrics_need_a_token_that_may_read(run_server: Start) -> None:
    """On loopback too: 401 without a token, 403 with one that may only report."""
    server = run_server()
    made = httpx.post(
        f"{server.base}/api/v1/tokens",
        headers={"authorization": f"Bearer {server.token}"},
        json={"name": "trainer", "scope": "ingest", "project": None},
        timeout=60,
    ).json()
    assert [fetch(server, token).status_code for token in ("", made["token"], server.token)] == [
        401,
        403,
        200,
    ]


def test_the_documented_names_and_rules_are_those_of_the_server(run_server: Start) -> None:
    """The names in the table and the alert rules of docs/reference/metrics.md are exactly those served."""
    text = DOC.read_text("utf-8")
    server = run_server()
    families = text_string_to_metric_families(fetch(server, server.token).text)
    served = {family.name for family in families if family.name.startswith("tocsin_")}
    table = set(re.findall(r"^\| `(tocsin_\w+)`", text, re.MULTILINE))
    assert {name.removesuffix("_total") for name in table} == served
    (block,) = re.findall(r"```yaml\n(groups:.*?)```", text, re.DOTALL)
    rules = yaml.safe_load(block)["groups"][0]["rules"]
    assert len(rules) == 3
    for rule in rules:
        named = {name.removesuffix("_bucket") for name in re.findall(r"tocsin_\w+", rule["expr"])}
        assert named <= table
        assert {"alert", "expr", "for", "labels", "annotations"} == rule.keys()
