"""The ``tocsin`` command: doctor, sync, tail and import."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; see :func:`tocsin.cli.commands.main`. Ctrl-C during the imports has no traceback."""
    try:
        from .commands import main as run
    except KeyboardInterrupt:
        return 130
    return run(arguments)
