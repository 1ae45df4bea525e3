"""``tocsin.Api`` on a real server: what the hook sent comes back."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import struct
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import tocsin
from tests.conftest import Tower
from tests.hook.ingest_server import closed_port
from tests.hook.read.conftest import NASTY, begun
from tocsin import read
from tocsin.read import operations
from tocsin.read.exchange import Answer, Request


def bits(values: Any) -> list[bytes]:
    return [struct.pack("<d", value) for value in values]


def test_records_are_every_value_bit_for_bit(api: tocsin.Api, trained: str) -> None:
    table = api.records(trained, "loss", "val/x").table()
    found = table.lists()
    assert bits(found["loss"]) == bits([*NASTY, *(1 / step for step in range(6, 3000))])
    assert found["step"] == list(range(3000))
    assert found["val/x"][:11] == [0.0, *[None] * 9, 1.0]


def test_records_come_in_pages_of_bounded_size(
    api: tocsin.Api, trained: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the length of the run; here the server is asked for small pages."""
    of_run = operations.Operations._of_run

    def small(self: Any, run: Any, what: str, query: Any, kind: Any) -> Any:
        return of_run(self, run, what, {**query, "limit": 700} if what == "/records" else query, kind)

    monkeypatch.setattr(operations.Operations, "_of_run", small)
    assert [page.n for page in api.records(trained, "val/x")] == [700, 700, 700, 700, 200]
    assert api.records(trained, "val/x").table().lists()["val/x"][690:701:10] == [69.0, 70.0]


def test_records_of_a_window(api: tocsin.Api, trained: str) -> None:
    assert api.records(trained, "loss", start=10, stop=12).table().lists()["step"] == [10, 11, 12]


def test_metrics_are_buckets_that_keep_what_is_not_finite(api: tocsin.Api, trained: str) -> None:
    table = api.metrics(trained, "loss", buckets=100)
    found = table.lists()
    assert not table.is_exact
    assert table.n <= 100
    assert (sum(found["n"]), sum(found["nan"]), sum(found["pinf"]), sum(found["ninf"])) == (3000, 1, 1, 1)
    assert max(found["max"]) == 1 / 6


def test_metrics_of_a_small_window_are_exact(api: tocsin.Api, trained: str) -> None:
    table = api.metrics(trained, "loss", stop=5)
    assert table.is_exact
    assert bits(table.lists()["value"]) == bits(NASTY)


@pytest.mark.parametrize("buckets", [100, 8192])
def test_a_comparison_has_what_the_metrics_of_each_run_have(
    api: tocsin.Api, trained: str, buckets: int
) -> None:
    """By id or name, exact and in buckets, bit for bit."""
    (found,) = api.compare(["read/trained"], "loss", "val/x", buckets=buckets).items()
    alone = api.metrics(trained, "loss", "val/x", buckets=buckets)
    assert (found[0], found[1].is_exact) == (trained, alone.is_exact)
    for name in (name for name in alone.lists() if name != "first"):
        one, other = (table.lists()[name] for table in (alone, found[1]))
        assert list(map(repr, one)) == list(map(repr, other)), name
    with pytest.raises(LookupError, match="no run 'none'"):
        api.compare([trained, "none"])


@pytest.mark.parametrize(
    "text",
    ["", "trained", "config.lr>1e-4 tag:fp16", "config.model.name:swin step=2999", "val/x>=299 min(val/x)=0"],
)
def test_runs_are_filtered(api: tocsin.Api, trained: str, text: str) -> None:
    assert [run.id for run in api.runs(f"{text} project:read name:trained", project="read")] == [trained]


def test_a_run_that_is_found_by_a_metric_has_it(api: tocsin.Api, trained: str) -> None:
    """The newest value, the extremes and the numbers of values."""
    (run,) = api.runs(f"id:{trained} val/x>0 max(loss)<1", project="read")
    found = run.metrics["val/x"]
    assert (found.last, found.step, found.min, found.max, found.n) == (299.0, 2990, 0.0, 299.0, 300)
    assert (run.metrics["loss"].nonfinite, run.metrics["loss"].max) == (3, 1 / 6)


def test_an_unknown_metric_in_a_filter_is_refused(api: tocsin.Api, trained: str) -> None:
    with pytest.raises(ValueError, match="a metric that a run has"):
        api.runs("valx<1").all()


def test_a_filter_excludes(api: tocsin.Api, trained: str) -> None:
    assert not api.runs(f"id:{trained} -config.lr<1").all()


