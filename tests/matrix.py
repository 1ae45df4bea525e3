"""Which tests run: a representative of each claim, or with ``TOCSIN_TEST_ALL=1`` (``make test-all``) all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

ALL = os.environ.get("TOCSIN_TEST_ALL") == "1"
LONG = pytest.mark.skipif(not ALL, reason="long: make test-all")
SQLITE = "sqlite"
POSTGRES = pytest.param("postgresql", marks=pytest.mark.postgres)
"""Parameter of a test or fixture that uses Postgres."""
DATABASES = [SQLITE, POSTGRES] if ALL else [SQLITE]
"""Marks a test that does not depend on the kind of database."""
STALL_S = 5.0
"""For how long a shared machine may stall; added to the limits of what must not take minutes."""


def represented(values: Iterable[Any], *chosen: Any) -> list[Any]:
    """Return parameters, of which only ``chosen``, by default the first, run in ``make test``."""
    every = list(values)
    kept = chosen or every[:1]
    return [
        value
        if value in kept
        else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=LONG)
        for value in every
    ]
