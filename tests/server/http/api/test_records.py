"""Every record of a run in every format, with exact values."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
import socket
import struct
from collections.abc import Callable
from typing import Any

import httpx
import pyarrow.parquet
import pytest

from tocsin_server.store.reader import StoreReader
from tocsin_server.transfer.column_names import COORDINATES
from tocsin_server.transfer.record_export import UnknownRun, every_page, file_name

NASTY = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1]


def bits(value: float | str) -> bytes:
    return struct.pack("<d", float(value))


def text(server: Any, run: str, **params: Any) -> httpx.Response:
    answer = httpx.get(f"{server.base}/api/v1/runs/{run}/records", params=params, headers=server.headers)
    assert answer.status_code == 200
    return answer


def test_json_keeps_every_bit(server: Any, trainer: Callable[..., Any]) -> None:
    """Non-finite values by name, -0.0 and the smallest float exactly; missing is not NaN."""
    run = trainer()
    run.records({"loss": NASTY, "extra": [None, math.nan, *[None] * 4]})
    items = server.get(f"/runs/{run.run}/records")["items"]
    assert [bits(item["values"]["loss"]) for item in items] == [bits(value) for value in NASTY]
    assert [item["values"].get("extra") for item in items] == [None, "NaN", None, None, None, None]
    assert items[3]["step"] == items[3]["seq"] == 3


def test_json_lines_keep_every_bit(server: Any, trainer: Callable[..., Any]) -> None:
    """One record per line, never a bare NaN."""
    run = trainer()
    run.records({"loss": NASTY})
    lines = text(server, run.run, format="jsonl").text.splitlines()
    found = [json.loads(line, parse_constant=pytest.fail)["values"]["loss"] for line in lines]
    assert [bits(value) for value in found] == [bits(value) for value in NASTY]


def test_csv_writes_nan_inf_and_nothing(server: Any, trainer: Callable[..., Any]) -> None:
    """nan, inf, -inf, -0.0; empty if a record has no value; hostile names are quoted."""
    run = trainer()
    name = 'a,"b"\u00e9<b>'
    run.records({name: [*NASTY[:4], None, 0.1], "step_time": NASTY, "rank": NASTY})
    answer = text(server, run.run, format="csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row[name] for row in rows] == ["nan", "inf", "-inf", "-0.0", "", "0.1"]
    assert [row["rank"] for row in rows] == ["0"] * 6
    assert [bits(row["value:rank"]) for row in rows] == [bits(value) for value in NASTY]
    assert "attachment" in answer.headers["content-disposition"]


def test_a_lone_series_is_in_the_name_of_the_file(server: Any, trainer: Callable[..., Any]) -> None:
    """Files of several charts of a run do not overwrite each other."""
    run = trainer()
    run.records({"loss": [1.0], "act/<b>": [1.0]})

    def names(wanted: str) -> str:
        answer = text(server, run.run, format="csv", names=wanted)
        return str(answer.headers["content-disposition"])

    assert names("loss").endswith('-loss.csv"')
    assert "-act_b_-" in names("act/<b>")
    assert "loss" not in names("loss,act/<b>")


def test_exports_are_never_cut(server: Any, trainer: Callable[..., Any]) -> None:
    """More records than fit on a page arrive in one response, each once and in order."""
    run = trainer()
    for start in range(0, 12_000, 4_000):
        run.records({"loss": [float(step) for step in range(start, start + 4_000)]}, first_step=start)
    lines = text(server, run.run, format="jsonl").text.splitlines()
    assert [json.loads(line)["values"]["loss"] for line in lines] == [float(n) for n in range(12_000)]


def test_pages_follow_one_another(server: Any, trainer: Callable[..., Any]) -> None:
    """`next` leads from page to page; the last one has none."""
    run = trainer()
    run.records({"loss": [float(n) for n in range(25)]})
    seen, after = [], None
    while True:
        page = server.get(f"/runs/{run.run}/records", limit=10, **({"after": after} if after else {}))
        seen += [item["step"] for item in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert seen == list(range(25))


def test_a_window_and_names_are_chosen(server: Any, trainer: Callable[..., Any]) -> None:
    """Both ends of the window are included; repeated parameters allow names with a comma."""
    run = trainer()
    run.records({"loss": [1.0, 2.0, 3.0, 4.0], "a,b": [5.0, 6.0, 7.0, 8.0], "lr": [0.1] * 4})
    page = server.get(f"/runs/{run.run}/records", **{"from": 1, "to": 2}, names=["a,b", "loss"])
    assert [item["values"] for item in page["items"]] == [
        {"loss": 2.0, "a,b": 6.0},
        {"loss": 3.0, "a,b": 7.0},
    ]


@pytest.mark.parametrize(
    ("params", "subject"),
    [
        ({"after": "x"}, "after"),
        ({"from": "x"}, "from"),
        ({"format": "xml"}, "format"),
        ({"limit": 0}, "limit"),
    ],
)
def test_a_bad_parameter_is_named(
    server: Any, trainer: Callable[..., Any], params: dict[str, Any], subject: str
) -> None:
    """A 422 problem names the parameter and says what was expected."""
    run = trainer()
    run.records({"loss": [1.0]})
    answer = httpx.get(f"{server.base}/api/v1/runs/{run.run}/records", params=params, headers=server.headers)
    assert answer.status_code == 422
    assert answer.json()["subject"] == subject
    assert answer.json()["got"] == str(next(iter(params.values())))


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_an_unknown_run_is_404_in_every_format(server: Any, form: str) -> None:
    """This includes formats whose response would be a stream."""
    answer = httpx.get(f"{server.base}/api/v1/runs/none/records?format={form}", headers=server.headers)
    assert (answer.status_code, answer.json()["subject"]) == (404, "run")


@pytest.mark.parametrize(
    ("run_id", "name"),
    [
        ("r_1", r"r_1"),
        ('a"\r\nb', r"a_b-\w{8}"),
        ("../../etc", r"_\.\._etc-\w{8}"),
        ("é", r"_-\w{8}"),
        ("..", r"run-\w{8}"),
    ],
)
def test_a_file_name_is_safe(run_id: str, name: str) -> None:
    """The name can break out of neither the header nor the folder."""
    assert re.fullmatch(name, file_name(run_id))


def test_every_run_has_a_file_name_of_its_own() -> None:
    """Runs of a project are saved in one folder: similar ids have different names there."""
    ids = ["a:b", "a_b", "a_b.", "..", "run", "x" * 100, "x" * 101, "x" * 102]
    assert len({file_name(run_id) for run_id in ids}) == len(ids)


def test_parquet_holds_every_record(server: Any, trainer: Callable[..., Any]) -> None:
    """Single series can be requested; missing values stay missing."""
    run = trainer()
    run.records({"loss": [1.0, math.nan, None], "lr": [0.1, 0.2, 0.3]})
    url = f"{server.base}/api/v1/runs/{run.run}/records?format=parquet&names=loss"
    answer = httpx.get(url, headers=server.headers)
    table = pyarrow.parquet.read_table(io.BytesIO(answer.content))
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    assert table.schema.names == [*COORDINATES, "loss"]
    assert repr(table.column("loss").to_pylist()) == "[1.0, nan, None]"


@pytest.fixture
def small_pages(run_server: Callable[..., Any], dial: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server that exports ten records at a time, and a run ``r`` of twenty."""
    monkeypatch.setattr("tocsin_server.transfer.record_export.PAGE", 10)
    monkeypatch.setattr("tocsin_server.transfer.parquet.CELLS", 1)
    server = run_server()
    client = dial(server.base, "r", server.token)
    client.acked(client.train(range(20), loss=[float(step) for step in range(20)]))
    return server