def test_runs_are_read_page_by_page(
    api: tocsin.Api, shared_tower: Tower, tmp_path: Path, trained: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        begun(shared_tower, name, tmp_path).finish()
    monkeypatch.setattr(operations, "RUNS_AT_ONCE", 1)
    assert {"one", "two", "trained"} <= {run.name for run in api.runs(project="read")}


def test_10000_runs_are_a_few_requests() -> None:
    """The first page is small, so that a short list is quick."""
    reading = operations.Operations("http://x", has_token=True, retries=0).runs("", None)
    request, left, limits = next(reading), 10_000, list[int]()
    with contextlib.suppress(StopIteration):
        while isinstance(request, Request):
            limits.append(request.query["limit"])
            left -= limits[-1]
            page: dict[str, Any] = {"items": [], "next": "r" if left > 0 else None}
            request = reading.send(Answer(200, json.dumps(page).encode()))
    assert limits == [200, *[2000] * 5]


def test_a_run_has_its_settings_and_series(api: tocsin.Api, trained: str) -> None:
    run = api.run("read/trained")
    assert (run.id, run.state, run.config["model"]["name"], run.tags) == (
        trained,
        "finished",
        "swin",
        ["fp16"],
    )
    assert {series.name: series.n for series in run.series}["val/x"] == 300


def test_an_alert_has_its_diagnosis(
    api: tocsin.Api, trained: str, eventually_true: Callable[..., Any]
) -> None:
    """The NaN of step 0; its incident leads to the same diagnosis."""
    alerts = api.alerts(trained).all()
    alert = next(alert for alert in alerts if alert.rule == "nonfinite-loss")
    assert alert.diagnosis.cause
    assert alert.diagnosis.remedies
    incident = api.incident(alert.incident)
    assert incident.diagnosis in [each.diagnosis for each in alerts]
    assert api.alert(alert.id) == alert


def test_an_incident_can_be_acknowledged(api: tocsin.Api, trained: str) -> None:
    first = next(iter(api.incidents(trained)))
    api.acknowledge_incident(first.id, "seen")
    ack = api.incident(first.id).ack
    assert ack is not None
    assert ack.note == "seen"
    assert api.alert(first.alerts[0].id).ack == ack
    assert ack in [alert.ack for alert in api.alerts(trained)]


def test_events_and_checkpoints(api: tocsin.Api, shared_tower: Tower, tmp_path: Path) -> None:
    run = begun(shared_tower, "saved", tmp_path)
    run.step(loss=1.0)
    run.checkpoint(str(tmp_path / "a.pt"))
    run.event("note", text="x")
    run.finish()
    assert "note" in [event.kind for event in api.events(run.id)]
    assert [each.path for each in api.checkpoints(run.id).items] == [str(tmp_path / "a.pt")]


def test_follow_yields_each_record_once_and_ends_with_the_run(
    api: tocsin.Api, shared_tower: Tower, tmp_path: Path, eventually_true: Callable[..., Any]
) -> None:
    run = begun(shared_tower, "followed", tmp_path)
    run.step(loss=0.0)
    eventually_true(lambda: shared_tower.run_named("followed"), "the handshake")
    steps: list[int] = []
    started = threading.Event()

    def follow() -> None:
        for table in api.follow(run.id, "loss", since=-1, interval=0.02):
            steps.extend(table.lists()["step"])
            started.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert started.wait(60)
    for step in range(1, 500):
        run.step(loss=float(step))
    run.finish()
    thread.join(60)
    assert steps == list(range(500))


def test_follow_survives_a_restart_of_the_server(
    tower: Tower, tmp_path: Path, eventually_true: Callable[..., Any]
) -> None:
    run = begun(tower, "outage", tmp_path / "spool")
    run.step(loss=0.0)
    eventually_true(lambda: tower.run_named("outage"), "the handshake")
    steps: list[int] = []
    with tocsin.Api(tower.base, tower.token, retries=0) as api:
        for table in api.follow(run.id, since=-1, interval=0.02):
            steps.extend(table.lists()["step"])
            if steps == [0]:
                tower.kill()
                tower.start()
                run.step(loss=1.0)
                run.finish()
    assert steps == [0, 1]


def test_an_export_is_complete(api: tocsin.Api, trained: str, tmp_path: Path) -> None:
    import pyarrow.parquet

    path = api.export("trained", tmp_path / "a.parquet", "loss")
    assert bits(pyarrow.parquet.read_table(path)["loss"].to_pylist()[:6]) == bits(NASTY)
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_no_file_to_export_to(api: tocsin.Api, trained: str, tmp_path: Path) -> None:
    """Which is said before anything is read."""
    with pytest.raises(IsADirectoryError, match="Pass the path of a file"):
        api.export("trained", tmp_path)


def test_an_unknown_ending_is_no_export(api: tocsin.Api, trained: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ending \.xlsx\. Use parquet, csv or jsonl, or pass format="):
        api.export("trained", tmp_path / "a.xlsx")
    assert (
        api.export("trained", tmp_path / "a.dat", "loss", format="csv")
        .read_text()
        .startswith("writer,attempt,")
    )


@pytest.mark.parametrize("token", ["tcn_one\ntcn_two", "tcn_\u20ac", "my token"])
def test_a_token_that_cannot_be_sent_is_not_shown(token: str) -> None:
    with pytest.raises(PermissionError, match="The token has a character that no token has") as caught:
        tocsin.Api(token=token)
    assert token[:4] not in str(caught.value)


def test_a_run_that_is_no_text_is_an_error_that_says_how(api: tocsin.Api) -> None:
    with pytest.raises(ValueError, match="the name of a run, or a Run, not None"):
        api.run(None)  # type: ignore[arg-type] # a mistake


def test_an_unknown_run_is_answered_with_a_similar_one(api: tocsin.Api, trained: str) -> None:
    with pytest.raises(LookupError, match=rf"no run 'traineds' .* Did you mean read/trained \({trained}\)"):
        api.metrics("traineds")


def test_an_unknown_run_is_answered_with_those_whose_name_begins_so(api: tocsin.Api, trained: str) -> None:
    """As that of a script, to which a number is added."""
    with pytest.raises(LookupError, match=rf"Did you mean read/trained \({trained}\)"):
        api.metrics("tr")


def test_names_in_a_list_are_an_error_that_says_how(api: tocsin.Api, trained: str) -> None:
    """As they would be passed to other trackers."""
    names: Any = ["loss"]
    for ask in (api.metrics, lambda *given: api.records(*given).table()):
        with pytest.raises(read.RejectedError, match="one by one"):
            ask(trained, names)


def test_one_run_can_be_compared(api: tocsin.Api, trained: str) -> None:
    assert list(api.compare(trained, "loss")) == [trained]


def test_a_name_of_several_runs_is_answered_with_their_ids(
    api: tocsin.Api, shared_tower: Tower, tmp_path: Path
) -> None:
    for _ in range(2):
        begun(shared_tower, "twice", tmp_path).finish()
    with pytest.raises(read.NotFoundError, match=r"2 runs are named 'twice'. Use an id: "):
        api.run("twice")


@pytest.mark.parametrize("token", ["", "tcn_wrong"])
def test_a_wrong_token_is_answered_with_the_command(shared_tower: Tower, token: str) -> None:
    api = tocsin.Api(shared_tower.base, token)
    with pytest.raises(PermissionError, match="tocsin-server token create NAME --scope read"):
        api.alerts().all()


def test_a_token_that_may_only_report_is_told_the_scope(shared_tower: Tower) -> None:
    token = shared_tower.post("/tokens", {"name": "trainers", "scope": "ingest"})["token"]
    with pytest.raises(read.TokenError, match=r"yours has scope ingest.*--scope read"):
        tocsin.Api(shared_tower.base, token).runs().all()


def test_a_redirect_is_named_with_its_place() -> None:
    """As by a proxy that leads to HTTPS or to a page of a single sign-on. A query may have secrets."""

    class Redirect(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("location", "https://sso.example/login?state=secret")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Redirect) as proxy:
        threading.Thread(target=proxy.handle_request, daemon=True).start()
        with pytest.raises(
            read.UnreachableError, match=r"to https://sso\.example/login\. Redirects"
        ) as caught:
            tocsin.Api(f"http://127.0.0.1:{proxy.server_port}", retries=0).get("/about")
    assert "secret" not in str(caught.value)


def test_a_server_that_is_away_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is the one of the environment."""
    address = f"http://127.0.0.1:{closed_port()}"
    monkeypatch.setenv("TOCSIN_URL", address)
    with pytest.raises(ConnectionError, match=f"No answer from {address}.*Is the server running"):
        tocsin.Api(retries=0).alerts().all()


def test_asyncio_gives_the_same(shared_tower: Tower, api: tocsin.Api, trained: str) -> None:
    """Several requests at once; each stream with ``async for``."""

    async def ask() -> Any:
        async with tocsin.AsyncApi(shared_tower.base, shared_tower.token) as api:
            run, table, alerts = await asyncio.gather(
                api.run(trained), api.records(trained, "loss").table(), api.alerts(trained).all()
            )
            return run, table, alerts, [run.id async for run in api.runs("name:trained")]

    run, table, alerts, ids = asyncio.run(ask())
    assert (run.id, ids, alerts) == (trained, [trained], api.alerts(trained).all())
    assert bits(table.lists()["loss"]) == bits(api.records(trained, "loss").table().lists()["loss"])


def test_both_apis_have_the_same_methods_and_arguments() -> None:
    def public(kind: type) -> dict[str, list[inspect.Parameter]]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {n: list(inspect.signature(f).parameters.values()) for n, f in found if n[0] != "_"}

    assert public(tocsin.Api) == public(tocsin.AsyncApi)
