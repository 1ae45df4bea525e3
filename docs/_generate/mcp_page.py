"""The reference of the tools for agents, from their definitions."""

from __future__ import annotations

from typing import Any

from tables import code, table

HEAD = """\
# Tools for agents

*Reference, generated from `tocsin.mcp`. [Connect a coding agent](../how-to/agents.md) shows how to use them.*

A token with scope `read` has all tools except those marked `write`.

- An answer is text of at most {most:,} characters. What is left out is counted in the answer.
- Values have four significant figures. NaN, Inf and -Inf are shown as such.
- Text that was recorded is [marked as data](../how-to/agents.md#recorded-text-is-data).

"""


def page() -> str:
    """Return the page."""
    from tocsin.mcp.text import MOST_CHARACTERS
    from tocsin.mcp.tools import TOOLS

    return HEAD.format(most=MOST_CHARACTERS) + "\n".join(_section(tool) for tool in TOOLS)


def _section(tool: Any) -> str:
    schema = tool.schema
    rows = [
        (code(name), _type(field), _description(field, required=name in schema.get("required", ())))
        for name, field in schema["properties"].items()
    ]
    needs = "Scope: `write`." if tool.writes else "Scope: `read`."
    arguments = table(("Argument", "Type", "What it is"), rows) if rows else "No arguments.\n"
    return f"## {tool.name}\n\n{tool.description}\n\n{needs}\n\n{arguments}"


def _type(field: dict[str, Any]) -> str:
    kinds = field.get("anyOf", [field])
    names = [_kind(kind) for kind in kinds if kind.get("type") != "null"]
    return " or ".join(dict.fromkeys(names))


def _kind(kind: dict[str, Any]) -> str:
    if "enum" in kind:
        return ", ".join(code(value) for value in kind["enum"] if value is not None)
    if kind.get("type") == "array":
        return f"list of {_kind(kind['items'])}"
    return str(kind.get("type", "any"))


def _description(field: dict[str, Any], *, required: bool) -> str:
    parts = [field.get("description", ""), *(kind.get("description", "") for kind in field.get("anyOf", ()))]
    text = " ".join(part for part in parts if part)
    default = field.get("default")
    note = (
        "Required." if required else f"Default: {code(default)}." if default not in (None, "", [], {}) else ""
    )
    return f"{text} {note}".strip() or "-"
