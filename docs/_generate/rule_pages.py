"""One page per detection rule, from the rule's metadata, its settings and the docstring of its module.

A rule whose docstring lacks a required section fails the build.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from itertools import groupby
from types import ModuleType
from typing import Any

from tables import code, table

from tocsin_server.detect.interface.description import RuleInfo, RuleSettings
from tocsin_server.detect.rule_text import SECTIONS, read_docstring
from tocsin_server.detect.rules.catalog import info_of, rule_modules

SHARED = {field.name for field in fields(RuleSettings)}
"""Settings that every rule has."""
GROUPS = {
    "nonfinite": "Non-finite values",
    "scaler": "Loss scaler",
    "loss": "Loss",
    "gradient": "Gradients",
    "learning_rate": "Learning rate",
    "metric": "Evaluation and loss terms",
    "system": "Throughput and liveness",
    "distributed": "Ranks and restarts",
}
"""Folder of the rule -> heading in the list of rules."""
INDEX = """\
# Detection rules

*Reference, generated from the rules themselves.*

tocsin checks every step of every run with these {count} rules. Each page says what the rule detects, the
likely causes, what to do first, and how to tune it.
[How detection works](../../explanation/detection.md) explains severities, onsets and warm-ups;
[Detection, measured](../../internals/detection.md) has the false alarms and the catches on real logs.

Severity is the highest one that the rule can reach.
"""


@dataclass(frozen=True)
class RulePage:
    """What the page of one rule shows.

    Attributes:
        info: The rule's metadata.
        group: Folder of the rule.
        summary: First line of the docstring.
        body: What the rule detects.
        sections: The sections of the docstring by heading.
    """

    info: RuleInfo
    group: str
    summary: str
    body: str
    sections: Mapping[str, str]

    @property
    def id(self) -> str:
        return self.info.id


@cache
def rules() -> tuple[RulePage, ...]:
    """Return all rules, by group and identifier."""
    order = list(GROUPS)
    found = [_read(module) for module in rule_modules()]
    return tuple(sorted(found, key=lambda rule: (order.index(rule.group), rule.id)))


def navigation() -> list[Any]:
    """Return the navigation entries of the rules: one group per folder."""
    return [
        {GROUPS[group]: [{rule.id: f"reference/rules/{rule.id}.md"} for rule in members]}
        for group, members in groupby(rules(), key=lambda rule: rule.group)
    ]


def index_page() -> str:
    """Return the list of rules."""
    parts = [INDEX.format(count=len(rules()))]
    for group, members in groupby(rules(), key=lambda rule: rule.group):
        rows = [(_link(rule.id), rule.summary, rule.info.severity.value) for rule in members]
        parts.append(f"## {GROUPS[group]}\n\n" + table(("Rule", "What it does", "Severity"), rows))
    return "\n".join(parts)


def rule_page(rule: RulePage) -> str:
    """Return the page of one rule."""
    parts = [
        f"---\ntitle: {rule.id}\ndescription: {rule.summary}\n---\n\n# {rule.id}",
        f"**{rule.info.title}.** {rule.summary}",
        _facts(rule),
        "## What it detects",
        _linked(rule.body, rule.id),
    ]
    for heading in SECTIONS[2:5]:
        if heading in rule.sections:
            parts += [f"## {heading}", _linked(rule.sections[heading], rule.id)]
    parts += ["## Settings", _settings(rule), _tuning(rule)]
    parts += ["## Source", _linked(rule.sections["Source"], rule.id)]
    return "\n\n".join(parts) + "\n"


def _read(module: ModuleType) -> RulePage:
    text = read_docstring(module)
    group = module.__name__.split(".")[-2]
    return RulePage(info_of(module), group, text.summary, text.body, text.sections)


def _facts(rule: RulePage) -> str:
    info = rule.info
    clock = "steps of the run" if info.clock == "steps" else "the server's clock"
    rows = [
        ("Highest severity", info.severity.value),
        ("Evaluated by", clock),
        ("Signals", _linked(rule.sections["Signals"], rule.id)),
        ("Warm-up", rule.sections.get("Warm-up", "none")),
    ]
    if info.inhibited_by:
        rows.append(
            ("Suppressed while these fire", ", ".join(_link(rule_id) for rule_id in info.inhibited_by))
        )
    if not info.adversarial:
        rows.append(("Switched off in", "GAN training and reinforcement learning"))
    return table(rows[0], rows[1:])


def _settings(rule: RulePage) -> str:
    rows = [(code(item.name), code(item.value), item.unit, item.help) for item in rule.info.settings]
    return table(("Setting", "Default", "Unit", "Meaning"), rows)


def _tuning(rule: RulePage) -> str:
    own = next((item for item in rule.info.settings if item.name not in SHARED), rule.info.settings[0])
    text = TUNING if rule.info.clock == "time" else f"{TUNING}\n{BACKTEST}"
    return text.format(id=rule.id, setting=own.name, value=_toml(own.value))


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _linked(text: str, own: str) -> str:
    """Return ``text`` with links to the pages of other rules that it names."""
    known = {rule.id for rule in rules()}

    def replace(match: re.Match[str]) -> str:
        return _link(match[1]) if match[1] in known and match[1] != own else match[0]

    return re.sub(r"`([a-z-]+)`", replace, text)


def _link(rule_id: str) -> str:
    return f"[`{rule_id}`]({rule_id}.md)"


TUNING = """\
## Tune or mute

=== "Tune"

    On the page **Rules** of the server, select `{id}`, or put this into a
    [rules file](../../how-to/tune-rules.md) and run `tocsin-server rules apply rules.toml`:

    ```toml title="rules.toml"
    source = "my-team"

    [[builtin]]
    rule = "{id}"
    project = "*"               # or the name of one project
    settings = {{ {setting} = {value} }}
    ```

=== "Lower the severity"

    ```toml title="rules.toml"
    source = "my-team"

    [[builtin]]
    rule = "{id}"
    project = "*"
    severity = "info"
    ```

=== "Switch off"

    ```toml title="rules.toml"
    source = "my-team"

    [[builtin]]
    rule = "{id}"
    project = "*"
    enabled = false
    ```

=== "Silence for a while"

    On the page **Silences**, create a silence with the matcher `rule="{id}"`. The alert is still
    recorded, but no notifications are sent until the silence expires.
"""
BACKTEST = """\
Before you change a setting, see where the rule would have fired on your own runs:

```
tocsin-server backtest {id} --project my-project --set {setting}={value}
```
"""
