"""The built-in rules: each module in ``rules/`` defines one, so adding a rule means adding a file.

A module defines a subclass of :class:`Rule` with a title, which checks records, or ``INFO`` and a
``check`` function for conditions that only the server's clock can detect (``stalled``, ``trainer-lost``).
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache
from types import ModuleType
from typing import Any

from tocsin_server.detect import rules
from tocsin_server.detect.diagnosis.cause import Ranked, own_cause
from tocsin_server.detect.interface.description import RuleInfo, RuleSettings, rule_id
from tocsin_server.detect.interface.rule import Rule, RunRule


@lru_cache(maxsize=1)
def rule_modules() -> tuple[ModuleType, ...]:
    """Return the modules of all rules, sorted by name."""
    found = pkgutil.walk_packages(rules.__path__, f"{rules.__name__}.")
    names = [module.name for module in found if not module.ispkg and module.name != __name__]
    names.sort(key=lambda name: name.rpartition(".")[2])
    return tuple(importlib.import_module(name) for name in names)


@lru_cache(maxsize=1)
def _rules() -> tuple[type[Rule[Any, Any]], ...]:
    return tuple(
        member
        for module in rule_modules()
        for member in vars(module).values()
        if isinstance(member, type) and issubclass(member, Rule)
        if member.__module__ == module.__name__ and "info" in vars(member)
    )


def info_of(module: ModuleType) -> RuleInfo:
    """Return the description of the rule in ``module``."""
    described = getattr(module, "INFO", None)
    if isinstance(described, RuleInfo):
        return described
    return next(rule.info for rule in _rules() if rule.__module__ == module.__name__)


@lru_cache(maxsize=3)
def rules_of(scope: str) -> tuple[type[Rule[Any, Any]], ...]:
    """Return the rules of ``scope`` (stream, wide, run), sorted by module name."""
    return tuple(rule for rule in _rules() if rule.info.scope == scope)


def run_rules() -> tuple[type[RunRule[Any, Any]], ...]:
    """Return the rules of scope ``run``, which read episodes and events."""
    return tuple(rule for rule in rules_of("run") if issubclass(rule, RunRule))


def rule_causes() -> tuple[Ranked, ...]:
    """Return the candidate causes defined in rule modules, with their ranks."""
    found: list[Ranked] = []
    for module in rule_modules():
        found += getattr(module, "SHARED_CAUSES", ())
        own = getattr(module, "CAUSES", ())
        found += [(rank, own_cause(rule_id(module.__name__), cause)) for rank, cause in own]
    return tuple(found)


def settings_types() -> dict[str, type[RuleSettings]]:
    """Return the settings of the rules that check records, by identifier."""
    return {rule.info.id: rule.settings_type for rule in _rules()}


def needs_of(rule: str) -> tuple[str, ...]:
    """Return the signals or prefixes of metrics that a rule reads; ``""`` is any; empty without records."""
    return next((each.needs for each in _rules() if each.info.id == rule), ())


def every_settings_type() -> dict[str, type[RuleSettings]]:
    """Return the settings of all rules by identifier, including those evaluated on the server's clock."""
    known = settings_types()
    timed = {info_of(module).id: module for module in rule_modules()}
    return known | {rule: module.Settings for rule, module in timed.items() if rule not in known}


def catalogue() -> list[RuleInfo]:
    """Return all rules, sorted by identifier."""
    return sorted(map(info_of, rule_modules()), key=lambda info: info.id)


@lru_cache(maxsize=1)
def infos() -> dict[str, RuleInfo]:
    """Return all rules by identifier."""
    return {info.id: info for info in catalogue()}
