"""``GET /runs/{id}/console``: what the script wrote to its terminal, in pages."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from tests.server.conftest import wait_until
from tocsin.protocol import Event
from tocsin_server.jobs.cleanup import CONSOLE_SLACK
from tocsin_server.store.layer_rows import CONSOLE_CHARACTERS


@pytest.fixture
def log(run_server: Any, dial: Any) -> Any:
    """Return a function that reports lines of run r1; ``log.get`` asks the API for them."""
    server = run_server()
    client = dial(server.base, "r1", server.token)
    client.acked(client.train([0], loss=[1.0]))
    numbers = iter(range(100_000))

    def log(
        *texts: str, stream: str = "out", is_open: bool = False, step: int | None = 3, **data: Any
    ) -> None:
        lines = [[1_700_000_000_000, step, stream, text, is_open] for text in texts]
        number = next(numbers)
        body = {"lines": lines, **data}
        client.send(Event(number, "console", time.time_ns(), step=step, data=body))
        client.acked(events=number)

    def get(query: str = "", run: str = "r1") -> httpx.Response:
        headers = {"authorization": f"Bearer {server.token}"}
        return httpx.get(f"{server.base}/api/v1/runs/{run}/console?{query}", headers=headers)

    log.get = get  # type: ignore[attr-defined]
    log.texts = lambda query="": [line["text"] for line in get(query).json()["items"]]  # type: ignore[attr-defined]
    return log


@pytest.mark.both_databases
def test_lines_come_back_in_order_with_step_stream_and_time(log: Any) -> None:
    log("epoch 1", "loss 0.5")
    log("careful", stream="err", step=4, dropped=7)
    answer = log.get().json()
    assert [(line["text"], line["stream"], line["step"], line["dropped"]) for line in answer["items"]] == [
        ("epoch 1", "out", 3, 0),
        ("loss 0.5", "out", 3, 0),
        ("careful", "err", 4, 7),
    ]
    first = answer["items"][0]
    assert (first["time_ms"], first["attempt"], first["rank"]) == (1_700_000_000_000, 1, 0)
    assert answer["older"] is None


def test_pages_go_back_to_the_start_and_forward_to_the_end(log: Any) -> None:
    for number in range(250):
        log(f"line {number}")
    newest = log.get("limit=100").json()
    assert [line["text"] for line in newest["items"]] == [f"line {n}" for n in range(150, 250)]
    older = log.get(f"limit=200&before={newest['older']}").json()
    assert [line["text"] for line in older["items"]] == [f"line {n}" for n in range(150)]
    assert older["older"] is None
    log("new")
    assert log.texts(f"after={newest['newer']}") == ["new"]
    assert log.texts("after=0&limit=3") == ["line 0", "line 1", "line 2"]


def test_text_is_searched_in_all_lines_whatever_its_case(log: Any) -> None:
    for number in range(150):
        log(f"line {number}")
    log("Loss is NaN")
    assert log.texts("contains=loss%20IS&limit=1") == ["Loss is NaN"]
    assert log.texts("contains=line%20149") == ["line 149"]
    assert log.texts("contains=absent") == []


def test_lines_of_a_range_of_steps_are_found(log: Any) -> None:
    for step in range(1, 9):
        log(f"at {step}", step=step)
    log("before the first step", step=None)
    assert log.texts("from=3&to=5") == ["at 3", "at 4", "at 5"]
    assert log.texts("from=8") == ["at 8"]


def test_the_state_of_the_run_is_said(log: Any) -> None:
    assert log.get().json()["state"] == "running"


def test_a_progress_bar_is_replaced_by_its_newer_state(log: Any) -> None:
    log("10%", is_open=True, stream="err")
    log("between")
    log("20%", is_open=True, stream="err")
    assert log.texts() == ["between", "20%"]
    log("100%", stream="err")
    assert log.texts() == ["between", "100%"]


@pytest.mark.parametrize("lines", [None, 3, ["a"], [[1, 2, "out", "x"]], [["x", 1, "out", "x", False]]])
def test_malformed_lines_are_left_out(log: Any, lines: Any) -> None:
    log("good")
    log("replaced", lines=lines)
    assert log.texts() == ["good"]


@pytest.mark.parametrize(
    ("query", "run", "status"),
    [("", "absent", 404), ("after=x", "r1", 422), ("before=-2", "r1", 422), ("limit=0", "r1", 422)],
)
def test_bad_requests_are_rejected(log: Any, query: str, run: str, status: int) -> None:
    assert log.get(query, run).status_code == status


@pytest.mark.both_databases
def test_only_the_newest_output_of_a_run_is_kept(log: Any) -> None:
    lines = ["x" * 999] * 16
    for number in range(2 * CONSOLE_CHARACTERS // 16_000):
        log(f"chunk {number}", *lines)
    log("the end")
    limit = (CONSOLE_CHARACTERS + CONSOLE_SLACK) // 16_000
    wait_until(lambda: len(log.texts("contains=chunk&limit=5000")) <= limit, "the log is trimmed")
    assert len(log.texts("contains=chunk&limit=5000")) >= CONSOLE_CHARACTERS // 17_500
    assert log.texts("limit=1")[-1] == "the end"
