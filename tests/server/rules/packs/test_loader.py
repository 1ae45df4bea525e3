"""Packs: every file of the folder is a pack, enabled and disabled as a whole."""

from __future__ import annotations

from importlib.resources import files

import pytest

from tocsin_server.core.errors import FieldError
from tocsin_server.detect.rules.catalog import catalogue
from tocsin_server.rules.packs.loader import packs, read_pack, switch, switched_on
from tocsin_server.store import rules
from tocsin_server.store.database import Database

SMALL = '[[rule]]\nid = "mine"\nseries = "x"\ncomparison = ">"\nlimit = 1\n'


def test_every_file_of_the_folder_is_a_pack() -> None:
    """They include the five documented ones; no id is used twice, or is a built-in rule's."""
    names = {
        file.name for file in files("tocsin_server.rules.packs").iterdir() if file.name.endswith(".toml")
    }
    found = packs()
    assert {f"{name}.toml" for name in found} == names
    assert {"amp-classic", "vision-restoration", "gan", "llm-pretraining", "fine-tuning"} <= set(found)
    ids = [rule.id for pack in found.values() for rule in pack.document.rules]
    assert len(ids) == len(set(ids))
    assert not set(ids) & {info.id for info in catalogue()}


@pytest.mark.parametrize("name", sorted(packs()))
def test_packs_have_descriptions(name: str) -> None:
    """Itself and each of its rules, in words for the alert."""
    pack = packs()[name]
    assert pack.title
    assert pack.description
    assert all(rule.title and rule.description for rule in pack.document.rules)


def test_a_pack_is_switched_on_and_off(database: Database) -> None:
    """Enabling twice is the same as once; disabling removes everything."""
    pack = packs()["gan"]
    with database.engine.begin() as connection:
        for _ in range(2):
            switch(connection, pack, True, actor="anna", now_ns=1)
        assert switched_on(connection) == {"gan"}
        assert {row.id for row in rules.read_custom_rules(connection)} == {
            rule.id for rule in pack.document.rules
        }
        switch(connection, pack, False, actor="anna", now_ns=2)
        assert (switched_on(connection), rules.read_custom_rules(connection)) == (set(), [])


def test_a_new_file_is_a_new_pack(database: Database) -> None:
    """If the id of a rule exists already, the pack is not enabled, and the error names the owner."""
    one, other = read_pack("one", SMALL), read_pack("other", SMALL)
    with database.engine.begin() as connection:
        switch(connection, one, True, actor="anna", now_ns=1)
        with pytest.raises(FieldError, match="pack:one"):
            switch(connection, other, True, actor="anna", now_ns=2)
