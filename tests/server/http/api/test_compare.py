"""Many runs in one stream: each line has what the routes of a single run return, to the bit."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.matrix import LONG
from tests.server.conftest import wait_until
from tests.server.http.api.conftest import Trainer
from tests.server.http.api.test_every_route import strict

NAMES = ["loss", "grad_norm", "absent"]
DETAILS = ("project", "name", "state", "tags", "config")
ALERT = ("id", "run_id", "rule", "severity", "state", "onset_step", "onset_ms", "fired_ms", "summary")
COUNTS = ("nan", "pinf", "ninf")

values = st.one_of(
    st.floats(width=64), st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 5e-324]), st.none()
)
columns = st.integers(1, 130).flatmap(
    lambda n: st.dictionaries(
        st.sampled_from(["loss", "grad_norm", "other"]),
        st.lists(values, min_size=n, max_size=n).filter(lambda cells: any(x is not None for x in cells)),
        min_size=1,
    )
)


def stream(server: Any, runs: Sequence[dict[str, Any]], **asked: Any) -> httpx.Response:
    """Send the request for some runs."""
    body = {"runs": list(runs), **asked}
    return httpx.post(f"{server.base}/api/v1/compare", headers=server.headers, json=body, timeout=60)


def lines(server: Any, ids: Sequence[str], **asked: Any) -> list[dict[str, Any]]:
    """Return the lines for some runs."""
    answer = stream(server, [{"id": run} for run in ids], **asked)
    assert answer.status_code == 200, answer.text
    return [strict(line) for line in answer.text.splitlines()]


def single(layer: dict[str, Any]) -> dict[str, Any]:
    """Return a layer of the route of one run without what the stream leaves out."""
    if layer["exact"]:
        kept = ["attempt", "rank", "exact", "x", "t", "first"]
    else:
        zero = {name for name in COUNTS if set(layer[name]["bdata"]) <= set("A=")}
        kept = [name for name in layer if name != "first" and name not in zero]
    return {name: layer[name] for name in kept}


def placed(line: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the layers of a line, each with its positions."""
    return {
        name: [
            line["grids"][layer["grid"]] | {key: value for key, value in layer.items() if key != "grid"}
            for layer in layers
        ]
        for name, layers in line["series"].items()
    }


@pytest.mark.filterwarnings("ignore:Do not use the `random` module")  # other threads of the tests use it
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=st.lists(columns, min_size=1, max_size=4))
def test_a_line_equals_the_routes_of_one_run(
    server: Any, trainer: Callable[..., Trainer], sent: list[dict[str, list[float | None]]]
) -> None:
    """NaN, Inf, missing values and series, exact records and buckets: every value is the same."""
    runs = [trainer(tags=["a"], config={"n": no, "nan": math.nan}) for no in range(len(sent))]
    for run, one in zip(runs, sent, strict=True):
        run.records(one)
    for run, line in zip(runs, lines(server, [r.run for r in runs], names=NAMES, buckets=50), strict=True):
        alone = server.get(f"/runs/{run.run}/series", names=NAMES, buckets=50)
        assert placed(line) == {
            name: [single(layer) for layer in layers] for name, layers in alone["series"].items()
        }
        for name in ("first_step", "last_step"):
            assert line[name] == alone[name]
        assert 0 <= line["cursor"] <= alone["cursor"]  # the watchdog may report the silent run in between
        detail = server.get(f"/runs/{run.run}")
        assert [line[name] for name in DETAILS] == [detail[name] for name in DETAILS]
        assert line["names"] == [series["name"] for series in detail["series"]]
        alerts = server.get("/alerts", run=run.run)["items"]
        assert by_id(line["alerts"]) == by_id({name: alert[name] for name in ALERT} for alert in alerts)


def by_id(alerts: Any) -> list[dict[str, Any]]:
    """Return alerts sorted by id."""
    return sorted(alerts, key=lambda alert: str(alert["id"]))


def test_each_run_has_its_own_window(server: Any, trainer: Callable[..., Trainer]) -> None:
    """A zoom by time asks for other steps of each run, without details."""
    runs = [trainer() for _ in range(2)]
    for run in runs:
        run.records({"loss": [float(step) for step in range(20)]})
    windows = [{"id": runs[0].run, "from": 3, "to": 5}, {"id": runs[1].run, "from": 10.0, "to": 10.0}]
    answer = stream(server, windows, names=["loss"], details=False)
    for window, line in zip(windows, answer.text.splitlines(), strict=True):
        alone = server.get(
            f"/runs/{window['id']}/series", names="loss", **{"from": window["from"]}, to=window["to"]
        )
        found = json.loads(line)
        assert placed(found)["loss"] == [single(layer) for layer in alone["series"]["loss"]]
        assert "config" not in found


