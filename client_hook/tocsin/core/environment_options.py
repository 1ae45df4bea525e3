"""Which parts of the environment a run records: ``environment=`` of ``watch``, and ``TOCSIN_ENVIRONMENT``."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from typing import Any

LOG = logging.getLogger("tocsin")
KIND = "environment"
"""Kind of the events that hold them."""

PARTS = ("git", "diff", "command", "packages", "variables", "gpu")
"""What can be recorded besides the configuration."""
USUAL = frozenset(PARTS) - {"diff"}
"""What is recorded by default. Uncommitted changes are source code, so they are sent only on request."""
_OFF, _ON = ("0", "false", "no", "off"), ("1", "true", "yes", "on", "")


def parts_of(given: Any = None, environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Return the parts to record; an unknown word is ignored with a warning.

    Args:
        given: ``environment=`` of ``watch``: False, True, or changes to the default such as
            ``["diff", "-command"]``.
        environ: ``TOCSIN_ENVIRONMENT`` is used if ``given`` is None: ``0``, ``1`` or ``diff,-command``.
    """
    if given is None:
        given = environ.get("TOCSIN_ENVIRONMENT", "")
    if isinstance(given, str):
        text = given.strip().lower()
        given = text not in _OFF if text in (*_OFF, *_ON) else text.split(",")
    if not isinstance(given, Collection) or isinstance(given, (bytes, Mapping)):
        return USUAL if given else frozenset()
    found = set(USUAL)
    for one in given:
        word = str(one).strip().lower()
        name = word.lstrip("+-")
        if name not in PARTS:
            known = ", ".join(PARTS)
            LOG.warning('tocsin: environment: ignoring unknown part "%s". Use one of: %s.', word, known)
        elif word.startswith("-"):
            found.discard(name)
        else:
            found.add(name)
    return frozenset(found)
