"""Damaged values in the database: isolated, named by `check`, repaired by `check --repair`."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from sqlalchemy import Connection, literal, select, text
from sqlalchemy.engine import URL

from tests.server.app.test_isolation import listed
from tests.server.store.whole_run import write_run_to
from tocsin_server.core.permissions import Scope, Token, digest_of
from tocsin_server.store import alert_groups, notification_config, outbox, rules
from tocsin_server.store.alert_groups import GroupRow
from tocsin_server.store.alert_rows import diagnosis_of
from tocsin_server.store.columns import ShownNumber
from tocsin_server.store.database import Database
from tocsin_server.store.notification_config import ChannelRow, SilenceRow
from tocsin_server.store.outbox import Notification
from tocsin_server.store.rules import CustomRuleRow, TuningRow
from tocsin_server.store.tables import RUN_TABLES, chunk, metadata, rule_state
from tocsin_server.store.tokens import add_token

Run = Callable[..., Any]
FAR_NS = 2**61
OF_RUN = {
    "run": ("config", "environment", "tags", "error", "summary"),
    "alert": ("diagnosis", "labels"),
    "event": ("data",),
}
OF_ALL = {
    "channel": ("config", "secret"),
    "silence": ("matchers",),
    "setting": ("value",),
    "custom_rule": ("body",),
    "rule_tuning": ("body",),
    "notification": ("body",),
    "notify_group": ("labels",),
    "project": ("settings",),
}
BYTES = {
    "invalid": b'{"a": nonsense}',
    "truncated": b'{"a": [1, 2',
    "wrong type": b'"a text"',
    "too deep": b"[" * 100_000,
    "not UTF-8": b'{"a": "\xff"}',
    "NUL": b'{"a": "\x00"}',
}
LISTS = (
    "alerts", "channels", "silences", "routes", "rules", "deliveries", "notifications", "projects", "audit",
    "configs",
)  # fmt: skip
ON_SQLITE = ("not UTF-8", "NUL")


KEYS: dict[str, tuple[str, ...]] = {
    "channel": ("c_1", "id", "name"),
    "silence": ("s_1", "id"),
    "setting": (notification_config.ROUTING, "name"),
    "custom_rule": ("mine", "id"),
    "rule_tuning": ("*", "project"),
    "notification": ("n_1", "id"),
    "notify_group": ("g_1", "id"),
    "project": ("deblur", "name"),
    "run": ("good", "id"),
}
"""The row of each table, and the columns that distinguish its copies."""


def populate(database: Database) -> None:
    """Store a whole run, and one row of everything that users configure."""
    write_run_to(database, "good")
    group = GroupRow("g_1", "alerts", "all", "c_1", {}, 1, FAR_NS, None)
    with database.engine.begin() as connection:
        notification_config.put_channel(connection, ChannelRow("c_1", "desk", "browser"))
        notification_config.put_silence(
            connection, SilenceRow("s_1", ['rule="a"'], 0, FAR_NS, "me", "", FAR_NS - 1)
        )
        notification_config.write_choice(connection, notification_config.ROUTING, {"routes": []}, 1)
        rules.add_rule(connection, CustomRuleRow("mine", {"series": "loss"}))
        rules.put_tuning(connection, TuningRow("loss-spike", "*", {"enabled": False}))
        alert_groups.put_group(connection, group)
        outbox.enqueue(connection, Notification("n_1", "c_1", "g_1", "alerts", "t", {"alerts": []}))


def copy(connection: Connection, name: str) -> None:
    """Copy all rows under the name ``name``."""
    for table, (one, *keys) in (KEYS | {each.name: ("good", "run_id") for each in RUN_TABLES}).items():
        columns = metadata.tables[table].columns
        kept = [literal(name).label(c.name) if c.name in keys else c for c in columns]
        query = select(*kept).where(columns[keys[0]] == one)
        connection.execute(metadata.tables[table].insert().from_select(columns.keys(), query))


def wrong_in(kind: str) -> dict[str, tuple[str, ...]]:
    """Return table -> columns in which this value is damage: a setting may be JSON of any type."""
    return {
        name: cols for name, cols in (OF_RUN | OF_ALL).items() if (name, kind) != ("setting", "wrong type")
    }


def spoil(connection: Connection, kind: str) -> None:
    """Damage every JSON column of the copy with this name, and the routes."""
    body, sqlite = BYTES[kind], connection.dialect.name == "sqlite"
    value = "CAST(:body AS TEXT)" if sqlite else ":body"
    given = {"body": body if sqlite else body.decode(), "kind": kind, "routes": notification_config.ROUTING}
    for table, columns in wrong_in(kind).items():
        key = KEYS.get(table, ("good", "run_id"))[1]
        for column in columns:
            query = text(f"UPDATE {table} SET {column} = {value} WHERE {key} IN (:kind, :routes)")
            assert connection.execute(query, given).rowcount, (kind, table, column)


@pytest.fixture
def kinds(url: URL) -> list[str]:
    """Return the kinds of damage that this database accepts."""
    on_sqlite = url.get_backend_name() == "sqlite"
    return [kind for kind in BYTES if on_sqlite or kind not in ON_SQLITE]


@pytest.fixture
def damaged(database: Database, kinds: list[str]) -> None:
    """Store each kind of damage in every JSON column of a separate copy."""
    populate(database)
    with database.engine.begin() as connection:
        for kind in kinds:
            copy(connection, kind)
            spoil(connection, kind)


@pytest.fixture
def check(tocsin: Run, address: str) -> Run:
    """``check("--repair")``: run the command on the database of the test."""
    return lambda *options: tocsin("check", "--database-url", address, *options)


@pytest.mark.usefixtures("damaged")
def test_the_server_starts_and_serves_the_others(run_server: Run, kinds: list[str]) -> None:
    """Every list is returned, the good run is unchanged, and no job fails because of the damage."""
    server = run_server()
    headers = {"authorization": f"Bearer {server.token}"}
    assert listed(server) == sorted(["good", *kinds])
    paths = [f"/runs/{quote(run_id)}{more}" for run_id in ("good", *kinds) for more in ("", "/events")]
    for path in [*paths, "/alerts/marks", *(f"/{name}" for name in LISTS)]:
        answer = httpx.get(f"{server.base}/api/v1{path}", headers=headers, timeout=60)
        assert answer.status_code == 200, (path, answer.text[:300])
    good = httpx.get(f"{server.base}/api/v1/runs/good", headers=headers, timeout=60).json()
    assert good["tags"] == ["a", "b"]
    failing = httpx.get(f"{server.base}/api/v1/health", headers=headers, timeout=60).json()["jobs"]
    assert [item for item in failing if "good" in item["subject"]] == []


@pytest.mark.usefixtures("damaged")
@pytest.mark.both_databases
def test_check_names_and_repairs_every_damaged_value(check: Run, kinds: list[str], tmp_path: Path) -> None:
    """One line each and status 1. After the repair, the old values are in a private file and none is left."""
    before = check()
    lines = [line.split("\t") for line in before.stdout.splitlines()]
    assert before.returncode == 1
    for kind in kinds:
        named = {(table, column) for table, run, key, column, _ in lines if kind in (run, *key.split("."))}
        assert named >= {(table, column) for table, columns in wrong_in(kind).items() for column in columns}
    of_good = {(line[0], line[3]) for line in lines if line[1] == "good"}
    assert of_good == {("run", "summary")}  # `write_run` stores half of one
    repaired = check("--repair")
    (kept,) = tmp_path.glob("damaged-*.jsonl")
    assert len([json.loads(line) for line in kept.read_text().splitlines()]) == len(lines)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert (repaired.returncode, check().stdout) == (0, "")


def test_check_does_not_create_a_database(tocsin: Run, tmp_path: Path) -> None:
    """A wrong directory is an error with status 2, and nothing is written."""
    done = tocsin("check", "--data-dir", str(tmp_path))
    assert done.returncode == 2
    assert f"There is no database at {tmp_path}/tocsin.db" in done.stderr
    assert not list(tmp_path.iterdir())


def test_the_row_of_a_run_is_made_again_from_its_records(database: Database, check: Run) -> None:
    """Counts and newest values are those of an undamaged run."""
    write_run_to(database, "bad")
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE run SET summary = '{'"))
    assert check("--repair").returncode == 0
    with database.reader.begin() as connection:
        board = json.loads(connection.execute(text("SELECT summary FROM run")).scalar_one())
    assert (board["last_step"], board["arrival"]) == (2**41 + 1, 5003)


NOT_NUMBERS = ("'text'", "1.5", "x'00ff'")


@pytest.fixture
def spoilt_numbers(database: Database) -> None:
    """Copies of a whole run in which every displayed number is text. Only SQLite accepts that."""
    if database.dialect != "sqlite":
        pytest.skip("Postgres stores only numbers in such columns")
    populate(database)
    with database.engine.begin() as connection:
        for no, value in enumerate(NOT_NUMBERS):
            copy(connection, f"bad{no}")
            for table in metadata.sorted_tables:
                key = KEYS.get(table.name, ("good", "run_id"))[1]
                names = [c.name for c in table.c if isinstance(c.type, ShownNumber) and not c.primary_key]
                if names and key in table.c:
                    changes = ", ".join(f"{name} = {value}" for name in names)
                    connection.execute(text(f"UPDATE {table} SET {changes} WHERE {key} = 'bad{no}'"))


@pytest.mark.usefixtures("spoilt_numbers")
@pytest.mark.both_databases
def test_numbers_that_are_none_affect_only_their_own_rows(run_server: Run) -> None:
    """Every list contains all runs, and each run's page works."""
    server = run_server()
    headers = {"authorization": f"Bearer {server.token}"}
    runs = ["bad0", "bad1", "bad2", "good"]
    assert listed(server) == runs
    paths = [f"/runs/{run_id}{more}" for run_id in runs for more in ("", "/events", "/series", "/records")]
    for path in [*paths, "/alerts/marks", *(f"/{name}" for name in LISTS)]:
        answer = httpx.get(f"{server.base}/api/v1{path}", headers=headers, timeout=60)
        assert answer.status_code == 200, (path, answer.text[:300])


