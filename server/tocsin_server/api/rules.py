"""``GET /rules``: every built-in rule with its settings, for the rules page and for people."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from typing_extensions import TypedDict

from tocsin_server.api.permission import PROBLEMS, Reader
from tocsin_server.detect.engine import catalogue
from tocsin_server.responses import ExactJSON

router = APIRouter(tags=["rules"], responses=PROBLEMS)


class SettingRow(TypedDict):
    """One setting of a rule: its default, its unit, what it means."""

    name: str
    value: Any
    unit: str
    help: str


class RuleRow(TypedDict):
    """A rule. ``severity`` is the gravest it can say, ``clock`` is ``steps`` or ``time``."""

    id: str
    severity: str
    title: str
    doc: str
    clock: str
    settings: list[SettingRow]


class RuleList(TypedDict):
    """All built-in rules."""

    items: list[RuleRow]


@router.get("/rules", response_model=RuleList)
def list_rules(_identity: Reader) -> ExactJSON:
    """Every built-in rule."""
    return ExactJSON(
        {
            "items": [
                {
                    "id": rule.id,
                    "severity": rule.severity,
                    "title": rule.title,
                    "doc": rule.doc,
                    "clock": rule.clock,
                    "settings": rule.settings,
                }
                for rule in catalogue()
            ]
        }
    )
