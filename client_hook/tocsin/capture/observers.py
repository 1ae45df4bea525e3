"""Interfaces of the modules that the ledger calls."""

from __future__ import annotations

from typing import Any, Protocol

from .optimizer_tracker import OptimizerTracker


class NormObserver(Protocol):
    """Receives the gradient norm of each parameter, and each record."""

    def seen(
        self, tracker: OptimizerTracker, params: list[Any], norms: Any, scale: Any, source: str
    ) -> None: ...

    def recorded(self, tracker: OptimizerTracker, step: int, skipped: Any) -> None: ...


class UpdateObserver(Protocol):
    """Detects steps that no torch optimizer makes."""

    tracker: OptimizerTracker | None

    def boundary(self) -> None: ...

    def after_backward(self) -> None: ...

    def clipped(self, norm: Any, clip: Any) -> None: ...


class EvaluationObserver(Protocol):
    """Is called when a module is put into evaluation mode."""

    def begin(self, module: Any) -> None: ...
