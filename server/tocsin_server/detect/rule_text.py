"""The explanation of a built-in rule, read from the docstring of its module.

The docstring holds a summary line, what the rule detects, and the sections in :data:`SECTIONS`. The pages
of the documentation and of the server are made from it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType

from tocsin_server.detect.rules.catalog import info_of, rule_modules

SECTIONS = ("Signals", "Warm-up", "Does not fire on", "Likely causes", "First action", "Source")
REQUIRED = ("Signals", "Likely causes", "First action", "Source")


@dataclass(frozen=True)
class RuleText:
    """What a docstring says.

    Attributes:
        summary: First line.
        body: What the rule detects.
        sections: The sections by heading.
    """

    summary: str
    body: str
    sections: Mapping[str, str]


def read_docstring(module: ModuleType) -> RuleText:
    """Return the parts of the docstring of a rule's module.

    Raises:
        ValueError: A required part is missing.
    """
    text = inspect.cleandoc(module.__doc__ or "")
    marks = "|".join(map(re.escape, SECTIONS))
    head, *rest = re.split(rf"^({marks}):\n", text, flags=re.MULTILINE)
    summary, _, body = head.strip().partition("\n\n")
    sections = {name: inspect.cleandoc("\n" + part) for name, part in zip(rest[::2], rest[1::2], strict=True)}
    missing = [name for name in REQUIRED if name not in sections]
    if missing or not body:
        raise ValueError(f"{module.__name__}: the docstring lacks {', '.join(missing) or 'a description'}.")
    return RuleText(summary, body.strip(), sections)


@lru_cache(maxsize=128)
def explanation(rule: str) -> str:
    """Return the explanation of a built-in rule as Markdown.

    Raises:
        KeyError: There is no such rule.
    """
    modules = {info_of(module).id: module for module in rule_modules()}
    text = read_docstring(modules[rule])
    parts = [text.summary, text.body]
    parts += [f"## {heading}\n\n{text.sections[heading]}" for heading in SECTIONS if heading in text.sections]
    return "\n\n".join(parts) + "\n"
