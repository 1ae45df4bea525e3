"""Steps of a framework that scales the loss itself, read from the calls of its methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .framework import FrameworkRun, guarded, missing

KEPT = 4096
"""Maximum number of losses between two optimizer steps."""


class ExplicitSteps:
    """The steps of one engine or optimizer, reported by ``run.step`` instead of by capture."""

    def __init__(self, framework: str, options: dict[str, Any]) -> None:
        """Start nothing yet.

        Args:
            framework: Name of the framework's distribution.
            options: Arguments of ``tocsin.watch`` for the case that the script has started no run.
        """
        self._tocsin = FrameworkRun(framework, options)
        self._losses: list[Any] = []

    @property
    def run(self) -> Any:
        """The run, for ``evaluate``, ``log`` and ``phase``."""
        return self._tocsin.run

    def _replace(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        """Call ``around(owner, original, ...)`` instead of a method of this object only."""
        original = getattr(owner, name, None)
        if original is None:
            what = f"{type(owner).__name__}.{name}"
            missing(self._tocsin.framework, what, "this version does not have it")
            return

        def call(*args: Any, **kwargs: Any) -> Any:
            return around(owner, original, *args, **kwargs)

        vars(owner)[name] = call

    @guarded
    def _keep(self, loss: Any) -> None:
        """Keep a loss until the step that uses it."""
        if loss is not None and len(self._losses) < KEPT:
            self._losses.append(loss.detach())

    def _read(self, what: str, read: Callable[[], Any]) -> Any:
        """Return a value of the framework; None, with one warning, if this version does not have it."""
        try:
            return read()
        except Exception as error:
            missing(self._tocsin.framework, what, repr(error))
            return None

    def _taken(self) -> list[Any]:
        """Return the losses since the last step, and forget them."""
        losses, self._losses = self._losses, []
        return losses
