"""Kinds of notification channel, one module each."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from tocsin_server.notify.channel import Kind


@cache
def kinds() -> dict[str, Kind]:
    """Return all kinds of channel by identifier: each module of this package with a ``KIND``."""
    found: dict[str, Kind] = {}
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda each: each.name):
        kind: Kind | None = getattr(import_module(f"{__name__}.{module.name}"), "KIND", None)
        if kind is not None:
            found[kind.id] = kind
    return found
