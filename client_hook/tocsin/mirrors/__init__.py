"""Mirrors: what a script logs to another tracker arrives in tocsin too, and alerts are written back to it.

This module only waits for trackers to be imported. Everything else is imported with the first of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from ..core.process_state import active_runs, is_disabled
from ..lifecycle.import_hook import when_imported
from .options import STEPS, Options, chosen, has_alerts

__all__ = ["TRACKERS", "alert_writer", "begin", "end", "from_environment", "has_alerts", "mirror"]

TRACKERS = {
    "tensorboard": ("torch.utils.tensorboard.writer", "tensorboardX.writer"),
    "wandb": ("wandb",),
    "mlflow": ("mlflow",),
    "trackio": ("trackio",),
    "aim": ("aim",),
    "swanlab": ("swanlab",),
    "comet": ("comet_ml",),
}
"""Trackers, and the modules after whose import they can be mirrored. Each has a file in this package."""

_waiting: dict[str, Callable[[], None]] = {}
"""Modules that are not imported yet -> the function that stops waiting for them."""
_installed: set[str] = set()
"""Modules whose trackers are mirrored."""
_unknown: list[str] = []
"""Words in ``TOCSIN_MIRROR`` that the first run warns of: most processes have no run, and need no warning."""


def mirror(trackers: Collection[str], *, alerts: bool = True, steps: str = STEPS[0]) -> None:
    """Mirror trackers from now on, or as soon as the script imports them. May be called again.

    Args:
        trackers: Names in TRACKERS; others are left out with a warning.
        alerts: Whether alerts are written to the tracker.
        steps: One of STEPS; another word is replaced by the first, with a warning.
    """
    _warn_of("tocsin.mirror", [tracker for tracker in trackers if tracker not in TRACKERS])
    if steps not in STEPS:
        text = 'tocsin.mirror: unknown steps="%s", expected "tracker" or "run". Used instead: "%s".'
        _warn(text, steps, STEPS[0])
        steps = STEPS[0]
    for tracker in [one for one in trackers if one in TRACKERS]:
        chosen[tracker] = Options(alerts, steps)
        for run in active_runs if alerts else ():
            run.want_alerts()
        for module in TRACKERS[tracker]:
            if module in sys.modules:
                _install(tracker, module)
            elif module not in _waiting:
                _waiting[module] = when_imported(module, partial(_install, tracker, module))


def from_environment(environ: Mapping[str, str] = os.environ) -> Collection[str]:
    """Return the trackers that ``TOCSIN_MIRROR`` names: all by default, none for ``0``."""
    given = environ.get("TOCSIN_MIRROR", "").strip().lower()
    words = {one.strip() for one in given.split(",")}
    _unknown[:] = sorted(words - TRACKERS.keys() - {"", "0"})
    return [tracker for tracker in TRACKERS if not given or tracker in words]


def begin(run: Any) -> None:
    """Give a new run what was logged before it. Called on its thread."""
    _warn_of("TOCSIN_MIRROR", _unknown)
    _unknown.clear()
    if has_alerts():
        run.want_alerts()
    feed = sys.modules.get(f"{__name__}.feed")
    if feed is not None:
        feed.feed.begin(run)


def end() -> None:
    """Give the run what is left. Called on its thread, before it ends."""
    feed = sys.modules.get(f"{__name__}.feed")
    if feed is not None:
        feed.feed.end()


def alert_writer(run_url: Callable[[], str], server_url: Callable[[], str]) -> Any:
    """Return the writer of a run's alerts. Its arguments return URLs, which are known after connecting."""
    from .write_back import AlertWriter

    return AlertWriter(run_url, server_url)


def _install(tracker: str, module: str) -> None:
    """Patch a tracker that has been imported. Never raises: without a patch there is one warning."""
    _waiting.pop(module, None)
    if module in _installed or is_disabled():
        return
    _installed.add(module)
    try:
        import_module(f"{__name__}.{tracker}").install(sys.modules[module])
    except Exception as error:
        text = "tocsin: what is logged to %s is not mirrored: %s. The tracker itself works as before."
        _warn(text, tracker, error)


def _warn_of(what: str, unknown: Collection[str]) -> None:
    for tracker in unknown:
        text = '%s: unknown tracker "%s" is ignored. Use one of: %s.'
        _warn(text, what, tracker, ", ".join(TRACKERS))


def _warn(text: str, *arguments: object) -> None:
    """Log a warning. Imports ``logging`` only now, because a process that trains nothing needs none."""
    import logging

    logging.getLogger("tocsin").warning(text, *arguments)
