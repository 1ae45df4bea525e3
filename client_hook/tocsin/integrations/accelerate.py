"""Accelerate: ``Accelerator(log_with=TocsinTracker("project"))``, or ``log_with="tocsin"``.

Importing this module registers the name.
Steps of values that the script logs are those of the hook, so that ``step=epoch`` does no harm.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from .framework import FrameworkRun, check_hooks, class_of, guarded, missing

FRAMEWORK = "accelerate"
GeneralTracker: Any = class_of(FRAMEWORK, "accelerate.tracking", "GeneralTracker")


@check_hooks(FRAMEWORK)
class TocsinTracker(GeneralTracker):
    """Reports the configuration of ``init_trackers`` and what ``accelerator.log`` logs.

    ``loss``, ``train_loss``, ``grad_norm`` and ``lr`` are left out, because the hook captures them at every
    step. ``eval_...`` and ``val_...`` become ``val/...``.
    """

    name = "tocsin"
    requires_logging_directory = False
    main_process_only = False  # every rank captures; only the first logs metrics

    def __init__(self, run_name: str | None = None, **options: Any) -> None:
        """Start nothing yet: Accelerate calls :meth:`start` in ``init_trackers``.

        Args:
            run_name: The project, as ``init_trackers`` passes it; default: ``TOCSIN_PROJECT``.
            options: Further arguments of ``tocsin.watch``, such as ``name``.
        """
        super().__init__()
        self._tocsin = FrameworkRun(FRAMEWORK, {"project": run_name, **options})
        self._has_begun = False

    @property
    def tracker(self) -> Any:
        """The run."""
        return self._tocsin.run

    def default_project(self, name: str) -> None:
        """Use the project of ``init_trackers`` unless another one was given."""
        self._tocsin.options["project"] = self._tocsin.options.get("project") or name

    def start(self) -> None:
        """Start the run. Releases before 1.6 do not call this."""
        self._start()

    @guarded
    def _start(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._tocsin.begin()

    @guarded
    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Describe the run. ``max_train_steps``, as Accelerate's examples call it, is its length.

        Args:
            values: The configuration of ``init_trackers``.
        """
        self.start()
        planned = values.get("max_train_steps") or values.get("max_steps")
        self._tocsin.begin(config=values, planned_steps=planned if isinstance(planned, int) else None)

    @guarded
    def log(self, values: Mapping[str, Any], step: int | None = None, **_: Any) -> None:
        """Record metrics.

        Args:
            values: Numbers and scalars by name; others are left out.
            step: Used only if the hook counts no steps.
        """
        from accelerate.state import PartialState

        if PartialState().is_main_process:
            self._tocsin.log(values, step=step)

    @guarded
    def finish(self) -> None:
        """End the run if this tracker started it."""
        self._tocsin.finish()


def on_every_rank(init_trackers: Any) -> Any:
    """Return ``Accelerator.init_trackers`` for every rank; it starts trackers on the main process only."""

    @functools.wraps(init_trackers)
    def started(self: Any, project_name: str, config: Any = None, init_kwargs: Any = None) -> Any:
        for tracker in self.log_with:
            if isinstance(tracker, TocsinTracker):
                tracker.default_project(project_name)
        result = init_trackers(self, project_name, config, init_kwargs)
        try:
            if not self.is_main_process:
                join(self, project_name, config, (init_kwargs or {}).get(TocsinTracker.name, {}))
        except Exception as error:
            missing(FRAMEWORK, "Accelerator.init_trackers", repr(error))
        return result

    return started


def join(accelerator: Any, project: str, config: Any, options: Mapping[str, Any]) -> None:
    """Start the tracker of a rank other than the first, if the script uses one."""
    for given in accelerator.log_with:
        if isinstance(given, TocsinTracker) or str(given) == TocsinTracker.name:
            tracker = given if isinstance(given, TocsinTracker) else TocsinTracker(project, **options)
            accelerator.trackers.append(tracker)
            tracker.start()
            tracker.store_init_configuration(config or {})


def register() -> None:
    """Register ``log_with="tocsin"``. Older releases accept only the tracker itself."""
    try:
        from accelerate import Accelerator, tracking

        known = getattr(tracking, "LOGGER_TYPE_TO_CLASS", {})
        if hasattr(tracking, "register_tracker_class") and TocsinTracker.name not in known:
            tracking.register_tracker_class(TocsinTracker)
        Accelerator.init_trackers = on_every_rank(Accelerator.init_trackers)
    except Exception as error:
        missing(FRAMEWORK, "Accelerator.init_trackers", repr(error))


register()
