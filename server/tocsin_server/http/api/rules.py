"""``/rules``: built-in rules with the settings in effect, and custom rules."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Query
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from tocsin_server.core.models import Severity
from tocsin_server.core.permissions import Identity
from tocsin_server.core.responses import ExactJSON, Problem, shortened
from tocsin_server.detect.custom import threshold
from tocsin_server.detect.custom.settings_changes import current_names
from tocsin_server.detect.custom.threshold import read_rule
from tocsin_server.detect.custom.tuning import tuned
from tocsin_server.detect.engine.engine import catalogue
from tocsin_server.detect.interface.description import RuleInfo
from tocsin_server.detect.rule_text import explanation
from tocsin_server.detect.rules.catalog import infos
from tocsin_server.http.api.deletion import actor_of
from tocsin_server.http.api.description import failing
from tocsin_server.http.api.documents import Comparison, Reducer
from tocsin_server.http.api.permission import Editor, Reader
from tocsin_server.http.api.resource import Body, resource
from tocsin_server.http.api.shapes import row_of
from tocsin_server.http.services import Services, services_of
from tocsin_server.rules.documents import MOST_RULES, note, rule_of, store_rule
from tocsin_server.runs.rule_assignments import RuleConfig, rule_config_of
from tocsin_server.store import rules
from tocsin_server.store.connection import Connection, IntegrityError
from tocsin_server.store.rules import CustomRuleRow, TuningRow

router = resource("rules")
T = TypeVar("T")
RESERVED = frozenset({"apply", "changes", "export", "packs", "scope"})
"""Words that API paths use in place of a rule id."""


class SettingRow(TypedDict):
    """One setting of a rule: its default, unit and description."""

    name: str
    value: Any
    unit: str
    help: str


class TuningItem(TypedDict):
    """The tuning of a built-in rule, in one project or in all (``*``). Null fields are not changed."""

    project: str
    enabled: bool | None
    severity: Severity | None
    settings: dict[str, float]
    source: str
    updated_ms: float
    updated_by: str


class Effective(TypedDict):
    """The settings in effect; ``severity`` is null if the rule decides."""

    severity: Severity | None
    settings: dict[str, Any]


class RuleRow(TypedDict):
    """A built-in rule. ``severity`` is its highest severity; ``clock`` is ``steps`` or ``time``."""

    id: str
    kind: Literal["builtin"]
    severity: Severity
    title: str
    doc: str
    clock: Literal["steps", "time"]
    enabled: bool
    settings: list[SettingRow]
    effective: Effective
    tunings: list[TuningItem]


CustomRuleItem = TypedDict(
    "CustomRuleItem",
    {
        "id": str, "kind": Literal["custom"], "title": str, "series": str, "reducer": Reducer,
        "window": str | None, "comparison": Comparison | None, "limit": float | None, "for": str,
        "recover": float | None, "keep_firing_for": str, "severity": Severity, "labels": dict[str, str],
        "projects": list[str], "runs": list[str], "tags": list[str], "description": str, "remedy": str,
        "enabled": bool, "source": str, "created_ms": float, "created_by": str, "updated_ms": float,
        "updated_by": str,
    },
)  # fmt: skip


class RuleList(TypedDict):
    """Built-in and custom rules."""

    items: list[RuleRow]
    custom: list[CustomRuleItem]


class RuleExplanation(TypedDict):
    """What a built-in rule detects, its likely causes and the first action, as Markdown."""

    id: str
    title: str
    text: str


class ActItem(TypedDict):
    """Who changed what about a rule, and when."""

    at_ms: float
    actor: str
    action: str
    rule: str
    details: dict[str, Any]


class RuleActList(TypedDict):
    """Changes of rules, newest first, at most 200."""

    items: list[ActItem]


class RuleBody(BaseModel):
    """A custom rule; :mod:`documents` describes it, :func:`read_rule` parses it."""

    model_config = ConfigDict(extra="allow")


class ChangedRule(RuleBody):
    """Some fields of a custom rule."""


class CopyName(Body):
    """The id of the copy."""

    id: str


def built_in_item(
    info: RuleInfo, known: RuleConfig, rows: Mapping[str, list[TuningRow]], project: str
) -> dict[str, Any]:
    """Return a built-in rule with the settings that are in effect in ``project``."""
    mine = known.tuning_of(info.id, project)
    settings = tuned(info.id, mine.settings)
    effective = {item.name: getattr(settings, item.name) for item in info.settings}
    return row_of(
        RuleRow,
        info,
        kind="builtin",
        enabled=mine.enabled is not False,
        effective={"severity": mine.severity, "settings": effective},
        tunings=[tuning_item(row) for row in rows.get(info.id, ())],
    )


def tuning_item(row: TuningRow) -> dict[str, Any]:
    """Return a tuning as the API shows it."""
    shown = {"enabled": None, "severity": None} | dict(row.body)
    shown["settings"] = current_names(row.rule, row.body.get("settings") or {})
    stamp = {"source": row.source, "updated_ms": row.updated_ns / 1e6, "updated_by": row.updated_by}
    return {"project": row.project, **shown, **stamp}


def custom_rule_item(row: CustomRuleRow) -> dict[str, Any]:
    """Return a custom rule as the API shows it."""
    return {
        **threshold.plain(rule_of(row)),
        "kind": "custom",
        "source": row.source,
        "created_ms": row.created_ns / 1e6,
        "created_by": row.created_by,
        "updated_ms": row.updated_ns / 1e6,
        "updated_by": row.updated_by,
    }


@router.get("/rules", response_model=RuleList)
def list_rules(
    request: Request,
    _identity: Reader,
    project: Annotated[str, Query(max_length=250, description="The project whose settings apply.")] = "",
) -> ExactJSON:
    """List all rules: the built-in ones with the settings in effect in a project, and the custom ones."""
    with services_of(request).reader.consistent() as connection:
        own, changed = rules.read_custom_rules(connection), rules.tunings(connection)
    known, by_rule = rule_config_of(own, changed, (), None), dict[str, list[TuningRow]]()
    for row in changed:
        by_rule.setdefault(row.rule, []).append(row)
    readable = {rule.id for rule in known.rules}
    return ExactJSON(
        {
            "items": [built_in_item(info, known, by_rule, project) for info in catalogue()],
            "custom": [custom_rule_item(row) for row in own if row.id in readable],
        }
    )


@router.get("/rules/changes", response_model=RuleActList)
def list_changes(request: Request, _identity: Reader) -> ExactJSON:
    """List who changed what about rules, and when: the newest 200 changes."""
    with services_of(request).reader.consistent() as connection:
        found = rules.acts(connection)
    return ExactJSON({"items": [row_of(ActItem, act, rule=act.subject) for act in found]})


@router.get("/rules/{rule_id}/explanation", response_model=RuleExplanation, responses=failing(404))
def explain_rule(request: Request, rule_id: str, _identity: Reader) -> ExactJSON:
    """Explain a built-in rule: what it detects, when it does not fire, likely causes, first action."""
    info = infos().get(rule_id)
    if info is None:
        detail = f"Built-in rule not found: {shortened(rule_id)}"
        raise Problem(404, subject="rule", expected="the id of a built-in rule", got=rule_id, detail=detail)
    return ExactJSON({"id": info.id, "title": info.title, "text": explanation(info.id)})


@router.post("/rules", response_model=CustomRuleItem, status_code=201)
async def create_rule(request: Request, wanted: RuleBody, identity: Editor) -> ExactJSON:
    """Create a rule. It applies to all matching runs from the next record on."""
    return await _create(request, wanted.model_extra or {}, identity)


@router.patch("/rules/{rule_id}", response_model=CustomRuleItem)
async def change_rule(request: Request, rule_id: str, wanted: ChangedRule, identity: Editor) -> ExactJSON:
    """Change fields of a custom rule, such as ``enabled``; null restores the default."""
    reported = wanted.model_extra or {}

    def work(connection: Connection) -> CustomRuleRow:
        before = known_rule(connection, rule_id)
        if reported.get("id", rule_id) != rule_id:
            detail = "The id of a rule cannot be changed. Create a new rule instead."
            raise Problem(422, subject="id", expected=rule_id, got=reported["id"], detail=detail)
        rule = read_rule({**threshold.plain(rule_of(before)), **reported})
        return store_rule(connection, rule, before, before.source, actor_of(identity), time.time_ns())

    return ExactJSON(custom_rule_item(await changed(services_of(request), work)))


@router.post("/rules/{rule_id}/copy", response_model=CustomRuleItem, status_code=201)
async def copy_rule(request: Request, rule_id: str, wanted: CopyName, identity: Editor) -> ExactJSON:
    """Copy a rule under another id; the copy is disabled."""
    with services_of(request).reader.consistent() as connection:
        fields = threshold.plain(rule_of(known_rule(connection, rule_id)))
    return await _create(request, {**fields, "id": wanted.id, "enabled": False}, identity)


@router.delete("/rules/{rule_id}", status_code=204, response_class=Response)
async def delete_rule(request: Request, rule_id: str, identity: Editor) -> Response:
    """Delete a custom rule. Its open alerts are resolved; the audit log keeps who deleted it."""

    def work(connection: Connection) -> None:
        before, now_ns = known_rule(connection, rule_id), time.time_ns()
        rules.delete_rule(connection, rule_id, now_ns)
        note(connection, now_ns, actor_of(identity), "rule.delete", rule_id, dict(before.body))

    await changed(services_of(request), work)
    return Response(status_code=204, headers={"cache-control": "no-store"})


async def _create(request: Request, body: Mapping[str, Any], identity: Identity) -> ExactJSON:
    rule = read_rule(body)
    if rule.id in RESERVED:
        detail = f"The id {shortened(rule.id)} is reserved for a path of the API. Choose another id."
        raise Problem(422, subject="id", expected="an id that is not reserved", got=rule.id, detail=detail)

    def work(connection: Connection) -> CustomRuleRow:
        if len(rules.read_custom_rules(connection)) >= MOST_RULES:
            raise Problem(422, subject="rules", expected=f"at most {MOST_RULES}", got=MOST_RULES + 1)
        return store_rule(connection, rule, None, "", actor_of(identity), time.time_ns())

    try:
        row = await changed(services_of(request), work)
    except IntegrityError as error:
        detail = f"Another rule already has the id {shortened(rule.id)}. Choose another id."
        raise Problem(422, subject="id", expected="an unused id", got=rule.id, detail=detail) from error
    return ExactJSON(custom_rule_item(row), status_code=201)


async def changed(services: Services, work: Callable[[Connection], T]) -> T:
    """Write, then apply the change to all running runs."""
    made = await asyncio.wrap_future(services.writer.call(work))
    await services.pipeline.rulebook.refresh(services.pipeline.changes)
    return made


def known_rule(connection: Connection, rule_id: str) -> CustomRuleRow:
    """Return the row of a custom rule. Raises a 404 Problem if there is none."""
    row = rules.read_custom_rule(connection, rule_id)
    if row is None:
        detail = f"Custom rule not found: {shortened(rule_id)}"
        raise Problem(404, subject="rule", expected="the id of a custom rule", got=rule_id, detail=detail)
    return row
