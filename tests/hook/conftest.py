"""Runs that a failing test left behind end here, so that it spoils no other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tocsin


@pytest.fixture(autouse=True)
def _no_leftover_runs() -> Iterator[None]:
    yield
    for run in tuple(tocsin._live):
        run.finish()
