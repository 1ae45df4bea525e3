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
    assert (other["firings"], other["alerts_per_1000_healthy_steps"]["warning"]) == (0, 0.0)
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


def test_a_firing_during_an_incident_names_it(server: Any, trainer: Callable[..., Any]) -> None:
    """The stored incident is of another rule, so the firing is a real problem."""
    run = trainer(project="blown-up")
    run.records({"loss": [1.0] * 60 + [float("nan")] * 40})
    draft = {"series": "loss", "reducer": "nonfinite", "window": "5 steps", "comparison": ">", "limit": 3}
    (row,) = posted(server, draft=draft, runs=[run.run]).json()["runs"]
    (incident,) = row["incidents"]
    assert (incident["rule"], incident["onset_step"], incident["own"]) == ("nonfinite-loss", 60, False)
    assert [firing["incident"] for firing in row["firings"]] == [incident["id"]]


def test_an_incident_of_the_tested_rule_alone_is_its_own(server: Any, trainer: Callable[..., Any]) -> None:
    run = trainer(project="blown-up-own")
    losses = [2.0 + 0.02 * ((step * 7) % 11 - 5) / 5 for step in range(400)]
    losses[300:303] = [2.6] * 3
    run.records({"loss": losses})
    (row,) = posted(server, rule="loss-spike", runs=[run.run]).json()["runs"]
    assert [incident["own"] for incident in row["incidents"]] == [True]
    assert (row["project"], row["series"]) == ("blown-up-own", ["loss"])


def test_a_series_that_a_run_lacks_is_absent_and_not_quiet(server: Any, trainer: Callable[..., Any]) -> None:
    run = trainer(project="lacking")
    run.records({"loss": [1.0] * 10})
    for tested in ({"rule": "scaler-collapse"}, {"draft": {"series": "psnr", "comparison": "<", "limit": 1}}):
        (row,) = posted(server, runs=[run.run], **tested).json()["runs"]
        assert row["series"] == []