def test_a_run_that_does_not_exist_fails_alone(server: Any, trainer: Callable[..., Trainer]) -> None:
    """Its line says so, in its place."""
    run = trainer()
    run.records({"loss": [1.0]})
    first, second = lines(server, ["no-such-run", run.run], names=["loss"])
    assert first == {"id": "no-such-run", "error": {"status": 404, "detail": "Run not found: no-such-run"}}
    assert placed(second)["loss"][0]["exact"]


def test_a_run_is_deleted_meanwhile(server: Any, trainer: Callable[..., Trainer]) -> None:
    """Each line is complete or an error, and after the deletion they are errors."""
    run = trainer()
    run.records({"loss": [1.0, math.nan]})
    run.finish()
    run.disconnect()
    found: list[dict[str, Any]] = []
    with opened(server, [{"id": run.run}] * 1000, names=["loss"]) as answer:
        for line in answer:
            if not found:
                server_delete(server, run.run)
            found.append(strict(line))
    assert len(found) == 1000
    assert all("error" in line or line["last_step"] == 1 for line in found)
    assert lines(server, [run.run])[0]["error"]["status"] == 404


class opened:  # noqa: N801 - reads as a verb
    """The lines of a stream that is read as it comes."""

    def __init__(self, server: Any, runs: Sequence[dict[str, Any]], **asked: Any) -> None:
        self._client = httpx.Client(timeout=60)
        self._asked = self._client.stream(
            "POST",
            f"{server.base}/api/v1/compare",
            headers=server.headers,
            json={"runs": list(runs), **asked},
        )

    def __enter__(self) -> Iterator[str]:
        return self._asked.__enter__().iter_lines()

    def __exit__(self, *error: Any) -> None:
        self._asked.__exit__(None, None, None)
        self._client.close()


def server_delete(server: Any, run: str) -> None:
    """Delete a run."""
    httpx.delete(f"{server.base}/api/v1/runs/{run}", headers=server.headers, timeout=30).raise_for_status()


@LONG
def test_reading_stops_when_the_client_leaves(server: Any, trainer: Callable[..., Trainer]) -> None:
    """A request of 100 MB that is left after its first line ends sooner than one that is read."""
    run = trainer()
    run.records({"loss": [0.1 * step for step in range(4000)]})

    def took(lines_read: int) -> float:
        before = len(logged(server))
        with opened(server, [{"id": run.run}] * 1000, names=["loss"], buckets=8192) as answer:
            for _ in range(lines_read):
                assert next(answer)
        return float(wait_until(lambda: logged(server)[before:], "the request log")[0])

    assert took(1) < took(1000) / 2


def logged(server: Any) -> list[str]:
    """Return how many milliseconds each comparison took, from the request log."""
    return re.findall(r"POST /api/v1/compare 200 ([0-9.]+) ms", server.text)


@pytest.mark.parametrize(
    ("asked", "subject"),
    [
        ({"runs": []}, "runs"),
        ({"runs": [{"id": "a"}] * 1001}, "runs"),
        ({"runs": [{"id": "a"}], "names": ["n"] * 65}, "names"),
        ({"runs": [{"id": "a"}] * 1000, "names": ["n"] * 2, "buckets": 8192}, "compare"),
        ({"runs": [{"id": "a", "from": "1"}]}, "runs.0.from"),
        ({"runs": [{"id": "a"}], "bins": 3}, "bins"),
    ],
)
def test_limits_are_clear_errors(server: Any, asked: dict[str, Any], subject: str) -> None:
    """Too many runs, series or values, and unknown fields are 422 problems."""
    answer = httpx.post(f"{server.base}/api/v1/compare", headers=server.headers, json=asked)
    problem = answer.json()
    assert (answer.status_code, problem["subject"]) == (422, subject)
    assert problem["detail"]


def test_it_needs_a_login(server: Any) -> None:
    """Without a token there is no line."""
    answer = httpx.post(f"{server.base}/api/v1/compare", json={"runs": [{"id": "a"}]})
    assert answer.status_code == 401
