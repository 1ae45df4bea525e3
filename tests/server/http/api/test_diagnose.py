"""``POST /diagnose``: the rules on a pasted log."""

from __future__ import annotations

import concurrent.futures
from typing import Any

import httpx
import pytest

HEALTHY = [f"step={step} loss={2 + 0.02 * (step % 7):.3f} lr=0.001" for step in range(300)]
NAN = "\n".join([*HEALTHY, *(f"step={step} loss=nan lr=0.001" for step in range(300, 310))])


def posted(server: Any, **body: Any) -> httpx.Response:
    return httpx.post(f"{server.base}/api/v1/diagnose", json=body, headers=server.headers, timeout=60)


def test_a_log_is_diagnosed_like_a_file(server: Any) -> None:
    found = posted(server, text=NAN, name="../secret/train.log").json()
    (alert,) = [each for each in found["alerts"] if each["rule"] == "nonfinite-loss"]
    assert (alert["severity"], alert["onset_step"]) == ("critical", 300)
    assert (found["path"], found["records"], found["last_step"]) == ("train.log", 310, 309)
    assert found["text"].startswith("train.log\n")


def test_nothing_is_stored(server: Any) -> None:
    before = server.get("/runs")["items"]
    assert posted(server, text=NAN).status_code == 200
    assert [run["id"] for run in server.get("/runs")["items"]] == [run["id"] for run in before]


@pytest.mark.parametrize("text", ["to be or not to be", "\x00" * 100, "\x1f\u008b", "{" * 1000])
def test_what_is_no_log_is_a_problem(server: Any, text: str) -> None:
    answer = posted(server, text=text)
    assert (answer.status_code, answer.json()["subject"]) == (422, "text")
    assert "tmp" not in answer.text


def test_the_length_is_bounded(server: Any) -> None:
    assert posted(server, text="x" * 500_001).status_code == 422


def test_one_log_at_a_time(server: Any) -> None:
    """Of several at once, some are asked to try again; none fails otherwise."""
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        text = NAN * 10
        statuses = [answer.status_code for answer in pool.map(lambda _: posted(server, text=text), range(8))]
    assert set(statuses) == {200, 429}
