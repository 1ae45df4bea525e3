"""State of the process that all packages share: active runs, and whether tocsin is disabled."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

active_runs: list[Any] = []
"""Runs that have not ended, oldest first. This keeps them alive even if the script keeps no reference."""

auto_start: list[Callable[[], None]] = []
"""The function that starts a run automatically under ``tocsin run``, as long as there was no run."""


def is_disabled() -> bool:
    """Return whether ``TOCSIN_DISABLE`` is set to anything but 0, false, no or an empty text."""
    return os.environ.get("TOCSIN_DISABLE", "").strip().lower() not in ("", "0", "false", "no")
