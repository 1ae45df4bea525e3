"""Exports and imports of everything: equal content, once, nothing overwritten."""

from __future__ import annotations

import json
import math
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, make_url, select, update
from sqlalchemy.engine import URL

from tests.server.store.whole_run import LATE, NASTY, everything, rows_of, write_run_to
from tocsin_server.core.errors import TocsinError
from tocsin_server.core.models import RunEvent, WriteBatch, Writer
from tocsin_server.detect.interface.similar_runs import KIND, SERVER
from tocsin_server.runs.validation.limits import Limits
from tocsin_server.store import deletion as life
from tocsin_server.store.chunks import RECORDS
from tocsin_server.store.database import Database, migrate, open_database
from tocsin_server.store.deletion_jobs import finish, on_database
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.row_builder import RowBuilder
from tocsin_server.store.tables import alert, deletion, run
from tocsin_server.store.writer_cache import WriterCache
from tocsin_server.transfer.record_export import every_page
from tocsin_server.transfer.run_export import export_run
from tocsin_server.transfer.run_folder import BundleError, bundles_in
from tocsin_server.transfer.run_import import PULSE_NS, Imported, import_run

COMPARED = (
    "attempt",
    "metric",
    "event",
    "alert",
    "alert_transition",
    "rule_state",
    "nonfinite_onset",
    "series",
    "acknowledgement",
)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite file to copy, because migrating takes longer than most tests here."""
    file = tmp_path_factory.mktemp("empty") / "empty.db"
    migrate(f"sqlite:///{file}")
    return file


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, empty: Path
) -> Iterator[Database]:
    """A database with a complete run, on either kind; tests only read it."""
    if request.param == "sqlite":
        yield from filled(copied(empty, tmp_path_factory.mktemp("whole") / "tocsin.db"))
    else:
        url = request.getfixturevalue("own_postgres").migrated_database()
        yield from filled(url)


@pytest.fixture
def changing(tmp_path: Path, empty: Path) -> Iterator[Database]:
    """The same on SQLite, for tests that change it."""
    yield from filled(copied(empty, tmp_path / "changing.db"))


def filled(url: URL) -> Iterator[Database]:
    """The database at ``url`` with the whole run in it."""
    database = open_database(url)
    write_run_to(database)
    yield database
    database.close()


def copied(empty: Path, file: Path) -> URL:
    """The URL of a copy of the migrated file."""
    return make_url(f"sqlite:///{shutil.copy(empty, file)}")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, empty: Path) -> Path:
    """The run exported once, for tests that damage a copy."""
    folder = tmp_path_factory.mktemp("exports")
    for database in filled(copied(empty, folder / "tocsin.db")):
        export_run(database, "r1", folder / "r1")
    return folder / "r1"


@pytest.fixture
def other(tmp_path: Path, empty: Path) -> Iterator[Database]:
    """Another installation, on SQLite."""
    opened = open_database(copied(empty, tmp_path / "other.db"))
    yield opened
    opened.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path, empty: Path) -> Iterator[Database]:
    """Another installation, on either database: an export can move a run between them."""
    if request.param == "sqlite":
        url = copied(empty, tmp_path / "elsewhere.db")
    else:
        url = request.getfixturevalue("own_postgres").migrated_database()
    opened = open_database(url)
    yield opened
    opened.close()


def bring_in(database: Database, folder: Path) -> Imported:
    return import_run(database, on_database(database), folder, actor="test", limits=Limits())


def bits(value: float) -> bytes:
    """The float's bits; an export does not keep NaN payloads."""
    return b"nan" if math.isnan(value) else struct.pack("<d", value)


def records(database: Database) -> list[Any]:
    """Return every record of r1 with all its coordinates, in the order of the reader, values as bits."""
    found: list[Any] = []
    for page in every_page(StoreReader(database), "r1"):
        names = sorted(page.columns)
        cells = [page.columns[name].dense(page.n) for name in names]
        coordinates = (page.writer, page.attempt, page.rank, page.seq, page.step, page.time_ns, page.arrival)
        for row, place in enumerate(zip(*(column.tolist() for column in coordinates), strict=True)):
            own = [(name, column[row]) for name, column in zip(names, cells, strict=True)]
            found.append((place, [(n, bits(v)) for n, v in own if v is not None]))
    return found


