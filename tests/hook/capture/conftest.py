"""Import what a first optimizer step would import, so that no search of all objects visits it."""

from __future__ import annotations

import importlib

import pytest


@pytest.fixture(autouse=True, scope="session")
def compiler_is_imported() -> None:
    """Before the first test, not while tests are collected: only one worker runs these."""
    importlib.import_module("torch._dynamo")
