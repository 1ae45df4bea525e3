"""The schema can be distributed over machines by run; here Postgres distributes it over partitions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from tests.server.store.whole_run import rows_of, write_run_to
from tocsin_server.store import views
from tocsin_server.store.database import Database, migrate, open_database
from tocsin_server.store.deletion_jobs import finish, mark_runs, on_database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.rule_tables import custom_rule
from tocsin_server.store.tables import RUN_TABLES

SCALE = Path(__file__).resolve().parents[3] / "docs" / "internals" / "scale.md"
PARTS = 4


def spread(database: Database) -> None:
    """Partition every table whose rows belong to runs by a hash of the run."""
    with database.engine.begin() as connection:
        views.drop(connection)
        for table in RUN_TABLES:
            name = table.name
            connection.execute(text(f"ALTER TABLE {name} RENAME TO {name}_whole"))
            connection.execute(
                text(f"CREATE TABLE {name} (LIKE {name}_whole INCLUDING ALL) PARTITION BY HASH (run_id)")
            )
            for part in range(PARTS):
                where = f"WITH (MODULUS {PARTS}, REMAINDER {part})"
                connection.execute(text(f"CREATE TABLE {name}_{part} PARTITION OF {name} FOR VALUES {where}"))
            connection.execute(text(f"DROP TABLE {name}_whole"))
        views.create(connection)


@pytest.mark.postgres
def test_runs_live_in_partitions_of_their_own(own_postgres: Any) -> None:
    """Stored, sealed, charted, exported by page and deleted; no run is in two partitions."""
    url: URL = own_postgres.new_database()
    migrate(url)
    database = open_database(url)
    spread(database)
    for run_id in ("r1", "r2", "r3"):
        write_run_to(database, run_id)
    reader = StoreReader(database)
    assert reader.records("r2", limit=10**6).n == reader.records("r1", limit=10**6).n > 4096
    assert reader.series("r3", ["loss"], buckets=50).series["loss"]
    with database.reader.connect() as connection:
        for name in ("tail", "chunk", "roll", "alert"):
            query = text(f"SELECT run_id, count(DISTINCT tableoid) FROM {name} GROUP BY run_id")
            assert dict(connection.execute(query).all()) == {"r1": 1, "r2": 1, "r3": 1}, name
        plan = text("EXPLAIN SELECT * FROM chunk WHERE run_id = 'r1' AND no = 0")
        asked = set(re.findall(r"chunk_\d", " ".join(connection.execute(plan).scalars())))
    assert len(asked) == 1
    others = rows_of(database, "r2"), rows_of(database, "r3")
    with database.engine.begin() as connection:
        mark_runs(connection, run_ids=["r1"], now_ns=1, actor="test")
    finish(on_database(database), ["r1"])
    assert not any(rows_of(database, "r1").values())
    assert (rows_of(database, "r2"), rows_of(database, "r3")) == others
    database.close()


def test_the_commands_for_another_engine_name_every_table_of_runs() -> None:
    """docs/internals/scale.md distributes exactly these tables."""
    (listed,) = re.findall(r"ARRAY\[([^\]]+)\]\) AS name;\nSELECT create_reference", SCALE.read_text("utf-8"))
    assert set(re.findall(r"'(\w+)'", listed)) == {table.name for table in RUN_TABLES}


def test_the_commands_for_another_engine_copy_every_other_table() -> None:
    """docs/internals/scale.md keeps exactly the other tables whole on each machine."""
    (_, listed) = re.findall(r"ARRAY\[([^\]]+)\]\) AS name;", SCALE.read_text("utf-8"))
    others = set(custom_rule.metadata.tables) - {table.name for table in RUN_TABLES} - {"run"}
    assert set(re.findall(r"'(\w+)'", listed)) == others