@pytest.mark.usefixtures("spoilt_numbers")
@pytest.mark.both_databases
def test_check_repairs_numbers_that_are_none(database: Database, check: Run) -> None:
    """Those of a run are named and replaced; a revoked token stays revoked."""
    with database.engine.begin() as connection:
        add_token(connection, Token("t_1", "ci", Scope.ADMIN, "", digest_of("secret"), 1))
        connection.execute(text("UPDATE token SET revoked_ns = 'text'"))
        connection.execute(text("UPDATE run SET summary = NULL"))
    named = [line.split("\t") for line in check().stdout.splitlines()]
    assert ["run", "bad0", "-", "ended_ns", "expected a whole number, got text: 'text'"] in named
    assert (check("--repair").returncode, check().stdout) == (0, "")
    with database.reader.begin() as connection:
        assert connection.execute(text("SELECT typeof(revoked_ns) FROM token")).scalar_one() == "integer"


@pytest.mark.both_databases
def test_a_number_of_the_record_path_is_named_and_left_alone(database: Database, check: Run) -> None:
    """Numbers that identify records are not repaired, because a guess could corrupt them."""
    if database.dialect != "sqlite":
        pytest.skip("Postgres stores only numbers in such columns")
    write_run_to(database, "bad")
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE run SET summary = NULL"))
        connection.execute(text("UPDATE writer SET chunks = 'text'"))
    assert check("--repair").returncode == 1
    left = {tuple(line.split("\t")[i] for i in (0, 1, 3)) for line in check().stdout.splitlines()}
    assert left == {("writer", "bad", "chunks")}


