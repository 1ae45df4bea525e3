"""An embedded chart: a signed link to one series of one run, without a login, scripts or forms."""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from tests.matrix import represented
from tests.server.conftest import wait_until
from tocsin.protocol import Event
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
    """As a drawing with a text alternative, in any frame; neither scripts nor other content are allowed."""
    made = create(server, series="loss", days=7).json()
    assert abs(made["until_ms"] / 1000 - time.time() - 7 * DAY_S) < 60
    page = httpx.get(server.base + made["path"])
    assert page.status_code == 200
    assert 'role="img" aria-label="loss of r1, last step 2"' in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors *" in policy
    assert "x-frame-options" not in page.headers


@pytest.mark.parametrize(
    "change",
    represented(
        [
            {"link": "e_1"},
            {"run": "r2"},
            {"series": "lr"},
            {"until": "9999999999"},
            {"signature": "0" * 64},
            {"signature": ""},
        ],
        {"series": "lr"},
        {"signature": ""},
    ),
)
def test_a_changed_link_is_rejected(server: Any, change: dict[str, str]) -> None:
    """It is bound to its run, its series and its time, and the answer names no run."""
    path = create(server, series="loss").json()["path"]
    query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
    page = httpx.get(f"{server.base}/embed?{urlencode(query | change)}")
    assert page.status_code == 403
    assert "<svg" not in page.text


def test_a_chart_of_several_series_is_one_link(server: Any) -> None:
    """Each is named once, and the picture differs from that of one of them."""
    several = create(server, series="list:loss\nlr\nloss").json()["path"]
    shown = httpx.get(server.base + several)
    assert shown.status_code == 200
    assert "loss, lr of " in shown.text
    assert shown.text != httpx.get(server.base + create(server, series="loss").json()["path"]).text


def shown(server: Any, **body: Any) -> str:
    """Create a link, and return what it shows."""
    page = httpx.get(server.base + create(server, **body).json()["path"])
    assert page.status_code == 200
    return page.text


@pytest.mark.parametrize(
    ("chart", "title"),
    [
        ("formula:loss / lr", "loss / lr of "),
        ("scatter:lr\nloss", "loss against lr of "),
        ("spread:loss", "spread of loss of "),
    ],
)
def test_a_computed_chart_is_drawn(server: Any, dial: Any, chart: str, title: str) -> None:
    """Of a formula, of two metrics, and of the spread over two ranks."""
    rank = dial(server.base, "r1", server.token, rank=1)
    rank.acked(rank.train([0, 1, 2], loss=[2.0, 1.0, 1.0], lr=[0.1, 0.1, 0.2]))
    text = shown(server, series=chart)
    assert f'aria-label="{title}' in text
    assert text != shown(server, series="loss")


def test_logarithmic_axes_are_part_of_the_link(server: Any) -> None:
    """They change the picture, and cannot be changed in the address."""
    made = create(server, series="scatter:lr\nloss", log=["x", "y"]).json()["path"]
    assert httpx.get(server.base + made).text != shown(server, series="scatter:lr\nloss")
    assert shown(server, series="lr", log=["y"]) != shown(server, series="lr")
    assert httpx.get(server.base + made.replace("log%3Ax%2Cy", "log%3Ax")).status_code == 403


def log_object(server: Any, dial: Any, kind: str, content: bytes) -> None:
    """Log an object named "sample" in the run r1."""
    client = dial(server.base, "r1", server.token, rank=2)
    data = {"name": "sample", "hash": "ab" * 16, "type": kind, "bytes": len(content)}
    encoded = {"hash": "ab" * 16, "type": kind, "content": base64.b64encode(content).decode()}
    client.send(Event(0, "media-content", time.time_ns(), step=3, data=encoded))
    client.send(Event(1, "media", time.time_ns(), step=3, data=data))
    client.acked(events=1)


COUNTS = {"low": 0, "high": 1, "counts": [1, 5], "nan": 0, "inf": 0, "-inf": 0, "values": 6, "of": 6}


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("image", b"\x89PNG\r\n\x1a\n rest", "data:image/png;base64,iVBORw0KGgogcmVzdA=="),
        ("histogram", json.dumps(COUNTS).encode(), 'class="c0 bars" d="M'),
        ("text", b"<script>1</script>", "<pre>&lt;script&gt;1&lt;/script&gt;</pre>"),
        (
            "table",
            b'{"columns": ["<b>"], "rows": [[1.5], [null]]}',
            "<th>&lt;b&gt;</th></tr><tr><td>1.5</td>",
        ),
        ("table", b'{"columns": 3}', "the content is damaged"),
        ("image", b"<svg onload='x'>", "the content is damaged"),
        ("histogram", b"[]", "the content is damaged"),
    ],
)
def test_an_object_is_shown_as_text_or_picture(
    server: Any, dial: Any, kind: str, content: bytes, expected: str
) -> None:
    """Whatever it contains, it adds no markup."""
    log_object(server, dial, kind, content)
    text = shown(server, series="media:sample")
    assert expected in text
    assert "<script" not in text
    assert "<svg onload" not in text


@pytest.mark.parametrize("name", ["formula:loss", "log:y"])
def test_a_series_named_like_a_chart_is_that_series(server: Any, dial: Any, name: str) -> None:
    """The link shows the series that the run has."""
    client = dial(server.base, "r2", server.token)
    client.acked(client.train([0, 1], **{name: [1.0, 2.0]}))
    wait_until(lambda: server.services.reader.run("r2").series, "the series of the run")
    headers = {"authorization": f"Bearer {server.token}"}
    made = httpx.post(f"{server.base}/api/v1/runs/r2/embed", json={"series": name}, headers=headers)
    assert f'aria-label="{name} of' in httpx.get(server.base + made.json()["path"]).text


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
        {"series": "formula:loss - none"},
        {"series": "scatter:loss"},
        {"series": "spread:none"},
        {"series": "media:none"},
        {"series": "loss", "log": ["z"]},
        {"series": "loss", "days": 91},
        {"series": "loss", "days": 0},
    ],
)
def test_what_cannot_be_shared_is_rejected(server: Any, body: dict[str, Any]) -> None:
    """What the run lacks, a formula that is not understood, and more than ninety days."""
    assert create(server, **body).status_code in (404, 422)


def test_a_run_that_will_be_deleted_is_not_shown(server: Any) -> None:
    """From the moment at which its deletion is scheduled."""
    path = create(server, series="loss").json()["path"]
    headers = {"authorization": f"Bearer {server.token}"}
    httpx.delete(f"{server.base}/api/v1/runs/r1?after_s=600", headers=headers).raise_for_status()
    wait_until(lambda: httpx.get(server.base + path).status_code == 404, "the end of the embed")
