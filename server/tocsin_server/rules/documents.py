"""Rules as a document: parse it, compare it with the stored rules, apply it atomically, write it as TOML.

A document owns the rules of its source: rules that it no longer contains are deleted, and rules of other
sources are never changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocsin_server.core.errors import FieldError
from tocsin_server.detect.custom import threshold, tuning
from tocsin_server.detect.custom.settings_changes import current_names
from tocsin_server.detect.custom.threshold import CustomRule
from tocsin_server.detect.custom.tuning import EVERYWHERE, Tuning
from tocsin_server.store import audit, rules
from tocsin_server.store.connection import Connection
from tocsin_server.store.rules import CustomRuleRow, TuningRow

MOST_RULES = 300
"""Maximum number of custom rules in total."""
MOST_TUNINGS = 2000
_SOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/ -]{0,99}")
PACK = "pack:"
"""Prefix of the source of a pack; files must not use it."""

Key = tuple[str, str]
"""Rule and project of a tuning."""


@dataclass(frozen=True)
class Document:
    """The parsed content of a rules file."""

    source: str
    rules: tuple[CustomRule, ...] = ()
    tunings: Mapping[Key, Tuning] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """One change made by applying a document; ``fields`` is (field, before, after), None if unset."""

    action: str
    """``create``, ``change`` or ``delete``."""
    kind: str
    """``rule`` or ``settings``."""
    id: str
    project: str = ""
    fields: tuple[tuple[str, Any, Any], ...] = ()


def rule_of(row: CustomRuleRow) -> CustomRule:
    """Return the rule in a row.

    Raises:
        FieldError: The row was written by another version.
    """
    return threshold.read_rule({**row.body, "id": row.id, "enabled": row.enabled})


def body_of(rule: CustomRule) -> dict[str, Any]:
    """Return the fields of a rule that a row stores in its body."""
    return {name: value for name, value in threshold.brief(rule).items() if name not in ("id", "enabled")}


def read_document(body: Mapping[str, Any], *, pack: bool = False) -> Document:
    """Parse a document.

    Args:
        body: The decoded TOML or JSON.
        pack: Whether the document may use the source of a pack.

    Raises:
        FieldError: A field is invalid; the error names the first one.
    """
    for name in body:
        if name not in ("source", "rule", "builtin", "title", "description"):
            raise FieldError(name, "source, [[rule]] or [[builtin]]", name)
    source = body.get("source", "")
    wrong = not isinstance(source, str) or not _SOURCE.fullmatch(source)
    if wrong or (str(source).startswith(PACK) and not pack):
        raise FieldError("source", 'the file\'s own name, such as "team-deblur"', source)
    found = [threshold.read_rule(item, f"rule[{at}].") for at, item in _items(body, "rule", MOST_RULES)]
    for at, rule in enumerate(found):
        if rule.id in {other.id for other in found[:at]}:
            raise FieldError(f"rule[{at}].id", "an id that no other rule of the file has", rule.id)
    return Document(str(source), tuple(found), dict(_tunings(body)))


def _items(body: Mapping[str, Any], name: str, most: int) -> Iterator[tuple[int, Any]]:
    given = body.get(name, [])
    if not isinstance(given, list) or len(given) > most:
        raise FieldError(name, f"at most {most} tables", given)
    yield from enumerate(given)


def _tunings(body: Mapping[str, Any]) -> Iterator[tuple[Key, Tuning]]:
    seen: set[Key] = set()
    for at, item in _items(body, "builtin", MOST_TUNINGS):
        where = f"builtin[{at}]."
        if not isinstance(item, Mapping):
            raise FieldError(where.rstrip("."), "a table of fields", item)
        rest = {name: value for name, value in item.items() if name not in ("rule", "project")}
        made = tuning.read_tuning(item.get("rule"), rest, where)
        key = str(item["rule"]), read_project(item.get("project", EVERYWHERE), where)
        if made.says_nothing:
            raise FieldError(f"{where}rule", "also enabled, severity or settings", item["rule"])
        if key in seen:
            raise FieldError(f"{where}rule", "one table for each project", item["rule"])
        seen.add(key)
        yield key, made


def read_project(given: object, where: str = "") -> str:
    """Return the name of a project, or ``*``.

    Raises:
        FieldError: ``given`` is not such a name.
    """
    if not isinstance(given, str) or not 0 < len(given) <= 250:
        raise FieldError(f"{where}project", 'the name of a project, or "*" for all', given)
    return given


def apply_document(
    connection: Connection, document: Document, *, actor: str, now_ns: int, dry_run: bool = False
) -> list[Difference]:
    """Apply the document to the stored rules and return the changes; with ``dry_run`` only return them.

    Raises:
        FieldError: A rule belongs to another source, or there are too many rules. Nothing is changed.
    """
    own = {row.id: row for row in rules.read_custom_rules(connection)}
    stored = {(row.rule, row.project): row for row in rules.tunings(connection)}
    _check_owners(document, own, stored)
    changes = [*_rule_changes(document, own), *_tuning_changes(document, stored)]
    left = len(own) + sum({"create": 1, "delete": -1}.get(c.action, 0) for c in changes if c.kind == "rule")
    if left > MOST_RULES:
        raise FieldError("rule", f"at most {MOST_RULES} rules in all", left)
    if not dry_run:
        wanted = {rule.id: rule for rule in document.rules}
        for change in changes:
            _carry_out(connection, change, document, wanted, own, actor, now_ns)
    return changes


def _check_owners(
    document: Document, own: Mapping[str, CustomRuleRow], stored: Mapping[Key, TuningRow]
) -> None:
    for at, rule in enumerate(document.rules):
        row = own.get(rule.id)
        if row is not None and row.source != document.source:
            raise FieldError(
                f"rule[{at}].id", f"a unique id, but {_owner(row.source)} uses this one", rule.id
            )
    for at, key in enumerate(document.tunings):
        kept = stored.get(key)
        if kept is not None and kept.source != document.source:
            expected = f"a unique pair of rule and project; {_owner(kept.source)} has settings for it"
            raise FieldError(f"builtin[{at}].rule", expected, f"{key[0]} in {key[1]}")


def _owner(source: str) -> str:
    return f"source {source!r}" if source else "a rule created in the browser or by the API"


def _rule_changes(document: Document, own: Mapping[str, CustomRuleRow]) -> Iterator[Difference]:
    wanted = {rule.id for rule in document.rules}
    for rule in document.rules:
        row = own.get(rule.id)
        if row is None:
            yield Difference("create", "rule", rule.id, fields=_fields({}, threshold.brief(rule)))
        elif fields := _fields(_plain(row), threshold.plain(rule)):
            yield Difference("change", "rule", rule.id, fields=fields)
    for row in own.values():
        if row.source == document.source and row.id not in wanted:
            yield Difference("delete", "rule", row.id)


def _plain(row: CustomRuleRow) -> dict[str, Any]:
    try:
        return threshold.plain(rule_of(row))
    except FieldError:  # written by another version: all fields count as different
        return {"id": row.id, **row.body}


def _tuning_changes(document: Document, stored: Mapping[Key, TuningRow]) -> Iterator[Difference]:
    for key, made in document.tunings.items():
        row = stored.get(key)
        fields = _fields({} if row is None else _with_current_names(row), tuning.plain(made))
        if fields:
            yield Difference("create" if row is None else "change", "settings", *key, fields)
    for key, row in stored.items():
        if row.source == document.source and key not in document.tunings:
            yield Difference("delete", "settings", *key)


def _with_current_names(row: TuningRow) -> dict[str, Any]:
    """Return the stored changes of a built-in rule; settings that were renamed since have their new names."""
    return {**row.body, "settings": current_names(row.rule, row.body.get("settings") or {})}


def _fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[tuple[str, Any, Any], ...]:
    names = [name for name in {**after, **before} if name != "id"]
    return tuple(
        (name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)
    )


def _carry_out(
    connection: Connection,
    change: Difference,
    document: Document,
    wanted: Mapping[str, CustomRule],
    own: Mapping[str, CustomRuleRow],
    actor: str,
    now_ns: int,
) -> None:
    if change.kind == "settings":
        _carry_out_tuning(connection, change, document, actor, now_ns)
    elif change.action == "delete":
        rules.delete_rule(connection, change.id, now_ns)
        note(connection, now_ns, actor, "rule.delete", change.id, _plain(own[change.id]))
    else:
        store_rule(connection, wanted[change.id], own.get(change.id), document.source, actor, now_ns)


def _carry_out_tuning(
    connection: Connection, change: Difference, document: Document, actor: str, now_ns: int
) -> None:
    key = change.id, change.project
    if change.action == "delete":
        rules.delete_tuning(connection, *key, now_ns)
    else:
        body = tuning.plain(document.tunings[key])
        rules.put_tuning(connection, TuningRow(*key, body, document.source, now_ns, actor))
    details = {"project": change.project, "action": change.action}
    note(connection, now_ns, actor, "rule.settings", change.id, details)


def store_rule(
    connection: Connection,
    rule: CustomRule,
    before: CustomRuleRow | None,
    source: str,
    actor: str,
    now_ns: int,
) -> CustomRuleRow:
    """Create or update a rule and record it in the audit log.

    Raises:
        IntegrityError: Another rule with the same id was created meanwhile.
    """
    row = CustomRuleRow(
        rule.id, body_of(rule), rule.enabled, source,
        now_ns if before is None else before.created_ns, actor if before is None else before.created_by,
        now_ns, actor,
    )  # fmt: skip
    if before is None:
        rules.add_rule(connection, row)
        note(connection, now_ns, actor, "rule.create", rule.id, {"source": source})
        return row
    rules.put_rule(connection, row)
    changed = {name: [old, new] for name, old, new in _fields(_plain(before), threshold.plain(rule))}
    note(connection, now_ns, actor, "rule.change", rule.id, changed)
    return row


def note(
    connection: Connection, now_ns: int, actor: str, action: str, rule: str, details: Mapping[str, Any]
) -> None:
    """Record a change of a rule in the audit log, in the transaction of the change."""
    audit.note(connection, now_ns, actor, action, rule, details)


# TOML output


def exported(connection: Connection, source: str) -> str:
    """Return the rules of a source as TOML; those created by hand get the source ``exported``."""
    own = [rule_of(row) for row in rules.read_custom_rules(connection) if row.source == source]
    tuned = {
        (row.rule, row.project): tuning.read_tuning(row.rule, row.body)
        for row in rules.tunings(connection)
        if row.source == source
    }
    return as_toml(source or "exported", own, tuned)


def as_toml(source: str, own: Sequence[CustomRule], tuned: Mapping[Key, Tuning]) -> str:
    """Return a document that :func:`read_document` accepts, without default values."""
    parts = [f"source = {_toml(source)}"]
    for rule in own:
        parts.append("[[rule]]\n" + _table(threshold.brief(rule)))
    for (rule_id, project), made in tuned.items():
        body = {name: value for name, value in tuning.plain(made).items() if value not in (None, {})}
        parts.append("[[builtin]]\n" + _table({"rule": rule_id, "project": project, **body}))
    return "\n\n".join(parts) + "\n"


def _table(body: Mapping[str, Any]) -> str:
    return "\n".join(f"{name} = {_toml(value)}" for name, value in body.items())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(name)} = {_toml(each)}" for name, each in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return '"' + "".join(_escaped(letter) for letter in str(value)) + '"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    code = ord(letter)
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"\\u{code:04x}" if code < 0x20 or code == 0x7F else letter


def as_text(changes: Sequence[Difference]) -> Iterator[str]:
    """Yield the changes as readable lines: + created, ~ changed, - deleted."""
    signs = {"create": "+", "change": "~", "delete": "-"}
    for change in changes:
        where = f" in {change.project}" if change.project not in ("", EVERYWHERE) else ""
        yield f"{signs[change.action]} {change.kind} {change.id}{where}"
        for name, before, after in change.fields:
            was = "" if change.action == "create" else f"{_shown(before)} -> "
            yield f"    {name}: {was}{_shown(after)}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else _toml(value)
