"""Which tests run: a representative of each claim, or with ``TOCSIN_TEST_ALL=1`` (``make test-all``) all."""

from __future__ import annotations

import os

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
