"""Which rules there are: every module in ``rules/`` is one. Adding a rule is adding its file.

A module defines ``RULE``, a subclass of :class:`Rule` that judges records, or ``INFO`` and a
``judge`` function where only time can tell (``stalled``, ``trainer-lost``).
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache
from typing import Any

from tocsin_server.detect import rules
from tocsin_server.detect.diagnosis.cause import Ranked
from tocsin_server.detect.interface.rule import Rule, RuleInfo, RuleSettings, RunRule


@lru_cache(maxsize=1)
def _modules() -> tuple[Any, ...]:
    found = pkgutil.walk_packages(rules.__path__, f"{rules.__name__}.")
    names = [module.name for module in found if not module.ispkg and module.name != __name__]
    names.sort(key=lambda name: name.rpartition(".")[2])
    return tuple(importlib.import_module(name) for name in names)


@lru_cache(maxsize=3)
def rules_of(scope: str) -> tuple[type[Rule[Any, Any]], ...]:
    """Return the rules of ``scope`` (stream, wide, run), sorted by module name."""
    found = [module.RULE for module in _modules() if hasattr(module, "RULE")]
    return tuple(rule for rule in found if rule.info.scope == scope)


def run_rules() -> tuple[type[RunRule[Any, Any]], ...]:
    """Return the rules of scope ``run``, which read episodes and events."""
    return tuple(rule for rule in rules_of("run") if issubclass(rule, RunRule))


def rule_causes() -> tuple[Ranked, ...]:
    """Return the candidate causes defined in rule modules, with their ranks."""
    return tuple(ranked for module in _modules() for ranked in getattr(module, "CAUSES", ()))


def settings_types() -> dict[str, type[RuleSettings]]:
    """Return the settings of the rules that check records, by identifier."""
    return {
        module.RULE.info.id: module.RULE.settings_type for module in _modules() if hasattr(module, "RULE")
    }


def every_settings_type() -> dict[str, type[RuleSettings]]:
    """Return the settings of all rules by identifier, including those evaluated on the server's clock."""
    timed = {
        module.INFO.id: module.Settings
        for module in _modules()
        if not hasattr(module, "RULE") and hasattr(module, "Settings")
    }
    return settings_types() | timed


def catalogue() -> list[RuleInfo]:
    """Return all rules, sorted by identifier."""
    found = [module.RULE.info if hasattr(module, "RULE") else module.INFO for module in _modules()]
    return sorted(found, key=lambda info: info.id)


@lru_cache(maxsize=1)
def infos() -> dict[str, RuleInfo]:
    """Return all rules by identifier."""
    return {info.id: info for info in catalogue()}
