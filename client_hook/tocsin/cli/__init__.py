"""The ``tocsin`` command: doctor, sync, tail and import."""

from __future__ import annotations

from .commands import main

__all__ = ["main"]
