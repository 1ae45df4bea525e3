"""Pushes to Alertmanager, checked against the rules of its API, and against a real one if installed."""

from __future__ import annotations

import datetime as dt
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tocsin_server.notify.channel import Sending
from tocsin_server.notify.channels.alertmanager import LASTS_S, PUSH_S, alert_of, push, watchdog

Make = Callable[..., Any]
UNPACKED = Path(__file__).resolve().parents[4] / "build" / "unpacked"
"""Where ``make test`` puts it. It runs from there only: its templates are found relative to this folder."""
BINARY = (
    shutil.which("prometheus-alertmanager")
    or shutil.which("alertmanager")
    or shutil.which("prometheus-alertmanager", path=str(UNPACKED / "usr" / "bin"))
)


def seconds(text: str) -> float:
    return dt.datetime.fromisoformat(text).timestamp()


def test_what_fires_lasts_beyond_the_next_pushes(make_routed_alert: Make) -> None:
    """A failed push does not resolve an alert; a dead tocsin server does, within minutes."""
    reported = alert_of(make_routed_alert(), "https://t", 2_000_000_000.0)
    assert seconds(reported["endsAt"]) == 2_000_000_000.0 + LASTS_S
    assert LASTS_S > 3 * PUSH_S
    assert (reported["labels"]["alertname"], reported["labels"]["run_id"]) == ("loss-spike", "r1")
    assert reported["generatorURL"].startswith("https://t/runs/r1?at=1790")


def test_a_resolved_alert_has_its_end_time(make_routed_alert: Make) -> None:
    """endsAt is the time at which the rule resolved it, and not in the future."""
    fact = make_routed_alert(state="resolved")
    reported = alert_of(fact, "https://t", 2_000_000_000.0)
    assert seconds(reported["endsAt"]) == fact.alert.resolved_ns / 1e9


def test_labels_are_what_prometheus_allows(make_routed_alert: Make) -> None:
    """A custom rule's label may have any name; letters, digits and underscores are kept."""
    reported = alert_of(make_routed_alert(labels={"loss/D-1": "x\ny", "empty": ""}), "", 0.0)
    assert reported["labels"]["loss_D_1"] == "x y"
    assert "empty" not in reported["labels"]


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[str]:
    """Run a real Alertmanager on loopback; yield its address."""
    if BINARY is None:
        pytest.skip("no prometheus-alertmanager here (`make test` fetches it where apt-get can)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = tmp_path / "alertmanager.yml"
    config.write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    place = [f"--config.file={config}", f"--storage.path={tmp_path / 'data'}", "--cluster.listen-address="]
    command = [BINARY, *place, f"--web.listen-address=127.0.0.1:{port}"]
    log = tmp_path / "log"
    folder = UNPACKED if UNPACKED.is_dir() else tmp_path
    with (
        log.open("wb") as output,
        subprocess.Popen(command, cwd=folder, stdout=output, stderr=output) as process,
    ):
        try:
            base = f"http://127.0.0.1:{port}"
            ends = time.monotonic() + 60
            while not _answers(base):
                running = process.poll() is None and time.monotonic() < ends
                assert running, f"Alertmanager did not start:\n{log.read_text('utf-8')}"
                time.sleep(0.1)
            yield base
        finally:
            process.kill()


def _answers(base: str) -> bool:
    try:
        return httpx.get(f"{base}/-/ready", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_real_alertmanager_takes_it(alertmanager: str, make_routed_alert: Make) -> None:
    """Alert and watchdog are active; after the resolve is pushed, only the watchdog."""
    values, sending, now = {"url": alertmanager}, Sending(private=True), time.time()
    firing = alert_of(make_routed_alert(fired_ns=int((now - 60) * 1e9)), "https://t", now)
    push(values, [firing, watchdog("https://t", now - 60, now)], sending)
    assert _active(alertmanager) == ["Watchdog", "loss-spike"]
    over = make_routed_alert(
        state="resolved", fired_ns=int((now - 60) * 1e9), resolved_ns=int((now - 1) * 1e9)
    )
    push(values, [alert_of(over, "https://t", now), watchdog("https://t", now - 60, now)], sending)
    assert _active(alertmanager) == ["Watchdog"]


def _active(base: str) -> list[str]:
    found = httpx.get(f"{base}/api/v2/alerts", params={"active": "true"}, timeout=30).json()
    return sorted(each["labels"]["alertname"] for each in found)
