"""The script's alert handlers: which alerts they receive, and what happens if one raises."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from .reporter import LOG, RunReporter

Handler = Callable[[Any], Any]
MAX_FAILURES = 8
"""Maximum number of failed alert handlers that are reported to the server."""


@dataclass(frozen=True)
class _Subscription:
    handler: Handler
    rules: Collection[str]
    severity: str | None

    def includes(self, alert: Any) -> bool:
        """Return whether the handler receives ``alert``. Without rules or a severity, it receives all."""
        if self.rules and getattr(alert, "rule", None) not in self.rules:
            return False
        return not self.severity or getattr(alert, "severity", None) == self.severity


class AlertHandlers:
    """The alert handlers of one run."""

    def __init__(self, reporter: RunReporter) -> None:
        self._reporter = reporter
        self._subscriptions: list[_Subscription] = []
        self._failures = 0

    def add(self, handler: Handler, rules: Collection[str], severity: str | None) -> None:
        """Call ``handler`` with each alert of these rules and of this severity.

        Args:
            handler: Function that receives each alert.
            rules: Identifiers of the rules; empty: all rules.
            severity: ``info``, ``warning`` or ``critical``; None: any severity.
        """
        self._subscriptions.append(_Subscription(handler, rules, severity))

    def call(self, alert: Any) -> None:
        """Call the handlers of an alert. If one raises, log and report it, and call the others."""
        for one in tuple(self._subscriptions):
            if one.includes(alert):
                try:
                    one.handler(alert)
                except Exception as error:
                    LOG.warning("tocsin: an alert handler raised. Training continues.", exc_info=True)
                    self._report_failure(one.handler, alert, error)

    def _report_failure(self, handler: Handler, alert: Any, error: Exception) -> None:
        """Report a failed handler to the server, at most MAX_FAILURES times."""
        self._failures += 1
        if self._failures <= MAX_FAILURES:
            reason = self._reporter.redact.text(f"{type(error).__name__}: {error}"[:300])
            name, rule = getattr(handler, "__name__", ""), getattr(alert, "rule", "")
            self._reporter.put_event("handler-failed", {"handler": name, "rule": rule, "error": reason})
