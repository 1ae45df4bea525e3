"""Rules as a file: read, compared, applied completely or not at all, written."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from tocsin_server.core.errors import FieldError
from tocsin_server.rules.documents import apply_document, as_text, exported, read_document, store_rule
from tocsin_server.store import rules
from tocsin_server.store.database import Database

FILE = """
source = "team"

[[rule]]
id = "a"
series = "loss"
comparison = ">"
limit = 5
labels = { team = "x\\"y" }

[[rule]]
id = "b"
series = "val/*"
reducer = "absent"
window = "2 h"

[[builtin]]
rule = "loss-spike"
project = "deblur"
severity = "info"
settings = { relative = 0.5 }
"""


def applied(database: Database, text: str, *, dry_run: bool = False) -> list[str]:
    """The differences, each with its first line."""
    with database.engine.begin() as connection:
        document = read_document(tomllib.loads(text))
        found = apply_document(connection, document, actor="anna", now_ns=7, dry_run=dry_run)
    return [line for line in as_text(found) if not line.startswith(" ")]


def stored(database: Database) -> list[str]:
    with database.reader.connect() as connection:
        own = [f"{row.id} {row.source} {row.updated_by}" for row in rules.read_custom_rules(connection)]
        return own + [f"{row.rule} {row.project}" for row in rules.tunings(connection)]


def test_a_file_applied_twice_changes_nothing(database: Database) -> None:
    """A dry run reports the same without applying it."""
    made = ["+ rule a", "+ rule b", "+ settings loss-spike in deblur"]
    assert applied(database, FILE, dry_run=True) == made
    assert stored(database) == []
    assert applied(database, FILE) == made
    assert stored(database) == ["a team anna", "b team anna", "loss-spike deblur"]
    assert applied(database, FILE) == []


def test_a_file_owns_what_it_made(database: Database) -> None:
    """Rules that are no longer in the file are deleted; those of other owners stay, and their ids are
    rejected."""
    applied(database, FILE)
    other = FILE.replace('"team"', '"other"').replace('"a"', '"c"').replace('"b"', '"d"')
    with pytest.raises(FieldError, match="settings for it"):
        applied(database, other)
    applied(database, other.split("[[builtin]]")[0])
    assert applied(database, 'source = "team"') == ["- rule a", "- rule b", "- settings loss-spike in deblur"]
    assert stored(database) == ["c other anna", "d other anna"]
    with pytest.raises(FieldError, match="source 'other' uses this one"):
        applied(database, FILE.replace('"a"', '"c"'))


def test_differences_are_reported_by_field(database: Database) -> None:
    """Before and after, as in a file."""
    applied(database, FILE)
    with database.engine.begin() as connection:
        document = read_document(tomllib.loads(FILE.replace("limit = 5", "limit = 6.5")))
        reported = list(as_text(apply_document(connection, document, actor="a", now_ns=8)))
    assert reported == ["~ rule a", "    limit: 5.0 -> 6.5"]


def test_what_was_changed_by_hand_is_put_back(database: Database) -> None:
    """A file describes the desired state."""
    applied(database, FILE)
    with database.engine.begin() as connection:
        row = rules.read_custom_rule(connection, "a")
        assert row is not None
        rules.put_rule(
            connection,
            rules.CustomRuleRow(**{**{f: getattr(row, f) for f in row.__slots__}, "enabled": False}),
        )
    assert applied(database, FILE) == ["~ rule a"]


def test_an_export_is_read_as_the_same_rules(database: Database) -> None:
    """Quotes, labels and settings are preserved."""
    applied(database, FILE)
    with database.reader.connect() as connection:
        text = exported(connection, "team")
    assert read_document(tomllib.loads(text)) == read_document(tomllib.loads(FILE))
    assert applied(database, text) == []


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("", "source"), ('source = "pack:x"', "source"), ('source = "a"\ncolour = 1', "colour"),
        ('source = "a"\nrule = 5', "rule"), (FILE.replace('"b"', '"a"'), "rule[1].id"),
        (FILE.replace("limit = 5", "limit = nan"), "rule[0].limit"),
        (FILE.replace("relative", "relativ"), "builtin[0].settings.relativ"),
        (FILE.replace('severity = "info"\nsettings = { relative = 0.5 }', ""), "builtin[0].rule"),
        (FILE.replace("loss-spike", "loss-spiky"), "builtin[0].rule"),
        (FILE + FILE[FILE.index("[[builtin]]"):], "builtin[1].rule"),
    ],
)  # fmt: skip
def test_an_invalid_document_is_rejected_by_field(text: str, field: str) -> None:
    """The error has the position in the file."""
    with pytest.raises(FieldError) as reported:
        read_document(tomllib.loads(text))
    assert reported.value.field == field


def test_the_number_of_rules_is_limited(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit applies to all files together."""
    monkeypatch.setattr("tocsin_server.rules.documents.MOST_RULES", 2)
    applied(database, FILE)
    with pytest.raises(FieldError, match="at most 2 rules in all"):
        applied(database, 'source = "z"\n[[rule]]\nid="z"\nseries="x"\ncomparison=">"\nlimit=1')


def test_changes_are_audited(database: Database) -> None:
    """Every change of a rule is logged with its user, and increments the version."""
    versions = []
    for text in (FILE, FILE.replace("limit = 5", "limit = 6"), 'source = "team"'):
        applied(database, text)
        with database.reader.connect() as connection:
            versions.append(repr(rules.version(connection)))
    with database.reader.connect() as connection:
        acts = [(act.action, act.subject, act.actor) for act in rules.acts(connection, subjects=["a"])]
    assert {act[0] for act in acts} == {"rule.create", "rule.change", "rule.delete"}
    assert all(act[1:] == ("a", "anna") for act in acts)
    assert len(set(versions)) == 3


def test_a_rule_made_by_hand_keeps_its_maker(database: Database) -> None:
    """The user of the change is a separate field."""
    rule: Any = read_document(tomllib.loads(FILE)).rules[0]
    with database.engine.begin() as connection:
        made = store_rule(connection, rule, None, "", "anna", 1)
        changed = store_rule(connection, rule, made, "", "ben", 2)
    assert (changed.created_by, changed.created_ns) == ("anna", 1)
    assert (changed.updated_by, changed.updated_ns) == ("ben", 2)


def test_stored_settings_with_old_names_equal_a_file_with_the_current_ones(database: Database) -> None:
    old, new = (
        {"enabled": None, "severity": None, "settings": {name: 100}}
        for name in ("adopt", "new_baseline_records")
    )
    with database.engine.begin() as connection:
        rules.put_tuning(connection, rules.TuningRow("loss-spike", "p", old, "team", 1, "me"))
        table = {"rule": "loss-spike", "project": "p", "settings": new["settings"]}
        document = read_document({"source": "team", "builtin": [table]})
        assert apply_document(connection, document, actor="me", now_ns=2) == []
        assert "new_baseline_records" in exported(connection, "team")
