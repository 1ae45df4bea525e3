"""Changes to a built-in rule: enabled or not, severity, settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tocsin_server.core.errors import FieldError
from tocsin_server.core.models import Severity
from tocsin_server.detect.custom.settings_changes import current_names, with_changes
from tocsin_server.detect.interface.description import RuleSettings
from tocsin_server.detect.rules.catalog import catalogue, every_settings_type

EVERYWHERE = "*"
"""Placeholder for all projects; the changes of a project take precedence over it."""
FIELDS = ("enabled", "severity", "settings")
MOST_SETTINGS = 100


@dataclass(frozen=True, slots=True)
class Tuning:
    """Changes to a built-in rule. None, or a setting that is missing, leaves the default."""

    enabled: bool | None = None
    severity: Severity | None = None
    settings: Mapping[str, float] = field(default_factory=dict)

    def over(self, base: Tuning) -> Tuning:
        """Return this tuning with its gaps filled from ``base``."""
        return Tuning(
            base.enabled if self.enabled is None else self.enabled,
            base.severity if self.severity is None else self.severity,
            {**base.settings, **self.settings},
        )

    @property
    def says_nothing(self) -> bool:
        return self == Tuning()


def read_tuning(rule: object, body: Mapping[str, Any], where: str = "") -> Tuning:
    """Read a tuning from JSON or TOML data.

    Args:
        rule: The id of a built-in rule.
        body: A mapping of fields.
        where: Prefix for field names in errors.

    Raises:
        FieldError: A field is unknown or invalid.
    """
    for name in body:
        if name not in FIELDS:
            raise FieldError(f"{where}{name}", f"one of {', '.join(FIELDS)}", name)
    if not isinstance(rule, str) or rule not in {info.id for info in catalogue()}:
        raise FieldError(f"{where}rule", "the id of a built-in rule", rule)
    enabled, severity = body.get("enabled"), body.get("severity")
    if enabled is not None and not isinstance(enabled, bool):
        raise FieldError(f"{where}enabled", "true, false or null", enabled)
    if severity is not None and (not isinstance(severity, str) or severity not in tuple(Severity)):
        raise FieldError(f"{where}severity", f"one of {', '.join(Severity)} or null", severity)
    settings = _settings(str(rule), body.get("settings"), where)
    return Tuning(enabled, None if severity is None else Severity(severity), settings)


def _settings(rule: str, given: object, where: str) -> dict[str, float]:
    if given is None:
        return {}
    if not isinstance(given, Mapping) or len(given) > MOST_SETTINGS:
        raise FieldError(f"{where}settings", f"a table of at most {MOST_SETTINGS} settings", given)
    try:
        made = tuned(rule, given)
    except FieldError as error:
        name = error.field.partition(": ")[2] or "settings"
        raise FieldError(f"{where}settings.{name}", error.expected, error.got) from None
    return {name: getattr(made, name) for name in current_names(rule, given)}


def tuned(rule: str, changes: Mapping[str, Any]) -> RuleSettings:
    """Return the settings of a built-in rule with ``changes``.

    Raises:
        FieldError: A setting is unknown, or a value is invalid.
    """
    return with_changes(rule, every_settings_type()[rule], changes)


def plain(tuning: Tuning) -> dict[str, Any]:
    """Return the fields in the format of :func:`read_tuning`."""
    severity = None if tuning.severity is None else tuning.severity.value
    return {"enabled": tuning.enabled, "severity": severity, "settings": dict(tuning.settings)}
