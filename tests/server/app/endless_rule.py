"""The program of a rule process in which ``nonfinite-loss`` loops at a loss of +Inf and raises at -Inf."""

from __future__ import annotations

import inspect
import sys

from tocsin_server.detect.rules.nonfinite.nonfinite_loss import NonfiniteLoss
from tocsin_server.runs.rule_worker import main

SOURCE = """
def observe(self, view):
    while float("inf") in (view.loss or ()):
        pass
    if float("-inf") in (view.loss or ()):
        raise ValueError("as tested")
    proper(self, view)
"""


if __name__ == "__main__":
    file = inspect.getfile(NonfiniteLoss)  # as if its author had written it there
    found = {"proper": NonfiniteLoss.observe}
    exec(compile(SOURCE, file, "exec"), found)
    NonfiniteLoss.observe = found["observe"]  # type: ignore[method-assign]
    main(*map(int, sys.argv[1:]))