def test_what_was_exported_comes_back_equal(whole: Database, elsewhere: Database, tmp_path: Path) -> None:
    """Records bit by bit in their order, attempts, writers, events, alerts with history, saved rules; and
    an export of the import is the export."""
    export_run(whole, "r1", tmp_path / "r1")
    done = bring_in(elsewhere, tmp_path / "r1")
    assert done.counts == {"records": RECORDS + LATE + 5, "events": 2, "alerts": 2}
    assert records(elsewhere) == records(whole)
    before, after = everything(whole, "r1"), everything(elsewhere, "r1")
    for name in COMPARED:
        assert repr(after[name]) == repr(before[name]), name
    assert_same_run(StoreReader(whole), StoreReader(elsewhere))
    export_run(elsewhere, "r1", tmp_path / "again")
    assert contents(tmp_path / "again") == contents(tmp_path / "r1")


def test_progress_counts_every_record(whole: Database, other: Database, tmp_path: Path) -> None:
    """Of the export and of the import, page by page."""
    exported: list[int] = []
    imported: list[int] = []
    export_run(whole, "r1", tmp_path / "r1", exported.append)
    transact = on_database(other)
    done = import_run(
        other, transact, tmp_path / "r1", actor="test", limits=Limits(), advance=imported.append
    )
    assert sum(exported) == sum(imported) == done.counts["records"]


def test_events_of_the_server_come_back(changing: Database, other: Database, tmp_path: Path) -> None:
    """The server adds events to a run, such as its similar runs; no writer of the run has their number."""
    event = RunEvent(Writer("r1", SERVER, 0, 0), 9000, 9000, KIND, 10**18, None, {"runs": []})
    with changing.engine.begin() as connection:
        RowBuilder(WriterCache(known={"r1"})).apply(connection, [WriteBatch("r1", event=event)])
    export_run(changing, "r1", tmp_path / "r1")
    bring_in(other, tmp_path / "r1")
    assert [each.kind for each in StoreReader(other).events("r1").items][-1] == KIND


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of an export except ``run.json``, which has the place of the import."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != "run.json"}


def assert_same_run(before: StoreReader, after: StoreReader) -> None:
    """Return everything that the reader returns besides records."""
    one, two = before.run("r1"), after.run("r1")
    assert one is not None
    assert two is not None
    assert two.environment.pop("imported")["state"] == "failed"
    assert repr(two) == repr(one)
    assert after.events("r1") == before.events("r1")
    assert repr(after.alerts("r1")) == repr(before.alerts("r1"))
    assert after.alert_history("r1.f1.1") == before.alert_history("r1.f1.1")
    one_recovery, two_recovery = before.recovery("r1"), after.recovery("r1")
    assert (two_recovery.rule_state, two_recovery.last_arrival) == (
        one_recovery.rule_state,
        one_recovery.last_arrival,
    )


def test_the_same_export_imports_once(whole: Database, other: Database, tmp_path: Path) -> None:
    """The second import reports it and changes nothing."""
    export_run(whole, "r1", tmp_path / "r1")
    assert not bring_in(other, tmp_path / "r1").was_there
    before = everything(other, "r1")
    assert bring_in(other, tmp_path / "r1").was_there
    assert everything(other, "r1") == before


def test_another_run_of_the_same_id_is_not_overwritten(
    whole: Database, other: Database, tmp_path: Path
) -> None:
    """The import is rejected with both counts, and existing data is unchanged."""
    export_run(whole, "r1", tmp_path / "r1")
    bring_in(other, tmp_path / "r1")
    with other.engine.begin() as connection:
        connection.execute(delete(alert).where(alert.c.fingerprint == "f2"))
    before = everything(other, "r1")
    with pytest.raises(BundleError, match=r"2 alerts.*1 alerts.*not overwritten"):
        bring_in(other, tmp_path / "r1")
    assert everything(other, "r1") == before


