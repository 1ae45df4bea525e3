"""The live card of one run under its cell."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from . import drawing, kernel
from .curve import Curve

EVERY_S = 1.0
"""Shortest time between two updates, s."""
VITAL = ("loss", "grad_norm", "scale", "lr")
"""Series that are drawn first, if the run has them."""
COUNTS = ("loss_n", "stepped", "skipped", "found_inf", "step_time", "data_time", "hook", "sys", "nonfinite")
"""Series that are not drawn, so that metrics have their places: of the process and of the recording."""
MOST = 6
"""Maximum number of series that are drawn."""
ALERTS = 8
"""Maximum number of alerts that are listed; the newest are chosen."""

_numbers = itertools.count(1)


class Card:
    """Collects the newest curves of a run, and draws them at most once per second."""

    def __init__(
        self,
        facts: Callable[[], dict[str, Any]],
        alerts: Callable[[], Iterable[Any]] = tuple,
        *,
        display: Callable[..., None] = kernel.display,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Make a card.

        Args:
            facts: Returns ``name``, ``project``, ``url`` and ``state`` of the run.
            alerts: Returns its alerts as the server sent them.
            display: Shows HTML under the cell.
            clock: Monotonic time, s.
        """
        self._facts = facts
        self._alerts = alerts
        self._display = display
        self._clock = clock
        self._curves: dict[str, Curve] = {}
        self._step: int | None = None
        self._id = ""
        self._drawn_s = 0.0
        self._shown = ""

    def take(self, item: tuple[Any, ...]) -> None:
        """Add a record: step, time, names, values. Called on the training thread."""
        self._step = item[0]
        for name, value in zip(item[2], item[3:], strict=True):
            curve = self._curves.get(name)
            if curve is None:
                if name.partition("/")[0] in COUNTS or (name not in VITAL and len(self._curves) >= MOST):
                    continue
                curve = self._curves[name] = Curve()
            curve.add(item[0], value)

    def html(self) -> str:
        """Return the card as it is now."""
        curves = dict(self._curves)  # the training thread may add one meanwhile
        order = [*(name for name in VITAL if name in curves), *(name for name in curves if name not in VITAL)]
        newest = list(self._alerts())[-ALERTS:]
        shown = [drawing.Shown(each.severity, each.summary, each.state, each.onset_step) for each in newest]
        return drawing.card(
            **self._facts(),
            step=self._step,
            curves={name: curves[name] for name in order[:MOST]},
            alerts=shown,
        )

    def show(self) -> None:
        """Show it under the cell that runs now. Updates reach every cell that shows it."""
        self._id = self._id or f"tocsin-{os.getpid()}-{next(_numbers)}"
        self._shown = self.html()
        self._display(self._shown, self._id, update=False)

    def sample(self) -> None:
        """Update the output if it is due. Called by the sender's thread."""
        now = self._clock()
        if self._id and now - self._drawn_s >= EVERY_S:
            self._drawn_s = now
            try:
                self.update()
            except Exception:
                self._id = ""  # the notebook was closed; the run continues

    def update(self) -> None:
        """Update the output now, if anything changed."""
        html = self.html()
        if self._id and html != self._shown:
            self._shown = html
            self._display(html, self._id, update=True)
