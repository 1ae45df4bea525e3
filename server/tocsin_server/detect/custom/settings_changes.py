"""Apply changed settings of a built-in rule: numbers of the right type, or numeric strings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from tocsin_server.core.errors import FieldError
from tocsin_server.detect.custom.renamed_settings import RENAMED
from tocsin_server.detect.interface.description import RuleSettings

SHARED = frozenset(item.name for item in fields(RuleSettings))
"""Settings that every rule has, which may be 0."""
LARGEST = 1_000_000
"""Maximum of a setting that counts, which limits how much a rule can store."""


def current_names(rule: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``changes`` with the current name of each setting that was renamed.

    Args:
        rule: Identifier of the rule.
        changes: Values by old or current name; unknown names are kept.

    Raises:
        FieldError: A setting is given by its old and by its current name.
    """
    renamed = RENAMED.get(rule, {})
    for old, name in renamed.items():
        if old in changes and name in changes:
            raise FieldError(f"{rule}: {name}", f"no {old}, its old name, beside it", changes[old])
    return {renamed.get(name, name): value for name, value in changes.items()}


def with_changes(rule: str, kind: type[RuleSettings], changes: Mapping[str, Any]) -> RuleSettings:
    """Return settings of ``kind`` with ``changes``.

    Args:
        rule: Identifier of the rule, for errors.
        kind: Settings class of the rule.
        changes: New values by name of the setting, which may be an old name.

    Raises:
        FieldError: A setting is unknown, or a value is invalid.
    """
    changes = current_names(rule, changes)
    defaults = kind()
    names = [item.name for item in fields(kind)]
    for name in changes:
        if name not in names:
            raise FieldError(f"{rule}: {name}", f"one of {', '.join(names)}", name)
    least = {item.name: item.metadata.get("least") for item in fields(kind)}
    numbers: dict[str, Any] = {
        name: _number(f"{rule}: {name}", reported, getattr(defaults, name), least[name])
        for name, reported in changes.items()
    }
    return kind(**numbers)


def _number(subject: str, reported: Any, default: float, least: float | None) -> float:
    """Return ``reported`` as a number of the type of ``default``."""
    whole = isinstance(default, int)
    expected = "a whole number" if whole else "a finite number"
    try:
        value = (
            float(reported)
            if isinstance(reported, (str, int, float)) and not isinstance(reported, bool)
            else math.nan
        )
    except (ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value) or (whole and value != int(value)):
        raise FieldError(subject, expected, reported)
    may_be_zero = default <= 0 or subject.rpartition(" ")[2] in SHARED
    if default >= 0 and (value < 0 or (value == 0 and not may_be_zero)):
        raise FieldError(
            subject, f"{expected} above 0" if not may_be_zero else f"{expected} of at least 0", reported
        )
    if least is not None and value < least:
        raise FieldError(subject, f"{expected} of at least {least:g}", reported)
    if abs(value) > LARGEST and abs(value) > 1e3 * abs(default):
        raise FieldError(subject, f"at most {LARGEST}", reported)
    return int(value) if whole else value
