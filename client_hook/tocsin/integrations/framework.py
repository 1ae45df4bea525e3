"""What a training framework reports of its training: configuration, planned steps, epochs, phases, metrics.

Every integration has one :class:`FrameworkRun`. The hook captures loss, gradient norm, learning rate and
scale at every step, so the values that a framework logs for them are left out. They are recorded only if
nothing is captured, as with JAX or ``patch=False``.
"""

from __future__ import annotations

import functools
import logging
import operator
import os
import re
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from ..core.identity import world
from ..core.process_state import active_runs, auto_start

LOG = logging.getLogger("tocsin")
PHASE = "eval"
EPOCH = "epoch"
VITAL = {
    "loss": "loss",
    "train_loss": "loss",
    "training_loss": "loss",
    "train/loss": "loss",
    "train_loss_step": "loss",
    "train/loss_step": "loss",
    "loss_step": "loss",
    "grad_norm": "grad_norm",
    "train/grad_norm": "grad_norm",
    "lr": "lr",
    "learning_rate": "lr",
    "train/lr": "lr",
    "train/learning_rate": "lr",
    "scale": "scale",
    "loss_scale": "scale",
}
"""Names that frameworks and scripts give to what the hook captures -> its series."""
EVALUATED = re.compile(r"(?:eval|val|valid|validation)[_/](?P<name>.+)")
"""Names of evaluation metrics."""
SPEED = re.compile(
    r"(?:.*[_/])?(?:runtime|samples_per_second|steps_per_second|tokens_per_second"
    r"|model_preparation_time|total_flos)"
)
"""Names of measurements that are not metrics of the model. The hook records the time of each step."""

Hook = TypeVar("Hook", bound=Callable[..., Any])
Integration = TypeVar("Integration", bound=type)

_begun: weakref.WeakSet[Any] = weakref.WeakSet()
"""Runs that an integration has started. Another training starts a separate run."""
_warned: set[tuple[str, str]] = set()
"""Framework and hook point of each warning that was logged."""


def guarded(hook: Hook) -> Hook:
    """Catch what a method of an integration raises; warn once, with the framework and its version.

    The object must have its :class:`FrameworkRun` as ``_tocsin``.
    """

    @functools.wraps(hook)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return hook(self, *args, **kwargs)
        except Exception as error:
            missing(self._tocsin.framework, hook.__name__, repr(error))

    call._is_guarded = True  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


class Absent:
    """Stand-in for a class that the installed version of a framework lacks. Methods do nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """Accept all arguments."""

    def __getattr__(self, name: str) -> Any:
        """Return a function that does nothing, for what the framework's class would define."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_, **__: None


def class_of(framework: str, module: str, name: str) -> Any:
    """Return a class of a framework, or :class:`Absent`, with a warning, if this version lacks it.

    A class from which an integration derives is needed when a script imports the integration, so an
    ``ImportError`` would end the script.

    Args:
        framework: Name of the framework's distribution.
        module: The module that has the class.
        name: Name of the class; of a nested one with that of the outer one.

    Raises:
        ModuleNotFoundError: The framework is not installed.
    """
    import_module(module.partition(".")[0])
    try:
        return operator.attrgetter(name)(import_module(module))
    except Exception as error:
        missing(framework, f"{module}.{name.partition('.')[0]}", repr(error))
        return Absent


def check_hooks(framework: str, *more: str, events: Any = None) -> Callable[[Integration], Integration]:
    """Decorate an integration: warn of each hook that the installed version of the framework never calls.

    Hooks are the guarded public methods. A framework that calls a hook has it in the base class.

    Args:
        framework: Name of the framework's distribution.
        more: Names of further hooks.
        events: An object that has the names of the hooks, for a framework whose base class has none.
    """

    def check(integration: Integration) -> Integration:
        owners = (*integration.__bases__, events)
        public = [name for name in vars(integration) if not name.startswith("_")]
        hooks = [name for name in public if hasattr(vars(integration)[name], "_is_guarded")]
        for name in (*hooks, *more):
            if Absent not in owners and not any(hasattr(owner, name) for owner in owners):
                missing(framework, f"{integration.__name__}.{name}", "this version never calls it")
        return integration

    return check


def missing(framework: str, what: str, problem: str) -> None:
    """Warn once that this version of a framework lacks something, so that some values are not recorded.

    Args:
        framework: Name of its distribution.
        what: The hook point.
        problem: The error, or what is missing.
    """
    if (framework, what) not in _warned:
        _warned.add((framework, what))
        LOG.warning(
            "tocsin: %s %s: %s cannot be used: %s. Its values are not recorded; all others are.",
            framework,
            version_of(framework),
            what,
            problem,
        )