def test_a_running_run_is_lost_in_the_copy(changing: Database, other: Database, tmp_path: Path) -> None:
    """The client is not connected to the copy; the original state is reported."""
    with changing.engine.begin() as connection:
        connection.execute(update(run).values(state="running", ended_ns=None))
    export_run(changing, "r1", tmp_path / "r1")
    bring_in(other, tmp_path / "r1")
    stored = StoreReader(other).run("r1")
    assert stored is not None
    assert (stored.state, stored.environment["imported"]["state"]) == ("lost", "running")


Spoil = Callable[[str], str]


@pytest.mark.parametrize(
    ("name", "spoil", "words"),
    [
        ("records.jsonl", lambda text: text.replace('"step":', '"stop":', 1), r"jsonl:1: expected a record"),
        ("records.jsonl", lambda text: text[: len(text) // 2], r"records.jsonl:\d+: expected JSON"),
        ("records.jsonl", lambda text: text[: text[:-1].rfind("\n") + 1], r"4142 records.*got 4141 records"),
        ("records.jsonl", lambda text: text.replace('"rank":1.5', '"rank":1.25', 1), "digest"),
        ("records.jsonl", lambda text: text.replace('"rank":1.5', '"rank":"x"', 1), r"rank: expected a n"),
        ("records.jsonl", lambda text: text + text, "records after writer 1, seq 20"),
        ("records.jsonl", lambda text: text.replace('"writer":1', '"writer":9'), "of run.json, got 9"),
        ("records.jsonl", lambda text: text.replace(f"{2**41 + 1}", f"{2**53 + 1}"), "step"),
        ("records.jsonl", lambda text: text.replace('"step":3', '"step":-3', 1), "step"),
        ("records.jsonl", lambda text: text.replace('"arrival":1,', f'"arrival":{2**63 - 1},'), "arrival"),
        ("events.jsonl", lambda text: text.replace('"step":4', f'"step":{2**53 + 1}', 1), r":2: expected"),
        ("events.jsonl", lambda text: text.replace('"no":0', '"no":"a"', 1), r":1: expected int, got str"),
        ("alerts.jsonl", lambda text: text.replace("critical", "grave", 1), r"alerts.jsonl:1: .*grave"),
        ("alerts.jsonl", lambda text: text.replace('_step":4', f'_step":{2**63 - 1}', 1), ":1: expected int"),
        ("alerts.jsonl", lambda text: text.replace('_ns":410', f'_ns":{2**70}', 1), ":1: expected int"),
        ("alerts.jsonl", lambda text: "", "got .*0 alerts"),
        ("acks.jsonl", lambda text: text.replace("mine", "yours"), r"acks.jsonl:1: .*of digest"),
        ("acks.jsonl", lambda text: text.replace('"undone"', '"done"'), r"acks.jsonl:1: .*done"),
        ("run.json", lambda text: text.replace('"version": 1', '"version": 7'), "version 1, got"),
        ("run.json", lambda text: text.replace('"project"', '"projekt"'), "run.json: run"),
        ("run.json", lambda text: text.replace('"body": "', '"body": "?'), "rule_state.body: exp"),
        ("run.json", lambda text: text[:-9], "run.json: expected JSON"),
        ("run.json", lambda text: text.replace('"jsonl"', '"csv"'), "are 'csv', and only 'jsonl' can be imp"),
        ("records.jsonl", lambda text: text.replace('"rank":0', '"rank":"0"', 1), "rank: expected a whole n"),
    ],
)  # fmt: skip
def test_a_spoilt_export_is_rejected_and_nothing_stays(
    exported: Path, other: Database, tmp_path: Path, name: str, spoil: Spoil, words: str
) -> None:
    """File, line, expected and actual value; no row of the attempt is left."""
    path = shutil.copytree(exported, tmp_path / "r1") / name
    path.write_text(spoil(path.read_text("utf-8")), "utf-8")
    with pytest.raises(TocsinError, match=words):
        bring_in(other, tmp_path / "r1")
    assert not any(rows_of(other, "r1").values())


Changes = dict[str, Any]


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        *(
            ("run", {"id": bad})
            for bad in ("", "a/b", "a\nb", "x" * 5000, "..", ".", "a b", "é", "<b>", "r\x00")
        ),
        *(("run", {"project": bad}) for bad in ("", "a\nb", "x" * 300)),
        ("run", {"name": "a\x1bb"}),
        ("run", {"host": "a\nb"}),
        ("run", {"tags": ["x"] * 65}),
        ("run", {"tags": [1]}),
        ("run", {"world_size": 0}),
        ("run", {"planned_steps": -1}),
        ("run", {"created_ns": 2**70}),
        ("run", {"last_step": 2**53 + 1}),
        ("run", {"config": "text"}),
        ("attempts", {"key": ""}),
        ("attempts", {"world_size": 1 << 40}),
        ("writers", {"rank": -1}),
        ("writers", {"boot": "a\nb"}),
    ],
)
def test_an_import_keeps_to_the_rules_of_the_handshake(
    exported: Path, other: Database, tmp_path: Path, part: str, changes: Changes
) -> None:
    """Ids, names and numbers that no client could send are rejected, and nothing is stored."""
    path = shutil.copytree(exported, tmp_path / "r1") / "run.json"
    manifest = json.loads(path.read_text("utf-8"))
    (manifest[part] if part == "run" else manifest[part][0]).update(changes)
    path.write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(BundleError, match=r"run\.json: (run: )?expected"):
        bring_in(other, tmp_path / "r1")
    with other.reader.begin() as connection:
        assert [connection.execute(select(each)).all() for each in (run, deletion)] == [[], []]


