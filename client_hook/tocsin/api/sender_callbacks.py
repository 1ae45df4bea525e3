"""What the sender calls: sampling of the system, and what the server sends."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import Any

from .. import mirrors
from ..protocol import BETWEEN_CELLS
from .console import AlertCounter
from .reporter import RunReporter

ALERTS_S = 1.0
"""Maximum time that ``finish`` waits until the last alerts are written to other trackers, s."""


class SenderCallbacks:
    """The callbacks of a run's sender, which exists before its reporter. It calls them once it has started.

    Args:
        problems: Counts the alerts for the last line on the terminal; None if this process prints nothing.
    """

    def __init__(self, problems: AlertCounter | None) -> None:
        from ..system.system_metrics import SystemMetrics

        self._problems = problems
        self._metrics = SystemMetrics(os.environ, lambda *read: self._reporter.add_reading(*read))
        self._reporter: RunReporter
        self._recorder: Any
        self._addresses: Callable[[], tuple[str, str]]

    def begin(self, reporter: RunReporter, recorder: Any, addresses: Callable[[], tuple[str, str]]) -> None:
        """Set what the callbacks report to.

        Args:
            reporter: The run's reporter.
            recorder: Records the environment.
            addresses: Returns the addresses of the run and of the server, once they are known.
        """
        self._reporter, self._recorder, self._addresses = reporter, recorder, addresses
        reporter.on_closed.append(self._flush_alerts)

    @cached_property
    def _alert_writer(self) -> Any:
        return mirrors.alert_writer(lambda: self._addresses()[0], lambda: self._addresses()[1])

    def _flush_alerts(self) -> None:
        if mirrors.has_alerts():
            self._alert_writer.flush(ALERTS_S)

    def sample(self, now: float) -> None:
        """Read what is read every few seconds, on a separate thread."""
        reporter = self._reporter
        self._recorder.sample()
        self._metrics.step(now)
        reporter.checkpoints.sample(now)
        for one in tuple(reporter.samplers):
            one()

    def phase(self) -> str:
        """Return the phase that the script is in; empty for training."""
        phases = self._reporter.phases
        return phases[-1] if phases else BETWEEN_CELLS if self._reporter.is_resting else ""

    def take(self, message: Any) -> None:
        """Take an alert or a request of the server."""
        if self._problems is not None:
            self._problems.count(message)
        if mirrors.has_alerts():
            self._alert_writer.take(message)
        self._reporter.queue_message(message)
