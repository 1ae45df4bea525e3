"""``POST /backtest`` on a real server: what a rule would have found in stored runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest


def posted(server: Any, **body: Any) -> httpx.Response:
    return httpx.post(f"{server.base}/api/v1/backtest", json=body, headers=server.headers, timeout=60)


def test_a_stored_run_is_evaluated_with_other_settings(server: Any, trainer: Callable[..., Any]) -> None:
    """A spike of 30 %: one alert with the defaults, none at a threshold of twice the level; nothing is
    stored."""
    run = trainer(project="backtested")
    losses = [2.0 + 0.02 * ((step * 7) % 11 - 5) / 5 for step in range(500)]
    losses[300:303] = [2.6] * 3
    run.records({"loss": losses})
    before = server.get("/alerts", run=run.run)["items"]
    found = posted(server, rule="loss-spike", runs=[run.run]).json()
    assert [row["onset_step"] for row in found["runs"][0]["firings"]] == [300]
    assert found["steps"] == 500
    other = posted(server, rule="loss-spike", settings={"relative": 1.0}, project="backtested").json()
    assert (other["firings"], other["alarms_per_1000_healthy_steps"]["warning"]) == (0, 0.0)
    assert server.get("/alerts", run=run.run)["items"] == before


@pytest.mark.parametrize(
    ("body", "status", "subject"),
    [
        ({"rule": "loss-spike", "runs": ["nobody"]}, 404, "run"),
        ({"rule": "loss-spike", "project": "nobody"}, 404, "project"),
        ({"rule": "loss-spike"}, 422, "body"),
        ({"rule": "loss-spike", "runs": ["a"], "project": "b"}, 422, "body"),
        ({"rule": "nothing", "project": "b"}, 422, "rule"),
        ({"rule": "stalled", "project": "b"}, 422, "rule"),
        ({"rule": "loss-spike", "settings": {"window": -3}, "project": "b"}, 422, "loss-spike: window"),
        ({"rule": "loss-spike", "settings": {"window": "NaN"}, "project": "b"}, 422, "loss-spike: window"),
    ],
)
def test_untestable_requests_are_problems(
    server: Any, body: dict[str, Any], status: int, subject: str
) -> None:
    """The field and the reason."""
    answer = posted(server, **body)
    assert (answer.status_code, answer.json()["subject"]) == (status, subject), answer.text


def test_a_backtest_needs_the_right_to_read(server: Any) -> None:
    """A client's token can report, but not read."""
    headers = {"authorization": f"Bearer {server.client_token}"}
    answer = httpx.post(
        f"{server.base}/api/v1/backtest", json={"rule": "loss-spike", "project": "p"}, headers=headers
    )
    assert answer.status_code == 403
    assert httpx.post(f"{server.base}/api/v1/backtest", json={}).status_code == 401
