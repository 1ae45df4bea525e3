"""A cell that fails while it trains is an alert of its run, not its end; between cells, no run is stalled."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

from .kernel import interactive_shell

TITLE = "A notebook cell failed"
LINES = 12
"""Maximum number of lines of the traceback in the alert."""


class CellWatch:
    """Compares the records of the runs before and after each cell."""

    def __init__(self, runs: Sequence[Any], *, is_notebook: bool) -> None:
        """Watch the cells of this notebook or terminal.

        Args:
            runs: The runs that have not ended; the list is read at every cell.
            is_notebook: Whether a cell that fails is an alert.
        """
        self._runs = runs
        self._is_notebook = is_notebook
        self._before: dict[int, int] = {}
        self._failed: set[int] = set()

    def pre_run_cell(self, info: Any = None) -> None:
        """Note how many records each run has."""
        self._before = {id(run): run.records for run in self._runs}
        for run in tuple(self._runs):
            run.wake()

    def post_run_cell(self, result: Any) -> None:
        """Report the failure of a cell in which a run took a step; resolve it once a later cell trains."""
        error = getattr(result, "error_in_exec", None)
        for run in tuple(self._runs):
            run.rest()
            if not self._is_notebook or run.records <= self._before.get(id(run), 0):
                continue
            if error is not None and not isinstance(error, KeyboardInterrupt):
                self._failed.add(id(run))
                lines = traceback.format_exception(type(error), error, error.__traceback__)[-LINES:]
                run.alert(TITLE, "".join(lines), "critical")
            elif id(run) in self._failed and error is None:
                self._failed.discard(id(run))
                run.alert(TITLE, resolved=True)


def before_cells(call: Callable[[Any], None]) -> None:
    """Call a function at the beginning of each cell, also in a terminal with IPython; again does nothing."""
    found = interactive_shell()
    if found is not None and call not in found.events.callbacks["pre_run_cell"]:
        found.events.register("pre_run_cell", call)


_watches: dict[int, CellWatch] = {}


def watch_cells(runs: Sequence[Any]) -> None:
    """Watch the cells of a notebook, or of a terminal with IPython, from now on; again does nothing.

    Args:
        runs: The runs that have not ended.
    """
    shell = interactive_shell()
    if shell is None or id(shell) in _watches:
        return
    watch = _watches[id(shell)] = CellWatch(runs, is_notebook=getattr(shell, "kernel", None) is not None)
    shell.events.register("pre_run_cell", watch.pre_run_cell)
    shell.events.register("post_run_cell", watch.post_run_cell)