def test_an_export_that_did_not_end_is_not_imported(whole: Database, tmp_path: Path) -> None:
    """run.json is written last, so a folder without it is rejected; existing folders are not overwritten."""
    export_run(whole, "r1", tmp_path / "r1")
    with pytest.raises(BundleError, match="a new folder"):
        export_run(whole, "r1", tmp_path / "r1")
    (tmp_path / "r1" / "run.json").unlink()
    with pytest.raises(BundleError, match=r"run\.json"):
        bundles_in(tmp_path / "r1")


def test_an_import_that_was_killed_leaves_nothing(whole: Database, other: Database, tmp_path: Path) -> None:
    """Rows of a killed import are deleted after a period without writes."""
    export_run(whole, "r1", tmp_path / "r1")
    with other.engine.begin() as connection:
        life.schedule_deletion(connection, "r1", 1_000 + PULSE_NS)
    with pytest.raises(BundleError, match="in progress"):
        bring_in(other, tmp_path / "r1")
    with other.reader.begin() as connection:
        assert life.due(connection, 1_000) == []
        left = life.due(connection, 1_000 + PULSE_NS)
    finish(on_database(other), left)
    assert not bring_in(other, tmp_path / "r1").was_there


def test_records_during_an_export_are_left_out(whole: Database, tmp_path: Path) -> None:
    """The export is the state at its start: its counts match its files."""
    manifest = export_run(whole, "r1", tmp_path / "r1")
    lines = (tmp_path / "r1" / "records.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == manifest.counts["records"]
    assert {json.loads(line)["writer"] for line in lines} == {0, 1}


def test_a_project_row_comes_with_its_run(whole: Database, other: Database, tmp_path: Path) -> None:
    """No mark is left behind."""
    export_run(whole, "r1", tmp_path / "r1")
    bring_in(other, tmp_path / "r1")
    with other.reader.begin() as connection:
        assert connection.exec_driver_sql("SELECT name FROM project").scalars().all() == ["deblur"]
        assert connection.execute(select(deletion)).all() == []


def test_nasty_values_are_nasty() -> None:
    """The test data really has three different NaNs, infinities and -0.0."""
    assert len({struct.pack("<d", value) for value in NASTY}) == len(NASTY)
    assert sum(math.isnan(value) for value in NASTY) == 3
