"""The server and the token that ``tocsin login`` stored, for commands and ``tocsin.Api``.

A training never reads this file: it takes its token from ``TOCSIN_TOKEN`` or ``watch(token=)``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def login_path() -> Path:
    """Return the file: ``tocsin/login.json`` in ``XDG_CONFIG_HOME``, else in ``~/.config``."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config", "tocsin", "login.json")


def saved_url() -> str:
    """Return the server of the last login, or ""."""
    return str(_stored().get("url", ""))


def saved_token(base: str) -> str:
    """Return the token stored for the server at ``base``, or "": it is never sent to another server."""
    tokens = _stored().get("tokens")
    return str(tokens.get(base, "")) if isinstance(tokens, dict) else ""


def save(base: str, token: str) -> Path:
    """Store the token of a server, which becomes the default one. Only this user can read the file."""
    path = login_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    tokens = _stored().get("tokens")
    stored = {"url": base, "tokens": (tokens if isinstance(tokens, dict) else {}) | {base: token}}
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(stored, file)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _stored() -> dict[str, Any]:
    try:
        found = json.loads(login_path().read_text("utf-8"))
    except (OSError, ValueError, RuntimeError):
        return {}
    return found if isinstance(found, dict) else {}
