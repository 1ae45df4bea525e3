"""The views for SQL from outside have what the API has, on SQLite and on Postgres."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import text, update

from tests.import_graph import ROOT
from tests.server.store.whole_run import write_run_to
from tocsin_server.runs.sparkline_buckets import Spark
from tocsin_server.store import views
from tocsin_server.store.acks import Ack, add_acks
from tocsin_server.store.database import Database, open_database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.tables import alert, run

PAGE = (ROOT / "docs" / "how-to" / "query.md").read_text("utf-8")
COOKBOOK = re.findall(r'```sql title="(.+?)"\n(.+?);\n```', PAGE, flags=re.DOTALL)


@pytest.fixture
def rows(database: Database) -> Callable[[str], list[dict[str, Any]]]:
    """``rows(query)`` of a database with the run r1."""
    write_run_to(database, "r1")

    def ask(query: str) -> list[dict[str, Any]]:
        with database.reader.connect() as connection:
            return [dict(row._mapping) for row in connection.execute(text(query))]

    return ask


def test_runs_and_alerts_are_those_of_the_api(database: Database, rows: Callable[..., Any]) -> None:
    reader = StoreReader(database)
    (stored,) = reader.runs()
    (row,) = rows("SELECT * FROM runs")
    assert (row["id"], row["name"], row["attempts"], row["last_step"]) == (
        "r1",
        stored.name,
        2,
        stored.last_step,
    )
    assert {row["id"] for row in rows("SELECT id FROM alerts")} == {one.alert.id for one in reader.alerts()}


def test_times_are_those_of_the_api(database: Database, rows: Callable[..., Any]) -> None:
    """A timestamp on Postgres, and text in UTC on SQLite."""
    reader = StoreReader(database)
    stored = reader.run("r1")
    assert stored is not None
    (found,) = rows("SELECT created_at, last_seen_at FROM runs")
    onsets = {row["onset_at"] for row in rows("SELECT onset_at FROM alerts")}
    assert [second(value) for value in found.values()] == [
        stored.created_ns // 10**9,
        stored.last_seen_ns // 10**9,
    ]
    assert {second(value) for value in onsets} == {one.alert.onset_ns // 10**9 for one in reader.alerts()}


def second(value: Any) -> int:
    """Return a time of a view as whole seconds since 1970."""
    read = value if isinstance(value, datetime) else datetime.fromisoformat(f"{value}+00:00")
    return int(read.timestamp())


def test_incidents_are_those_of_the_api(database: Database, rows: Callable[..., Any]) -> None:
    incidents = {one.incident.id: one for one in StoreReader(database).incidents()}
    found = {row["id"]: row for row in rows("SELECT * FROM incidents")}
    assert found.keys() == incidents.keys()
    for id, one in incidents.items():
        assert (found[id]["state"], found[id]["severity"]) == (one.state.value, one.incident.severity.value)
        assert found[id]["alerts"] == one.count


def test_acknowledgements_are_those_of_the_api(database: Database, rows: Callable[..., Any]) -> None:
    """With their times; a withdrawn one is none, and an incident has the one of its most severe alert."""
    worst = max((one.alert for one in StoreReader(database).alerts()), key=lambda one: one.severity.level)
    key = (worst.run_id, worst.fingerprint, worst.episode)
    with database.engine.begin() as connection:
        connection.execute(update(alert).values(incident="1"))
        add_acks(connection, [key], Ack(2**62, "ada", "mine"))
    for view in ("alerts", "incidents"):
        found = rows(f"SELECT * FROM {view} WHERE acknowledged_by = 'ada'")
        assert [second(row["acknowledged_at"]) for row in found] == [2**62 // 10**9]
    with database.engine.begin() as connection:
        add_acks(connection, [key], Ack(2**62, "ada", "", undone=True))
    assert not rows("SELECT * FROM incidents WHERE acknowledged_by = 'ada'")


def test_the_newest_values_are_exact(database: Database, rows: Callable[..., Any]) -> None:
    stored = StoreReader(database).run("r1")
    assert stored is not None
    newest = {series.name: series.last for series in stored.series}
    found = rows("SELECT series, value FROM metrics_latest WHERE attempt = 2 AND value > 0")
    assert found
    assert {row["value"] for row in found} <= set(newest.values())
    assert rows("SELECT DISTINCT kind FROM nonfinite_values ORDER BY kind")


def test_metrics_are_the_buckets_of_the_sparklines(database: Database, rows: Callable[..., Any]) -> None:
    """Extremes and counts as the page has them; NULL where nothing is finite; a mean of huge values."""
    spark = Spark()
    values = [1.7e308] * 16 + [math.nan] * 32 + [math.inf, -math.inf] * 2 + [float(n) for n in range(948)]
    for step, value in enumerate(values):
        spark.take_few([step], [value])
    summary = {"sparks": {"loss": spark.saved()}, "skipped": 3, "last": {"loss": math.nan}}
    with database.engine.begin() as connection:
        connection.execute(update(run).values(summary=summary))
    found = rows("SELECT * FROM metrics_long ORDER BY step")
    cells = [[row[name] for name in ("min", "max", "value", "nan", "pinf", "ninf")] for row in found]
    assert cells == spark.row()["buckets"]
    assert (sum(row["n"] for row in found), found[0]["step"], found[-1]["step_end"]) == (1000, 0, 999)
    assert str(rows("SELECT last_loss FROM runs")[0]["last_loss"]).lower() == "nan"


def test_each_query_of_the_cookbook_runs(rows: Callable[..., Any]) -> None:
    assert len(COOKBOOK) > 5
    found = {title: rows(query) for title, query in COOKBOOK}
    assert len(found["The first NaN or Inf of each run"]) > 0


def test_views_of_an_earlier_version_are_replaced(database: Database) -> None:
    """By the next upgrade."""
    with database.engine.begin() as connection:
        views.drop(connection)
        connection.execute(text("CREATE VIEW runs AS SELECT 1 AS old"))
        views.drop(connection)
        views.create(connection)
        assert not connection.execute(text("SELECT * FROM runs")).all()


@pytest.mark.postgres
def test_who_could_read_a_view_still_can_after_an_upgrade(own_postgres: Any) -> None:
    database = open_database(own_postgres.migrated_database())
    with database.engine.begin() as connection:
        connection.execute(text('CREATE ROLE "view reader"'))
        connection.execute(text('GRANT SELECT ON runs TO "view reader"'))
    try:
        with database.engine.begin() as connection:
            views.drop(connection)
            views.create(connection)
            connection.execute(text('SET LOCAL ROLE "view reader"'))
            assert not connection.execute(text("SELECT * FROM runs")).all()
    finally:
        with database.engine.begin() as connection:
            connection.execute(text('REVOKE ALL ON runs FROM "view reader"; DROP ROLE "view reader"'))
        database.close()
