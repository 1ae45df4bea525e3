"""A whole report from a database: content, size, errors."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import update

from tests.server.store.whole_run import LATE, write_run_to
from tocsin_server.core.models import F64, RunState
from tocsin_server.http.web_files import report_assets
from tocsin_server.report.material import (
    FEWEST,
    ITEMS,
    MOST,
    MOST_RUNS,
    MOST_SERIES,
    VITAL_SIGNS,
    ReportError,
    buckets_for,
    choose,
    series_for,
)
from tocsin_server.report.page import LIMIT_BYTES
from tocsin_server.report.sections import outcome
from tocsin_server.report.words import num
from tocsin_server.report.writing import write_report
from tocsin_server.store.chunks import RECORDS
from tocsin_server.store.database import Database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.tables import run

NONFINITE = ("nan", "pinf", "ninf")
ASSETS = report_assets()


@pytest.fixture
def reader(database: Database) -> StoreReader:
    """Two runs with data of every kind."""
    for run_id in ("r1", "r2"):
        write_run_to(database, run_id)
    return StoreReader(database)


def test_a_report_asks_nothing_of_any_network(reader: StoreReader) -> None:
    """No address is fetched: its policy forbids it, and its markup refers to no files."""
    made = write_report(reader, ASSETS, ["r1"])
    text = made.body.decode("utf-8")
    markup = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert "default-src 'none'; script-src 'sha256-" in text
    assert not re.search(r"<(?:link|img|iframe)\b|\bsrc=|@import|url\(", markup)
    assert text.count(ASSETS.plotly_js) == 1
    assert len(made.body) < LIMIT_BYTES


def arrays_of(layer: dict[str, Any]) -> dict[str, F64]:
    """Return the arrays of a layer as the browser decodes them."""
    packed = {name: value for name, value in layer.items() if isinstance(value, dict)}
    return {name: np.frombuffer(base64.b64decode(value["bdata"])) for name, value in packed.items()}


def test_the_charts_hold_every_value(reader: StoreReader) -> None:
    """Exact values bit by bit, and of each bucket its range and its number of each non-finite kind."""
    text = write_report(reader, ASSETS, ["r1"]).body.decode("utf-8")
    found = re.search(r'<script type="application/json" id="charts">([^<]*)</script>', text)
    assert found is not None
    series = json.loads(found[1])["runs"][0]
    shown = reader.run("r1")
    assert shown is not None
    assert set(series) == {one.name for one in shown.series}
    stored = reader.series("r1", list(series), buckets=buckets_for(len(series) * 2)).series
    kinds: Counter[str] = Counter()
    for name, layers in series.items():
        for drawn, kept in zip(layers, stored[name], strict=True):
            arrays = arrays_of(drawn)
            assert arrays
            for each, values in arrays.items():
                assert values.tobytes() == np.asarray(getattr(kept, each), float).tobytes(), (name, each)
            if kept.exact:
                kinds.update(str(value) for value in arrays["first"] if not np.isfinite(value))
            else:
                assert arrays["n"].sum() == kept.n.sum() > MOST
                kinds.update({f"{each} of a bucket": int(arrays[each].sum()) for each in NONFINITE})
    assert {"nan", "inf", *(f"{each} of a bucket" for each in NONFINITE)} <= set(+kinds)


def test_a_comparison_holds_every_run(reader: StoreReader) -> None:
    """A run that is named twice appears once."""
    text = write_report(reader, ASSETS, ["r1", "r2", "r1"]).body.decode("utf-8")
    assert text.count('<section class="each">') == 2


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ([], "expected 1 to"),
        (["no-such-run"], "not found"),
        ([f"r{n}" for n in range(MOST_RUNS + 1)], "expected 1 to"),
    ],
)
def test_impossible_reports_are_rejected(reader: StoreReader, ids: list[str], reason: str) -> None:
    """No run, an unknown run, too many."""
    with pytest.raises(ReportError, match=reason):
        write_report(reader, ASSETS, ids)


@pytest.mark.parametrize("curves", [1, 4, 48, 500, 1500])
def test_curves_share_the_room_there_is(curves: int) -> None:
    """For any number of runs, their total number of buckets is limited."""
    assert buckets_for(curves) * curves <= ITEMS


@pytest.mark.parametrize("curves", [1, 30, 200, 40_000])
def test_many_attempts_leave_room_for_fewer_series(curves: int) -> None:
    """The vital signs are always drawn; all other series share what the budget leaves."""
    room = series_for(curves)
    assert len(VITAL_SIGNS) <= room <= MOST_SERIES
    assert room == len(VITAL_SIGNS) or room * curves * FEWEST <= ITEMS


def test_an_attempt_ends_with_its_newest_record_or_event(reader: StoreReader) -> None:
    """The time after it, until the next attempt begins, costs nothing."""
    stored = reader.run("r1")
    assert stored is not None
    newest_ns = 10**18 + (RECORDS + LATE - 1) * 10**6
    assert stored.attempts_list[0].last_ns == newest_ns


def test_the_head_has_the_newest_step_of_the_run(database: Database, reader: StoreReader) -> None:
    """Its row, which is written only now and then, may have an older one."""
    with database.engine.begin() as connection:
        connection.execute(update(run).where(run.c.id == "r1").values(last_step=1))
    stored = reader.run("r1")
    assert stored is not None
    assert stored.last_step == stored.attempts_list[-1].last_step != 1


@pytest.mark.parametrize(("severity", "text"), [("critical", "finished with problems"), ("info", "finished")])
def test_the_head_says_that_a_run_finished_with_problems(
    reader: StoreReader, severity: str, text: str
) -> None:
    """As its page does, if an alert of at least a warning was firing at the end."""
    stored = reader.run("r1")
    assert stored is not None
    ended = replace(stored, state=RunState.FINISHED, summary={"left": {"severity": severity}})
    assert outcome(ended) == text


def test_metrics_of_the_script_come_before_those_of_the_hook() -> None:
    """As on the page; the vital signs are first."""
    wanted, _ = choose(["hook/cost_us", "loss", "sys/gpu0", "val/psnr", "gpu_util"], None)
    assert wanted == [*VITAL_SIGNS, "val/psnr", "gpu_util", "hook/cost_us", "sys/gpu0"]


def test_large_numbers_are_written_as_on_the_pages() -> None:
    """Not as 1.659e+04; powers of ten begin at 100,000."""
    assert [num(value) for value in (16590.4, -16590.4, 0.5, 123456.0)] == [
        "16\u202f590",
        "\u221216\u202f590",
        "0.5",
        "1.235e5",
    ]
