"""The signed link in a message: opening it changes nothing, its button acknowledges."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from tocsin_server.notify.links import VALID_S, acknowledging


@pytest.fixture
def alert(run_server: Callable[..., Any], dial: Any) -> tuple[Any, str]:
    """A running server and the id of an alert that fires there."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0, 1], loss=[1.0, math.nan]))
    return server, server.services.reader.alerts("r1")[0].alert.id


def link(server: Any, alert_id: str, at: float | None = None) -> str:
    return acknowledging(server.base, server.services.delivery.key, alert_id, at or time.time())


def acked(server: Any, alert_id: str) -> Any:
    headers = {"authorization": f"Bearer {server.token}"}
    path = httpx.URL(f"{server.base}/api/v1/alerts/{alert_id}/history")
    return httpx.get(path, headers=headers).json()["marks"]["ack"]


def test_opening_the_link_changes_nothing_and_its_button_acknowledges(alert: tuple[Any, str]) -> None:
    """GET may be a prefetch, POST is a user; the note is stored."""
    server, alert_id = alert
    address = link(server, alert_id)
    for _ in range(3):
        page = httpx.get(address)
        assert page.status_code == 200
    assert "Loss is NaN" in page.text
    assert acked(server, alert_id) is None
    fields = dict(re.findall(r'name="(\w+)" type="hidden" value="([^"]*)"', page.text))
    done = httpx.post(
        f"{server.base}/ack", data=fields | {"note": "mine <b>"}, headers={"origin": server.base}
    )
    assert (done.status_code, "Acknowledged" in done.text) == (200, True)
    assert acked(server, alert_id)["note"] == "mine <b>"
    assert acked(server, alert_id)["by"] == "link of a message"


@pytest.mark.parametrize(
    "change", [{"alert": "r1.f.1"}, {"until": "9999999999"}, {"signature": "0" * 64}, {"signature": ""}]
)
def test_a_forged_link_is_rejected(alert: tuple[Any, str], change: dict[str, str]) -> None:
    """A forged link is rejected by GET and by POST, and nothing is acknowledged."""
    server, alert_id = alert
    query = {
        name: values[0] for name, values in parse_qs(urlsplit(link(server, alert_id)).query).items()
    } | change
    assert httpx.get(f"{server.base}/ack?{urlencode(query)}").status_code == 403
    assert httpx.post(f"{server.base}/ack", data=query).status_code == 403
    assert acked(server, alert_id) is None


def test_an_old_link_is_rejected(alert: tuple[Any, str]) -> None:
    """After a week."""
    server, alert_id = alert
    assert httpx.get(link(server, alert_id, time.time() - VALID_S - 1)).status_code == 403


def test_another_site_cannot_press_the_button(alert: tuple[Any, str]) -> None:
    """A form of another origin is rejected before the page handles it."""
    server, alert_id = alert
    query = {name: values[0] for name, values in parse_qs(urlsplit(link(server, alert_id)).query).items()}
    assert (
        httpx.post(f"{server.base}/ack", data=query, headers={"origin": "https://evil.example"}).status_code
        == 403
    )
    assert acked(server, alert_id) is None
