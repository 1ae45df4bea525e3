"""Edits of a run by users: they override the script, and the run is still found under its first name."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tocsin_server.core.models import Writer
from tocsin_server.store import edits
from tocsin_server.store.database import Database
from tocsin_server.store.edits import ConflictError, Edit
from tocsin_server.store.reader import StoreReader
from tocsin_server.store.writer import StoreWriter

TOGETHER = {"rendezvous": "node:29500", "world_size": 2}


def change(store: StoreWriter, run_id: str, seen: dict[str, Any] | None = None, **values: Any) -> Any:
    work = partial(edits.edit, run_id=run_id, change=Edit(values, seen or {}), now_ns=7 * 10**6, actor="me")
    return store.call(work).result(30)


def test_ranks_find_a_run_under_the_name_of_the_script(
    database: Database, store: StoreWriter, admit: Any
) -> None:
    """Renamed twice between the hellos of two ranks: the second joins, and the first returns to the same
    run."""
    first: Writer = admit("", **TOGETHER).writer
    change(store, first.run_id, name="shown")
    change(store, first.run_id, name="shown again")
    assert admit("", rank=1, **TOGETHER).writer.run_id == first.run_id
    assert admit("", **TOGETHER).writer == first
    assert [run.name for run in StoreReader(database).runs()] == ["shown again"]


def test_user_edits_survive_another_handshake(database: Database, store: StoreWriter, admit: Any) -> None:
    """Notes and tags; fields that were not edited follow the script."""
    admit("r1", notes="first", tags=["a"])
    change(store, "r1", notes="mine")
    admit("r1", notes="second", tags=["b"])
    found = StoreReader(database).run("r1")
    assert found is not None
    assert (found.notes, found.tags, found.environment["edited"]) == ("mine", ["b"], {"notes": 7})


def test_a_conflict_changes_nothing(database: Database, store: StoreWriter, admit: Any) -> None:
    """If one field has changed meanwhile, no other field is written either."""
    admit("r1", notes="first")
    with pytest.raises(ConflictError, match="expected what was seen"):
        change(store, "r1", {"notes": "zeroth"}, notes="mine", tags=["t"])
    found = StoreReader(database).run("r1")
    assert found is not None
    assert (found.notes, found.tags) == ("first", [])
    assert change(store, "nobody", notes="x") is None
