"""What ``make test`` leaves to ``make test-all``."""

from __future__ import annotations

import os

import pytest

ALL = os.environ.get("TOCSIN_TEST_ALL") == "1"
LONG = pytest.mark.skipif(not ALL, reason="long: make test-all")
