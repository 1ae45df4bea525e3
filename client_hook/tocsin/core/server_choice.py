"""Choose the server and the token: what was passed, then the environment, then the default."""

from __future__ import annotations

import os
from typing import Any

from .login_file import saved_token, saved_url
from .values import text

DEFAULT_URL = "http://127.0.0.1:8321"


def chosen_url(given: str | None = None) -> str:
    """Return the address of the server: ``given``, else ``TOCSIN_URL``, else this machine."""
    return given or os.environ.get("TOCSIN_URL") or DEFAULT_URL


def reading_url(given: str | None = None) -> str:
    """Return the address for reading: as :func:`chosen_url`, by default that of ``tocsin login``."""
    return given or os.environ.get("TOCSIN_URL") or saved_url() or DEFAULT_URL


def reading_token(base: str, given: Any = None) -> str:
    """Return the token for reading: as :func:`chosen_token`, else that of ``tocsin login`` for ``base``."""
    return chosen_token(given) or saved_token(base)


def chosen_token(given: Any = None) -> str:
    """Return the token: ``given``, else ``TOCSIN_TOKEN``, else none (empty).

    Secret files end with a line break, which is not part of the token.
    """
    return text(given if given is not None else os.environ.get("TOCSIN_TOKEN", "")).strip()