CHOSEN = {"run.state": "lost", "alert.state": "resolved", "alert.severity": "critical", "token.scope": "read"}


@pytest.mark.parametrize("place", CHOSEN)
def test_an_unknown_enumeration_value_is_repaired(
    database: Database, check: Run, run_server: Run, place: str
) -> None:
    """A token with a damaged scope grants nothing; a damaged state hides no run."""
    table, column = place.split(".")
    write_run_to(database, "bad")

    def spoilt() -> None:
        with database.engine.begin() as connection:
            connection.execute(text(f"UPDATE {table} SET {column} = 'nonsense'"))

    with database.engine.begin() as connection:
        add_token(connection, Token("t_1", "ci", Scope.ADMIN, "", digest_of("secret"), 1))
    spoilt()
    assert check("--repair").returncode == 0
    with database.reader.begin() as connection:
        assert set(connection.execute(text(f"SELECT {column} FROM {table}")).scalars()) == {CHOSEN[place]}
    spoilt()
    server = run_server()
    assert listed(server) == ["bad"]
    stranger = {"authorization": "Bearer secret"}
    answer = httpx.get(f"{server.base}/api/v1/runs", headers=stranger, timeout=60)
    assert answer.status_code == (401 if table == "token" else 200)


@pytest.mark.parametrize(
    "fields",
    [
        {"cause": 5}, {"evidence": [{"name": "a", "value": {}}]}, {"remedies": [{"text": 5}]},
        {"how_to_confirm": 5},
        {"evidence": [{"name": "a", "value": 1, "step": "x"}]}, {"alternatives": [5]},
        {"timeline": [[1, 2, 3]]},
    ],
)  # fmt: skip
def test_a_diagnosis_with_a_wrong_value_inside_is_damaged(fields: dict[str, Any]) -> None:
    """Otherwise the report of the run would fail."""
    with pytest.raises(ValueError, match="Expected"):
        diagnosis_of(fields)


