"""The reference of the server's settings, from the fields of ``Settings`` and the strings below them."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import MISSING, Field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from tables import code, table

from tocsin_server.core.settings import PREFIX, Settings

GROUPS: dict[str, tuple[str, ...]] = {
    "Server": ("host", "port", "data_dir", "database_url", "public_url", "root_path", "shutdown_s"),
    "Login": ("allow_admin_link", "session_days", "hsts_days", "login_attempts"),
    "Retention": ("retention_",),
    "Notifications": ("notify_", "restart_grace_s", "ping_"),
    "Limits": ("limit_",),
    "Record path": (
        "commit_",
        "pack_",
        "backlog_",
        "flush_",
        "messages_",
        "receive_",
        "handshake_",
        "head_",
        "body_",
        "rule_",
    ),
    "Live pages": ("tick_", "heartbeat_", "subscriber_", "live_", "fleet_"),
}
"""Section -> the names, or beginnings of names, of its settings. What matches none comes last."""
INTRODUCTION = """\
# Server settings

*Reference, generated from `tocsin_server.core.settings`.*

Each setting is read from these places. The later ones override the earlier ones:

1. the default,
2. the file `tocsin.toml` in the working directory, or the file that `--config` or `TOCSIN_CONFIG` names,
3. the environment variable `TOCSIN_<NAME>` in capitals, such as `TOCSIN_PORT=9000`,
4. command line options, where a command has one ([`tocsin-server serve`](cli-server.md#tocsin-server-serve)).

An unknown name in the file, or a value that does not fit, stops the server with an error that names it.

```toml title="tocsin.toml"
port = 9000
data_dir = "/var/lib/tocsin"
limit_series = 2000

[retention_projects]
deblur = 365
```

The variables that training processes read are on [Environment variables of the hook](environment.md).
"""


def page() -> str:
    """Return the Markdown of the page."""
    left = {field.name: field for field in fields(Settings)}
    parts = [INTRODUCTION]
    for group, starts in GROUPS.items():
        found = [name for name in left if name.startswith(starts)]
        parts.append(f"## {group}\n\n" + _table([left.pop(name) for name in found]))
    if left:
        parts.append("## Others\n\n" + _table(list(left.values())))
    return "\n".join(parts)


def descriptions() -> dict[str, str]:
    """Return the string below each field of ``Settings``, by the field's name."""
    source = Path(inspect.getfile(Settings)).read_text("utf-8")
    body = next(
        node.body
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == Settings.__name__
    )
    return {
        ast.unparse(field.target): inspect.cleandoc(text.value.value)
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _table(found: list[Field[Any]]) -> str:
    text = descriptions()
    rows = [
        (
            f'<a id="{field.name}"></a>`{field.name}`',
            _default(field),
            code(PREFIX + field.name.upper()),
            re.sub(r"``", "`", text[field.name]),
        )
        for field in found
    ]
    return table(("Setting", "Default", "Variable", "What it does"), rows)


def _default(field: Field[Any]) -> str:
    if field.name == "data_dir":
        return "`~/.local/share/tocsin`"
    value = field.default
    if value is MISSING or value in ("", ()):
        return "empty"
    if field.name.endswith("_bytes"):
        return _bytes(value)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _bytes(value: int) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= size and value % size == 0:
            return f"{value // size} {unit} (`{value}`)"
    return f"`{value}`"
