"""What is known of a rule without running it: its settings, its title, and what it inhibits."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, dataclass_transform

from tocsin_server.core.models import Severity


def setting(default: Any, unit: str, text: str, *, least: float | None = None) -> Any:
    """Return a settings field with its unit and description.

    Args:
        default: The default value.
        unit: Unit of the value, as shown in the API and the docs.
        text: What the setting means.
        least: The smallest value that is accepted.
    """
    return field(default=default, metadata={"unit": unit, "help": text, "least": least})


SHARED = {
    "recover_updates": ("updates", "Updates {} before the alert is recovering"),
    "resolve_updates": ("updates", "Updates {} before the alert is resolved"),
    "recover_records": ("records", "Records {} that are also needed"),
}
"""Unit and description of the settings that every rule has; ``calm`` is inserted."""


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class RuleSettings:
    """Base of the settings of a rule. A subclass is a frozen dataclass with fields by :func:`setting`.

    The first three fields may be given as plain numbers, with ``calm`` for their descriptions. The sources of
    the thresholds are in the section Source of the rule's module.
    """

    calm: ClassVar[str] = "without a finding"
    """What the updates are like after which an alert is resolved: completes the texts of :data:`SHARED`."""

    recover_updates: int = setting(100, "updates", "Updates without a finding before the alert is recovering")
    resolve_updates: int = setting(300, "updates", "Updates without a finding before it is resolved")
    recover_records: int = setting(3, "records", "Records without a finding that are also needed")

    def __init_subclass__(cls) -> None:
        """Make the subclass a frozen dataclass, and describe its plain numbers."""
        for name, (unit, text) in SHARED.items():
            if type(default := vars(cls).get(name)) is int:
                setattr(cls, name, setting(default, unit, text.format(cls.calm)))
        dataclass(frozen=True)(cls)


@dataclass(frozen=True)
class SettingInfo:
    """One setting of a rule as the API and the docs show it."""

    name: str
    value: Any
    unit: str
    help: str


@dataclass(frozen=True)
class RuleInfo:
    """Static description of a rule, used by the API, the docs and the engine without running it."""

    id: str
    title: str
    severity: Severity
    """The highest severity that the rule can report."""
    clock: str = "steps"
    """Unit in which the rule measures time: ``steps``, or ``time`` by the server's clock."""
    inhibited_by: tuple[str, ...] = ()
    """No new episode starts while one of these rules is firing in the same run."""
    adversarial: bool = True
    """False disables the rule where several optimizers have different losses (GAN), which normally
    oscillate.
    """
    scope: str = "stream"
    """What one instance of the rule reads.

    ``stream``: records of one optimizer of one writer. ``wide``: the shared metrics of one writer
    (losses of all optimizers and their terms, ``val/...``, ``nonfinite/...``). ``run``: episodes of
    other rules and events of the run, with one instance per run.
    """
    bears_on: tuple[str, ...] | None = None
    """The rules whose timelines may include an info finding of this rule; None: any, as for an event.

    A condition that a run has from its start (a clipping threshold, a slow data loader) appears only in
    the timelines of the rules that it helps to explain.
    """
    settings: tuple[SettingInfo, ...] = ()

    @property
    def doc(self) -> str:
        """Return the path of the rule's page on the documentation site."""
        return f"reference/rules/{self.id}/"


def describe(settings: type[RuleSettings]) -> tuple[SettingInfo, ...]:
    """Return the settings of a rule with defaults, units and descriptions."""
    defaults = settings()
    return tuple(
        SettingInfo(item.name, getattr(defaults, item.name), item.metadata["unit"], item.metadata["help"])
        for item in fields(settings)
    )


def rule_id(module: str) -> str:
    """Return the identifier of the rule in ``module``, which is its file name with hyphens."""
    return module.rpartition(".")[2].replace("_", "-")
