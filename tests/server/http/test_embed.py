"""An embedded chart: a signed link to one series of one run, without a login, scripts or forms."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from tests.server.conftest import wait_until
from tocsin_server.core.embed_links import embed_path

DAY_S = 86_400


@pytest.fixture
def server(run_server: Callable[..., Any], dial: Any) -> Any:
    """A running server with a run of a loss that becomes NaN."""
    started = run_server()
    client = dial(started.base, "r1", started.token)
    client.acked(client.train([0, 1, 2], loss=[1.0, 0.5, math.nan], lr=[0.1, 0.1, 0.2]))
    wait_until(lambda: started.services.reader.run("r1").series, "the series of the run")
    return started


def create(server: Any, **body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {server.token}"}
    return httpx.post(f"{server.base}/api/v1/runs/r1/embed", json=body, headers=headers, timeout=30)


def test_the_link_shows_the_chart_to_anyone(server: Any) -> None:
    """As a picture with a text alternative, in any frame; neither scripts nor other content are allowed."""
    made = create(server, series="loss", days=7).json()
    assert abs(made["until_ms"] / 1000 - time.time() - 7 * DAY_S) < 60
    page = httpx.get(server.base + made["path"])
    assert page.status_code == 200
    assert 'src="data:image/png;base64,' in page.text
    assert "last step 2" in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors *" in policy
    assert "x-frame-options" not in page.headers


@pytest.mark.parametrize(
    "change",
    [
        {"link": "e_1"},
        {"run": "r2"},
        {"series": "lr"},
        {"until": "9999999999"},
        {"signature": "0" * 64},
        {"signature": ""},
    ],
)
def test_a_changed_link_is_rejected(server: Any, change: dict[str, str]) -> None:
    """It is bound to its run, its series and its time, and the answer names no run."""
    path = create(server, series="loss").json()["path"]
    query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
    page = httpx.get(f"{server.base}/embed?{urlencode(query | change)}")
    assert page.status_code == 403
    assert "data:image" not in page.text


def test_a_chart_of_several_series_is_one_link(server: Any) -> None:
    """Each is named once, and the picture differs from that of one of them."""
    several = create(server, series="list:loss\nlr\nloss").json()["path"]
    shown = httpx.get(server.base + several)
    assert shown.status_code == 200
    assert "loss, lr of " in shown.text
    assert shown.text != httpx.get(server.base + create(server, series="loss").json()["path"]).text


def test_an_expired_link_is_rejected(server: Any) -> None:
    """After its last second."""
    path = embed_path(server.services.delivery.key, "e_1", "r1", "loss", int(time.time()) - 1)
    assert httpx.get(server.base + path).status_code == 403


def test_an_acknowledge_link_is_no_embed_link(server: Any) -> None:
    """Both are signed with the same key, but what is signed says what it is for."""
    key, until = server.services.delivery.key, int(time.time()) + 60
    assert embed_path(key, "e", "r1", "loss", until) != embed_path(key, "e", 'r1", "loss', "", until)
    for path in ("/ack?alert=r1", "/api/v1/runs/r1"):
        query = urlsplit(create(server, series="loss").json()["path"]).query
        answer = httpx.get(f"{server.base}{path}{'&' if '?' in path else '?'}{query}")
        assert answer.status_code in (401, 403)


def test_a_link_is_revoked_and_the_others_stay(server: Any) -> None:
    """The list names what was given out; a revoked link and an unknown one are gone."""
    first, second = (create(server, series=series).json() for series in ("loss", "lr"))
    headers = {"authorization": f"Bearer {server.token}"}
    items = httpx.get(f"{server.base}/api/v1/embeds", headers=headers).json()["items"]
    assert [(item["chart"], item["run"], item["path"]) for item in items] == [
        ("lr", "r1", second["path"]), ("loss", "r1", first["path"]),
    ]  # fmt: skip
    for status in (204, 404):
        answer = httpx.delete(f"{server.base}/api/v1/embeds/{first['id']}", headers=headers)
        assert answer.status_code == status
    assert "was revoked" in httpx.get(server.base + first["path"]).text
    assert httpx.get(server.base + second["path"]).status_code == 200


def test_reading_is_not_enough_to_share(server: Any) -> None:
    """A token that may only read cannot create a link; one without a token cannot either."""
    headers = {"authorization": f"Bearer {server.token}"}
    made = httpx.post(
        f"{server.base}/api/v1/tokens", json={"name": "reader", "scope": "read"}, headers=headers
    )
    reader = {"authorization": f"Bearer {made.json()['token']}"}
    for sent, status in ((reader, 403), ({}, 401)):
        answer = httpx.post(f"{server.base}/api/v1/runs/r1/embed", json={"series": "loss"}, headers=sent)
        assert answer.status_code == status


def test_the_audit_log_names_who_shared_what(server: Any) -> None:
    """With run, series and days, not with the link."""
    create(server, series="loss", days=3)
    headers = {"authorization": f"Bearer {server.token}"}
    (act,) = httpx.get(f"{server.base}/api/v1/audit?action=run.embed", headers=headers).json()["items"]
    assert (act["subject"], act["details"]) == ("r1", {"series": "loss", "days": 3})


@pytest.mark.parametrize(
    "body",
    [
        {"series": "none"},
        {"series": "list:"},
        {"series": "list:loss\nnone"},
        {"series": "loss", "days": 91},
        {"series": "loss", "days": 0},
    ],
)
def test_what_cannot_be_shared_is_rejected(server: Any, body: dict[str, Any]) -> None:
    """A series that the run lacks, and more than ninety days."""
    assert create(server, **body).status_code in (404, 422)


def test_a_run_that_will_be_deleted_is_not_shown(server: Any) -> None:
    """From the moment at which its deletion is scheduled."""
    path = create(server, series="loss").json()["path"]
    headers = {"authorization": f"Bearer {server.token}"}
    httpx.delete(f"{server.base}/api/v1/runs/r1?after_s=600", headers=headers).raise_for_status()
    wait_until(lambda: httpx.get(server.base + path).status_code == 404, "the end of the embed")
