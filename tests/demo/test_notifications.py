"""The demo as people see it: each bad run is one incident that is notified, the healthy one none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.matrix import LONG
from tests.server.conftest import wait_until
from tests.server.receiver import Receiver

pytestmark = [LONG, pytest.mark.timeout(900)]
BAD = {"restorer-fp16", "wgan-clamped"}
LONGER_S = 90.0
"""How long after both runs notified another message would be noticed."""


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Address and headers of a running demo with its own pace."""
    place = ["--port", "0", "--data-dir", str(tmp_path)]
    env = os.environ | {"TOCSIN_NOTIFY_PRIVATE_ADDRESSES": "true"}
    command = [sys.executable, "-m", "tocsin_server", "demo", *place]
    with open(tmp_path.parent / "demo.log", "w+") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env)
        try:
            link = re.compile(r"(http://\S+)/login\?token=(\S+)")
            wait_until(lambda: link.search(Path(log.name).read_text()), "the demo to start")
            found = link.search(Path(log.name).read_text())
            assert found is not None
            yield found[1], {"authorization": f"Bearer {found[2]}"}
        finally:
            family = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            for child in family:
                child.kill()
            process.wait()


def test_the_two_bad_runs_notify_exactly_twice(demo: Any) -> None:
    """With the default routes, at a webhook, while the demo continues."""
    base, headers = demo
    receiver = Receiver()
    try:
        channel = {"name": "hook", "kind": "webhook", "config": {"url": receiver.url}}
        made = httpx.post(f"{base}/api/v1/channels", headers=headers, json=channel, timeout=60)
        assert made.status_code == 201, made.text
        wait_until(
            lambda: {each.json["alerts"][0]["run_name"] for each in receiver.received} == BAD,
            "both runs to notify",
            600.0,
        )
        time.sleep(LONGER_S)
        received = [each.json for each in receiver.received]
    finally:
        receiver.close()
    severities: dict[str, list[str]] = {}
    runs: dict[str, str] = {}
    for message in received:
        (incident,) = {alert["incident"] for alert in message["alerts"]}
        severities.setdefault(incident, []).append(message["severity"])
        runs[incident] = message["alerts"][0]["run_name"]
    assert {message["reason"] for message in received} == {"new"}
    assert sorted(runs.values()) == sorted(BAD)
    assert list(severities.values()) == [["critical"], ["critical"]]