def is_first_rank() -> bool:
    """Return whether this process is the one in which frameworks log."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return bool(distributed.get_rank() == 0)
    return world(os.environ)[0] == 0


def version_of(framework: str) -> str:
    """Return the installed version of a distribution, or ``unknown``."""
    try:
        return version(framework)
    except PackageNotFoundError:
        return "(unknown version)"


class FrameworkRun:
    """The run to which an integration reports: the active one, or one that it starts."""

    def __init__(self, framework: str, options: Mapping[str, Any] | None = None) -> None:
        """Start nothing yet.

        Args:
            framework: Name of the framework's distribution.
            options: Arguments of ``tocsin.watch`` for the case that the integration starts the run.
        """
        self.framework = framework
        self.options = dict(options or {})
        """Arguments of ``tocsin.watch``."""
        self._run: Any = None
        self._is_in_phase: Any = None
        self._left_out: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle without the run: fastai's ``Learner.export`` pickles its callbacks."""
        return FrameworkRun, (self.framework, self.options)

    @property
    def run(self) -> Any:
        """The run; started now if there is none."""
        if self._run is None:
            self.begin()
        return self._run

    @property
    def next_step(self) -> int:
        """Number of the next step of the run."""
        return int(self.run.state_dict()["step"])

    def begin(
        self,
        *,
        config: Mapping[str, Any] | None = None,
        planned_steps: float | None = None,
        done_steps: int = 0,
        name: str | None = None,
        is_new: bool = False,
    ) -> None:
        """Find or start the run when the training begins, and report what is known.

        Args:
            config: The framework's settings.
            planned_steps: Optimizer steps at the end of the training; None or not finite if unknown.
            done_steps: Optimizer steps before this training, because it continues from a checkpoint.
            name: Name of a new run, if neither the script nor ``TOCSIN_NAME`` chooses one.
            is_new: Start a run for this training even if this object has one, as for a trial of a sweep.
        """
        run = None if is_new else self._found()
        if run is None:
            run = self._started(name, config)
            _begun.add(run)
        elif config:
            run.config.update(config)
        if run is not self._run:
            self._run, self._is_in_phase = run, None
            self._left_out.clear()
            run.event("framework", name=self.framework, version=version_of(self.framework))
        if done_steps and not self.next_step:
            run.load_state_dict({"step": done_steps})
        if planned_steps is not None and done_steps <= planned_steps < float("inf"):
            run.planned_steps = self.next_step + int(planned_steps) - done_steps

    def _found(self) -> Any:
        """Return the run of this object if it has not ended, else the newest one that the script started."""
        if self._run in active_runs:
            return self._run
        newest = active_runs[-1] if active_runs else None
        return None if newest is None or newest in _begun else newest

    def _started(self, name: str | None, config: Mapping[str, Any] | None) -> Any:
        from .. import watch

        auto_start.clear()
        options = dict(self.options)
        options["name"] = options.get("name") or os.environ.get("TOCSIN_NAME") or name
        tags = [tag for one in os.environ.get("TOCSIN_TAGS", "").split(",") if (tag := one.strip())]
        run = watch(**{"config": config, "tags": tags, **options})
        if config and options.get("config"):
            run.config.update(config)
        return run

    def epoch(self, number: float) -> None:
        """Report that an epoch begins.

        Args:
            number: Its number, counted from 0.
        """
        self.run.event("epoch", epoch=int(number), step=self.next_step)

    def log(self, values: Mapping[str, Any], *, step: int | None = None, prefix: str = "") -> None:
        """Record what the framework logs; evaluation metrics as ``val/<name>``.

        Values that the hook captures itself are left out, and so are the epoch, which is an event, and
        measurements of speed.

        Args:
            values: Metrics by the framework's names; texts and None are left out.
            step: Step of the framework, counted from 0; used only if the hook counts no steps itself.
            prefix: Added to the names of training metrics, such as ``train/``.
        """
        training: dict[str, Any] = {}
        evaluated: dict[str, Any] = {}
        for name, value in numbers(values):
            found = EVALUATED.fullmatch(name)
            series = VITAL.get(name)
            if found is not None:
                if not SPEED.fullmatch(name):
                    evaluated[found["name"]] = value
            elif series is not None:
                if not self._is_captured(series):
                    training[series] = value
            elif not SPEED.fullmatch(name) and name != EPOCH:
                training[name if "/" in name else prefix + name] = value
        at = self._step(step)
        if training:
            self.run.log(training, step=at)
        if evaluated:
            self.run.evaluate(evaluated, step=at)

    def evaluated(
        self, values: Mapping[str, Any], *, step: int | None = None, goal: Mapping[str, str] | None = None
    ) -> None:
        """Record evaluation metrics as ``val/<name>``.

        Args:
            values: Metrics by name, with or without the prefix of an evaluation.
            step: As for :meth:`log`.
            goal: ``"max"`` or ``"min"`` by name.
        """
        known = {
            found["name"] if (found := EVALUATED.fullmatch(name)) else name: value
            for name, value in numbers(values)
            if not SPEED.fullmatch(name) and name != EPOCH
        }
        if known:
            self.run.evaluate(known, step=self._step(step), goal=goal or None)

    def phase_begins(self, name: str = PHASE) -> None:
        """Report that a phase without steps begins, unless the hook has detected it."""
        run = self.run
        if self._is_in_phase is None and not run.in_phase:
            self._is_in_phase = run.phase(name)
            self._is_in_phase.__enter__()

    def phase_ends(self) -> None:
        """Report that the phase ends."""
        phase, self._is_in_phase = self._is_in_phase, None
        if phase is not None:
            phase.__exit__(None, None, None)

    def finish(self, error: BaseException | None = None) -> None:
        """End the run if an integration started it."""
        run, self._run = self._run, None
        if run is not None and run in _begun:
            run.finish(error=error)

    def _is_captured(self, series: str) -> bool:
        """Return whether the hook captures a series; report once that the framework's is left out."""
        run = self.run
        if not run.captures(series):
            return False
        if series not in self._left_out:
            self._left_out.add(series)
            run.event("framework", name=self.framework, captured=sorted(self._left_out))
        return True

    def _step(self, given: int | None) -> int | None:
        """Return the step of values that are logged now."""
        run = self.run
        return run.current_step if given is None or run.captures() else max(given, 0)


def numbers(values: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield names and values that are numbers or scalars; names of nested mappings are joined by ``/``."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from numbers(value, f"{name}/")
        elif isinstance(value, (bool, int, float)) or _is_scalar(value):
            yield name, value


def _is_scalar(value: Any) -> bool:
    size = getattr(value, "numel", None) or getattr(value, "size", None)
    count = size() if callable(size) else size
    return hasattr(value, "item") and count == 1
