"""A whole report from a database: content, size, errors."""

from __future__ import annotations

import base64
import json
import math
import re

import numpy as np
import pytest

from tests.server.store.whole_run import write_run_to
from tocsin_server.http import plotlyjs
from tocsin_server.http.pages import web_directory
from tocsin_server.report.material import ITEMS, MOST_RUNS, ReportError, buckets_for
from tocsin_server.report.page import LIMIT_BYTES, assets_of
from tocsin_server.report.writing import write_report
from tocsin_server.store.database import Database
from tocsin_server.store.reader import StoreReader

SCRIPT = plotlyjs.installed().script.decode("utf-8")
HOSTILE = "</script><b>"
ASSETS = assets_of(web_directory(), SCRIPT)


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
    assert text.count(SCRIPT) == 1
    assert len(made.body) < LIMIT_BYTES


def test_the_charts_hold_every_value(reader: StoreReader) -> None:
    """Bit by bit, with non-finite ones; a hostile name is data and ends no script."""
    text = write_report(reader, ASSETS, ["r1"], ["loss", HOSTILE]).body.decode("utf-8")
    found = re.search(r'<script type="application/json" id="charts">([^<]*)</script>', text)
    assert found is not None
    data = json.loads(found[1])
    layers = [one for one in data["runs"][0]["loss"] if one["exact"]]
    values = [value for one in layers for value in np.frombuffer(base64.b64decode(one["first"]["bdata"]))]
    stored = reader.series("r1", ["loss"], buckets=1600).series["loss"]
    assert repr(values) == repr([value for one in stored if one.exact for value in one.first])
    assert sum(map(math.isnan, values)) > 0


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
def test_what_cannot_be_reported_is_said(reader: StoreReader, ids: list[str], reason: str) -> None:
    """No run, an unknown run, too many."""
    with pytest.raises(ReportError, match=reason):
        write_report(reader, ASSETS, ids)


@pytest.mark.parametrize("curves", [1, 4, 48, 500, 1500])
def test_curves_share_the_room_there_is(curves: int) -> None:
    """For any number of runs, their total number of buckets is limited."""
    assert buckets_for(curves) * curves <= ITEMS