def damage(monkeypatch: pytest.MonkeyPatch, *, later: bool) -> None:
    """Make reading records fail: every read, or only those after the first page."""
    read = StoreReader.records

    def failing(reader: StoreReader, *run: Any, **asked: Any) -> Any:
        if asked["after"] or not later:
            raise ValueError("a damaged chunk")
        return read(reader, *run, **asked)

    monkeypatch.setattr(StoreReader, "records", failing)


def export(server: Any, form: str, coding: str = "identity") -> httpx.Response:
    headers = {"authorization": f"Bearer {server.token}", "accept-encoding": coding}
    return httpx.get(f"{server.base}/api/v1/runs/r/records?format={form}", headers=headers)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("coding", ["identity", "gzip", "zstd"])
def test_an_export_that_fails_midway_breaks_off(
    small_pages: Any, monkeypatch: pytest.MonkeyPatch, form: str, coding: str
) -> None:
    """The client sees a broken connection, never a truncated file that looks complete."""
    damage(monkeypatch, later=True)
    with pytest.raises(httpx.RemoteProtocolError):
        export(small_pages, form, coding)


def test_an_export_that_fails_at_once_is_a_problem(small_pages: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status is sent, because nothing has been sent before."""
    damage(monkeypatch, later=False)
    answer = export(small_pages, "csv")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")


def test_an_export_fails_if_its_run_is_deleted_meanwhile(small_pages: Any) -> None:
    """Records are deleted in pieces, and the rest must not look like the whole run."""
    pages = every_page(small_pages.services.reader, "r")
    next(pages)
    headers = {"authorization": f"Bearer {small_pages.token}"}
    httpx.delete(f"{small_pages.base}/api/v1/runs/r", headers=headers).raise_for_status()
    with pytest.raises(UnknownRun, match="was deleted while it was being exported"):
        list(pages)


def test_an_export_by_http_1_0_is_rejected(server: Any, trainer: Callable[..., Any]) -> None:
    """In HTTP/1.0 the end of the connection is the end of the file, so a client could not notice."""
    run = trainer().run
    address = httpx.URL(server.base)
    with socket.create_connection((address.host, address.port)) as plain:
        path = f"/api/v1/runs/{run}/records?format=csv"
        head = f"authorization: {server.headers['authorization']}\r\nhost: 127.0.0.1"
        plain.sendall(f"GET {path} HTTP/1.0\r\n{head}\r\n\r\n".encode())
        answer = plain.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 426 ")
    assert b"proxy_http_version 1.1" in answer


def array_of(packed: dict[str, str]) -> list[float]:
    """Decode an array of the packed format."""
    code = {"f8": "d", "i8": "q", "u4": "I"}[packed["dtype"]]
    raw = base64.b64decode(packed["bdata"])
    return [value for (value,) in struct.iter_unpack(f"<{code}", raw)]


def test_packed_arrays_keep_every_bit(server: Any, trainer: Callable[..., Any]) -> None:
    """Values, and the rows that have one; missing is not NaN."""
    run = trainer()
    run.records({"loss": NASTY, "extra": [None, math.nan, *[None] * 4]})
    page = server.get(f"/runs/{run.run}/records", format="packed")
    columns = {column["name"]: column for column in page["columns"]}
    assert [bits(value) for value in array_of(columns["loss"]["values"])] == [bits(value) for value in NASTY]
    assert array_of(columns["extra"]["rows"]) == [1]
    assert (page["n"], array_of(page["step"]), page["next"]) == (6, [*range(6)], None)


def test_since_returns_what_arrived_meanwhile(server: Any, trainer: Callable[..., Any]) -> None:
    """Also of records that were compressed, and of records with earlier steps."""
    run = trainer()
    run.records({"loss": [0.0] * 5000})
    first = server.get(f"/runs/{run.run}/records", format="packed", limit=1)
    assert server.get(f"/runs/{run.run}/records", format="packed", since=first["cursor"])["n"] == 0
    run.records({"loss": [1.0] * 10})
    found = server.get(f"/runs/{run.run}/records", since=first["cursor"])["items"]
    assert [(item["step"], item["values"]["loss"]) for item in found] == [(step, 1.0) for step in range(10)]


def test_a_packed_page_of_many_series_is_bounded(server: Any, trainer: Callable[..., Any]) -> None:
    """By numbers, not by records."""
    run = trainer()
    for first in range(0, 2000, 100):
        run.records({f"s{number}": [1.0] * 100 for number in range(400)}, first_step=first)
    page = server.get(f"/runs/{run.run}/records", format="packed")
    assert 0 < page["n"] < 1500
    assert page["next"]