def test_wrong_values_inside_tags_and_facts_stop_no_run(database: Database, run_server: Run) -> None:
    """The run is restored, and its alerts are routed."""
    write_run_to(database, "bad")
    odd = {"tags": "[5]", "environment": '{"versions": 5}', "state": "running"}
    with database.engine.begin() as connection:
        connection.execute(
            text("UPDATE run SET tags = :tags, environment = :environment, state = :state"), odd
        )
    server = run_server()
    assert list(server.pipeline.registry.active) == ["bad"]
    with database.reader.begin() as connection:
        (known,) = alert_groups.known_alerts(connection, [("bad", "f1", 1)]).values()
    assert known.tags == ("5",)


def test_what_can_be_derived_again_is_named_and_deleted(database: Database, check: Run) -> None:
    """The saved state of the rules is named once, and deleted by the repair."""
    write_run_to(database, "bad")
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE run SET summary = NULL"))
        connection.execute(rule_state.update().values(body=b"damaged"))
    lines = [line.split("\t")[:4] for line in check().stdout.splitlines()]
    assert lines == [["rule_state", "bad", "-", "body"]]
    assert check("--repair").returncode == 0
    assert check().stdout == ""


@pytest.mark.both_databases
def test_damaged_records_are_named_and_left_alone(database: Database, check: Run) -> None:
    """For a changed byte in a sealed chunk, it names run, series and chunk. --repair does not change it."""
    write_run_to(database, "bad")
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE run SET summary = NULL"))
        connection.execute(chunk.update().where(chunk.c.col_id == 0).values(body=b"damaged"))
    for options in ((), ("--repair",)):
        done = check(*options)
        assert done.returncode == 1
        (line,) = done.stdout.splitlines()
        assert line.startswith("chunk\tbad\twriter 0, step, chunk 0\tbody\t")


def test_damaged_records_are_reported(database: Database, run_server: Run, tocsin: Run, address: str) -> None:
    """The API and the command line report the damage and what to do; the run's page works."""
    write_run_to(database, "bad")
    with database.engine.begin() as connection:
        connection.execute(chunk.update().where(chunk.c.col_id == 0).values(body=b"damaged"))
    exported = tocsin("export", "bad", "--database-url", address)
    assert (exported.returncode, "Stored records are damaged" in exported.stderr) == (2, True)
    assert "Traceback" not in exported.stderr
    server = run_server()
    headers = {"authorization": f"Bearer {server.token}"}
    asked = {
        path: httpx.get(f"{server.base}/api/v1/runs/bad{path}", headers=headers) for path in ("", "/records")
    }
    assert {path: answer.status_code for path, answer in asked.items()} == {"": 200, "/records": 500}
    assert "`tocsin-server check` lists them" in asked["/records"].json()["detail"]
