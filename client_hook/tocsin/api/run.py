"""The Run: the calls of a training script. Nothing here raises into training or blocks it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from time import monotonic_ns
from types import TracebackType
from typing import Any
from urllib.parse import quote

from ..core.config import plain, words
from ..core.environment_options import KIND as ENVIRONMENT
from ..core.handshake import RunInfo
from ..core.identity import settled
from ..core.run_fields import count_of
from ..core.values import counted, kind_of, step_of, text, wholes, within
from ..lifecycle import shutdown
from ..lifecycle.child_processes import has_children
from ..protocol import MOST_STEP, Request
from ..system.checkpoints import path_of
from . import console
from .alert_handlers import AlertHandlers
from .batches import Batches
from .facts import Facts
from .nonfinite_inputs import describe
from .reporter import LOG, RunReporter
from .scalars import nonfinite, number
from .server_requests import Handler, ServerRequests
from .step_count import NAMES, StepCount

UNSEEN: dict[str, Any] = {
    "stage": "first-step",
    "checks": [],
    "findings": [],
    "not_checkable": ["everything: the script reports its steps with run.step, and no torch loop is watched"],
    "took_ms": 0.0,
}
"""The config check of a run without capture."""
SEVERITIES = {
    "info": "info",
    "warning": "warning",
    "warn": "warning",
    "error": "critical",
    "critical": "critical",
}
"""Severities of an alert of the script, and W&B's names for them."""
NOT_LOGGED = frozenset({"commit", "sync"})
"""Arguments of W&B's ``log`` after its mapping. They have no meaning here."""
MOST_NAMES = 1_000
"""Maximum number of names of one call of ``log``."""
MESSAGES = 32
"""Maximum number of warnings about rejected values."""


class Run:
    """One training run of this process, returned by ``tocsin.watch``.

    Every method can be called in a forked child, after the end of the run, and repeatedly.
    """

    def __init__(
        self,
        reporter: RunReporter,
        facts: RunInfo,
        ledger: Any = None,
        actions: Collection[str] = (),
        config: Any = None,
    ) -> None:
        self._reporter = reporter
        self._run_info = facts
        self._ledger = ledger
        self._steps = StepCount(facts.start_step, ledger, reporter.captured)
        self._last_ns = 0
        self._last_paused = 0
        self._ended = False
        self._batches = Batches()
        self._terms: set[str] = set()
        """Terms of the loss that were reported."""
        self._goals: dict[str, tuple[Any, Any]] = {}
        self._alert_handlers = AlertHandlers(reporter)
        self.config = Facts(config, self._configured)
        """The configuration. What is set or updated after the start is reported too."""
        self.summary = Facts({}, self._summarized)
        """Results of the run, such as ``run.summary["best_accuracy"] = 0.93``, shown on its page."""
        self._phases = reporter.phases
        self._card: Any = None
        """The card in a notebook."""
        self._shown_in: int | None = None
        """The cell under which it was last shown."""
        self.problems: console.AlertCounter | None = None
        """Problems that the server found; None if nothing is written to the terminal."""
        self.on_log: Callable[[int, Iterable[Any], Iterable[Any]], None] | None = None
        """Receives the step, names and values that the script logs, while trackers are mirrored."""
        self._refused: set[tuple[str, str]] = set()
        self._actions = ServerRequests(reporter, ledger, actions, lambda: settled(facts.identity).world_size)
        facts.wants += self._actions.wanted
        reporter.handle = self._handle
        reporter.between = lambda: self._steps.is_between
        reporter.checkpoints.step = lambda: self._steps.updated
        make_log = getattr(getattr(reporter.outbox, "tail", None), "logger", None)
        if make_log is not None and type(self).log is Run.log:
            self.log = self._compiled_log(reporter, make_log)  # type: ignore[method-assign]
        shutdown.register(self)

    def _compiled_log(self, reporter: RunReporter, make: Callable[..., Any]) -> Callable[..., None]:
        """Return the compiled ``log``, which calls ``take`` for all but the usual calls."""
        functions = (self._steps.count_from, self.take, monotonic_ns, reporter.outbox.put)
        return make(self, reporter, self._steps, *functions, reporter.offset_ns)  # type: ignore[no-any-return]

    # -- identity

    @property
    def project(self) -> str:
        """The project of the run."""
        return self._run_info.project

    @property
    def name(self) -> str:
        """The name of the run, as given or generated."""
        return self._run_info.name

    @property
    def id(self) -> str:
        """The run's id; empty if the server assigns it because it must join ranks."""
        return self._run_info.identity.run

    @property
    def url(self) -> str:
        """The URL of the run's page, or of the server until it has assigned the run's id."""
        sender = self._reporter.sender
        base, run = getattr(sender, "address", ""), self.id or getattr(sender, "run", "")
        return f"{base}/runs/{quote(run)}" if base and run else base

    @property
    def records(self) -> int:
        """Number of records so far."""
        return self._reporter.records

    def rest(self) -> None:
        """Note that a notebook has executed a cell, so that it is not stalled before it trains again."""
        self._reporter.rest()

    def wake(self) -> None:
        """Note that a notebook executes a cell: the time since the last one is no part of ``step_time``."""
        self._reporter.wake()

    def show_in_notebook(self) -> bool:
        """Show a live card under the cell of a notebook, once per cell; return whether this is one."""
        if "IPython" not in sys.modules:
            return False
        try:
            from ..notebook import Card, shell

            notebook = shell()
            if notebook is None:
                return False
            if self._card is None:
                self._card = Card(self._facts, lambda: self.problems.newest.values() if self.problems else ())
                self._reporter.add_observer(self._card.take)
                self._reporter.samplers.append(self._card.sample)
            if self._shown_in != notebook.execution_count:
                self._shown_in = notebook.execution_count
                self._card.show()
        except Exception as error:
            self._reporter.report_error("notebook", error)
        return self._card is not None

    def _facts(self) -> dict[str, str]:
        """Return what the card of a notebook says about the run."""
        return {"name": self.name, "project": self.project, "url": self.url, "state": self._reporter.state}

    def _ipython_display_(self) -> None:
        """Show the run at the end of a cell: as a live card, in a terminal as one line."""
        if not self.show_in_notebook():
            print(f'tocsin run "{self.name}" ({self._reporter.state}): {self.url}')

    @property
    def reports_steps(self) -> bool:
        """Whether the script has used ``run.step``."""
        return self._steps.is_explicit

    @property
    def planned_steps(self) -> int | None:
        """Expected number of steps of the run, or None. A script or framework may set it later."""
        return self._run_info.planned_steps

    @planned_steps.setter
    def planned_steps(self, planned: Any) -> None:
        try:
            count = count_of(planned, "planned_steps")
            if count is not None and count != self._run_info.planned_steps:
                self._run_info.planned_steps = count
                if self._reporter.has_started:  # otherwise the handshake has it
                    self._reporter.put_event(ENVIRONMENT, {"planned_steps": count}, may_wait=True)
        except Exception as error:
            self._reporter.report_error("planned_steps", error)

    def captures(self, series: str = "") -> bool:
        """Return whether the hook itself reports a series, by default any."""
        captured = self._reporter.captured
        if not self._steps.is_captured:
            return False
        return series in captured if series else bool(self._ledger.trackers or captured)

    @property
    def in_phase(self) -> bool:
        """Whether the run is in a phase without steps, reported by the script or detected."""
        return bool(self._phases)

    def captured_by(self, ledger: Any) -> None:
        """Set the ledger when capture starts after the run, because torch was imported late."""
        self._ledger = self._steps.ledger = self._actions.ledger = ledger

    @property
    def current_step(self) -> int:
        """The step of a value that is logged now: the next one after a backward, else the newest."""
        return self._steps.current

    def state_dict(self) -> dict[str, int]:
        """Return ``{"step": n}`` with the number of the next step, to be saved in a checkpoint."""
        return {"step": self._steps.following}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the step count from a checkpoint.

        Args:
            state: What :meth:`state_dict` returned.
        """
        try:
            step = step_of(state["step"]) if isinstance(state, Mapping) and "step" in state else None
            if step is None:
                expected, result = "what run.state_dict() returned", "The step count is unchanged."
                self._refuse("load_state_dict", "its argument", state, expected, result)
                return
            self._steps.continue_after(step - 1)
        except Exception as error:
            self._reporter.report_error("load_state_dict", error)

    # -- metrics

    def log(self, /, *given: Any, step: int | None = None, **values: Any) -> None:
        """Add named numbers to a step.

        ``log(loss=x)``, ``log({"loss": x})`` and ``log("loss", x)`` are equivalent. Nested mappings are
        flattened: ``{"a": {"b": 1.0}}`` is sent as ``a/b``. A name that the hook itself reports is sent as
        ``logged/<name>``.

        Args:
            given: A mapping, or a name and its value; then optionally the step.
            step: The step. Default: after a backward pass the next step, else the newest one. Names that
                the script logs once per step in its forward pass, from its first step on, belong to the next
                step too. Without an optimizer or ``run.step``, logging a name again starts the next step,
                after the highest one that the script gave.
            values: Floats, tensors of one element on any device, or an ``Image``, ``Histogram``, ``Text`` or
                ``Table`` of tocsin, or a list of these.
        """
        if type(step) is int and not given and -MOST_STEP <= step <= MOST_STEP:
            # The usual call, in few operations, because it runs with cold caches. Compiled: see _pack.c.
            try:
                reporter = self._reporter
                names = reporter.names.get(tuple(values))
                row = values.values()
                for value in row:
                    if type(value) is not float:
                        names = None
                if names is not None:
                    if self.on_log is not None:
                        self.on_log(step, values, row)
                    if self._steps.is_alone:
                        self._steps.count_from(step, names)
                    reporter.put((step, monotonic_ns() + reporter.offset_ns, names, *row), True)
                    return
            except Exception as error:
                self._reporter.report_error("log", error)
                return
        self.take(given, step, values)

    def take(self, given: tuple[Any, ...], step: int | None, values: Mapping[str, Any]) -> None:
        """Log values; like :meth:`log`, with the arguments as one tuple and one mapping."""
        reporter = self._reporter
        if reporter.off:
            return
        try:
            if given:
                if values and not NOT_LOGGED.isdisjoint(values):
                    values = {name: values[name] for name in values if name not in NOT_LOGGED}
                values, step = self._arguments("log", given, step, values)
                if not values:
                    return
            names = tuple(values)
            row = values.values()
            known = reporter.names.get(names)
            if not known:
                if len(names) > MOST_NAMES:
                    values = self._bounded(values)
                    names, row = tuple(values), values.values()
                known = self._name(names)
            if step is None:
                step = self._steps.of(names, known)
            else:
                if type(step) is not int or not -MOST_STEP <= step <= MOST_STEP:
                    step = self._step_of(step)
                    if step is None:
                        return
                if self._steps.is_alone:
                    self._steps.count_from(step, known)
            if self.on_log is not None:
                self.on_log(step, names, row)
            for value in row:
                if type(value) is not float:
                    self._take_mixed(step, known, row)
                    return
            reporter.put((step, monotonic_ns() + reporter.offset_ns, known, *row), True)
        except Exception as error:
            reporter.report_error("log", error)

    def _arguments(
        self, method: str, given: tuple[Any, ...], step: Any, values: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Any]:
        """Read positional arguments: a mapping, or a name and its value; then the step."""
        first, rest = given[0], given[1:]
        if isinstance(first, str) and rest:
            values, rest = {first: rest[0], **values}, rest[1:]
        elif isinstance(first, Mapping):
            values = {**first, **values} if values else first
        elif first is not None:
            expected = "a mapping" if method in ("data", "event") else "a mapping, or a name and a number"
            self._refuse(method, "its first argument", first, expected)
        if rest:
            step = rest[0] if step is None else step
        if rest[1:]:
            self._reporter.warn(f"tocsin: run.{method}: arguments after the step are ignored")
        return values, step

    def _refuse(
        self, method: str, what: str, got: Any, expected: str, result: str = "It is left out."
    ) -> None:
        """Warn about a rejected argument and its type, once each and at most MESSAGES times."""
        self._warn_once(method, what, f"{what} is {kind_of(got)}, expected {expected}. {result}")

    def _warn_once(self, method: str, what: str, text: str) -> None:
        if (method, what) not in self._refused and len(self._refused) < MESSAGES:
            self._refused.add((method, what))
            self._reporter.warn(f"tocsin: run.{method}: {text}")

    @property
    def counts_by_log(self) -> bool:
        """Whether ``log`` itself counts the steps, because nothing else does."""
        return self._steps.is_alone and self._steps.stays_alone()

    def on_end(self, call: Callable[[], None]) -> None:
        """Call ``call`` before the run ends, to report what is left."""
        self._reporter.on_end.append(call)

    def call_later(self, call: Callable[[], None]) -> None:
        """Call ``call`` on the training thread after the next step. Any thread may call this."""
        self._reporter.queue_message(call)

    def _step_of(self, step: Any) -> int | None:
        """Return a step of any type (NumPy, tensor, float) as an int, or None with one warning."""
        found = step_of(step)
        if found is None:
            what = f"step is {kind_of(step)}, expected a whole number up to 2**53"
            self._reporter.warn(f"tocsin: {what}. The values of that call were left out.")
        return found

    def _bounded(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the first values, with a warning: the server would reject the whole record."""
        more = f"a call has {len(values):,} names; those after the first {MOST_NAMES:,} are left out."
        self._warn_once("log", "names", f"{more} Log fewer names.")
        return dict(islice(values.items(), MOST_NAMES))

    def _name(self, names: tuple[Any, ...]) -> tuple[str, ...]:
        """Return the names as they are sent: as text, with a prefix if capture uses them, interned."""
        reporter = self._reporter
        captured = reporter.captured if self._steps.is_captured else ()
        self._steps.named(names)
        known = tuple(f"logged/{name}" if name in captured else text(name) for name in names)
        if len(reporter.names) < NAMES:
            known = reporter.names.setdefault(names, known)
        return known

    def _take_mixed(self, step: int, names: tuple[str, ...], row: Iterable[Any]) -> None:
        """Queue values that are not plain floats: read, or copied on their device. Others are omitted."""
        reporter = self._reporter
        if any(isinstance(value, Mapping) for value in row):
            flat: Mapping[str, Any] = dict(within(zip(names, row, strict=True)))
            flat = self._bounded(flat) if len(flat) > MOST_NAMES else flat
            names, row = tuple(map(text, flat)), flat.values()
        values: list[Any] = []
        odd = on_device = False
        for name, value in zip(names, row, strict=True):
            if type(value) is not float:
                value = number(value, name)
                if value is None:
                    odd = True
                elif type(value) is not float:
                    on_device = True
            values.append(value)
        if odd:
            for name, given, value in zip(names, row, values, strict=True):
                if value is None and not self._shows(name, given, step):
                    self._refuse("log", f'"{name}"', given, "a number or a tensor of one element")
            pairs = [pair for pair in zip(names, values, strict=True) if pair[1] is not None]
            names, values = tuple(name for name, _ in pairs), [value for _, value in pairs]
        item = (step, monotonic_ns() + reporter.offset_ns, names, *values)
        if on_device:
            reporter.stage(item)
        elif values:
            reporter.put(item, True)

    def _shows(self, name: str, given: Any, step: int) -> bool:
        """Queue an image, histogram, text or table, or a list of them; return whether it is one."""
        media = sys.modules.get("tocsin.media")
        found = given if isinstance(given, (list, tuple)) else [given]
        if media is None or not found or not all(isinstance(one, media.Media) for one in found):
            return False
        for at, one in enumerate(found):
            self._reporter.show(name if one is given else f"{name}/{at}", one, step)
        return True

    def step(self, *given: Any, step: int | None = None, **values: Any) -> None:
        """Report one step, for graphed or compiled loops, custom optimizers, XLA, DeepSpeed, JAX and NumPy.

        The first call stops automatic records, so that no step is recorded twice. If exactly one step was
        captured before that call, the call refers to the same step, and only new values are added.

        Args:
            given: The loss, a mapping, or a name and its value; then optionally the step.
            step: Number of the step; default: the one after the previous call's.
            values: Floats, or tensors of one element on any device, such as ``loss=x, lr=y``.
        """
        reporter = self._reporter
        if reporter.off:
            return
        try:
            if given:
                if given[0] is not None and not isinstance(given[0], (str, Mapping)):
                    given = ("loss", *given)
                found, step = self._arguments("step", given, step, values)
                values = dict(found)
            if self._steps.is_captured:
                values = self._use_explicit_steps(step, values)
            if step is not None and (step := self._step_of(step)) is None:
                return
            is_first = not self._steps.is_explicit
            at = self._steps.report(step)
            now, paused = reporter.now_ns(), reporter.paused_ns
            if is_first and self._ledger is None:
                reporter.put_event("preflight", UNSEEN, at)
            if not is_first and "step_time" not in values:
                values["step_time"] = (now - self._last_ns - (paused - self._last_paused)) * 1e-9
            self._last_ns, self._last_paused = now, paused
            if self.on_log is not None:
                self.on_log(at, values, values.values())
            self._take_mixed(at, self._name(tuple(values)), values.values())
            self._actions.stepped(at)
            reporter.deliver_messages()
        except Exception as error:
            reporter.report_error("step", error)

    def announce_steps(self, *, is_scaled: bool = False) -> None:
        """Stop automatic records before the first call of :meth:`step`.

        Args:
            is_scaled: Whether the script scales the loss without a GradScaler of torch.
        """
        try:
            if self._steps.is_captured:
                self._use_explicit_steps(None, {"scale": 1.0} if is_scaled else {})
        except Exception as error:
            self._reporter.report_error("announce_steps", error)

    def scale_losses(self, factor: Any) -> None:
        """Record the sum of the losses since the last step, times ``factor``, as the loss of the step.

        For scripts that backpropagate sums over tokens and multiply the gradients by ``1 / tokens`` before
        the step.

        Args:
            factor: What the gradients are multiplied by: a float or a tensor of one element.
        """
        try:
            if self._steps.is_captured:
                self._ledger.scale_losses(factor)
        except Exception as error:
            self._reporter.report_error("scale_losses", error)

    def _use_explicit_steps(self, step: int | None, values: dict[str, Any]) -> dict[str, Any]:
        """Stop automatic records; return the values to report for this step."""
        same = self._steps.use_explicit_steps(step)
        self._ledger.on_explicit_steps("scale" in values)
        self._reporter.names = {}
        captured = self._reporter.captured
        return {name: value for name, value in values.items() if name not in captured} if same else values

    def evaluate(
        self,
        *given: Any,
        goal: str | Mapping[str, str] | None = None,
        unit: str | Mapping[str, str] | None = None,
        step: int | None = None,
        **values: Any,
    ) -> None:
        """Report evaluation metrics as ``val/<name>``.

        Args:
            given: A mapping, or a name and its value; then optionally the step.
            goal: ``"max"`` or ``"min"`` for all of these metrics, or a mapping from their names.
            unit: Unit of all of these metrics, such as ``"dB"``, or a mapping from their names.
            step: The step; default: the current one.
            values: Floats, or tensors of one element on any device.
        """
        try:
            metrics: Mapping[str, Any] = values
            if given:
                metrics, step = self._arguments("evaluate", given, step, values)
            for name in metrics:
                self._report_goal(str(name), _of(goal, name), _of(unit, name))
            self.log({f"val/{name}": value for name, value in metrics.items()}, step=step)
        except Exception as error:
            self._reporter.report_error("evaluate", error)

    def _report_goal(self, name: str, goal: Any, unit: Any) -> None:
        if (goal or unit) and self._goals.get(name) != (goal, unit):
            self._goals[name] = (goal, unit)
            self.event("metric", name=f"val/{name}", goal=goal, unit=unit)

    # -- events, phases and checks

    def event(self, kind: str, /, *given: Any, step: int | None = None, **data: Any) -> None:
        """Report an event, such as ``run.event("checkpoint", path=...)``.

        Args:
            kind: Kind of the event. Rules read ``checkpoint``, ``phase`` and others; any text is possible.
            given: A mapping with the data; then optionally the step.
            step: The step; default: the current one.
            data: Data of the event: text, numbers, lists and mappings.
        """
        reporter = self._reporter
        if reporter.off:
            return
        try:
            if given:
                found, step = self._arguments("event", given, step, data)
                data = dict(found)
            at = self.current_step if step is None else self._step_of(step)
            reporter.put_event(text(kind), reporter.redact.data(plain(data)), at, may_wait=True)
            reporter.start()
        except Exception as error:
            reporter.report_error("event", error)

    def data(self, *given: Any, **identifiers: Any) -> None:
        """Name the data sets of this run, so that an incident shows whether they changed.

        For example, call ``run.data(train="c4@2024-03", val="pile-val")``. Later calls add or replace names.

        Args:
            given: A mapping of names to identifiers.
            identifiers: An identifier of the version of each data set: a string, a number or a mapping
                such as ``{"path": path, "revision": "v3", "rows": 1_000_000}``.
        """
        reporter = self._reporter
        if reporter.off:
            return
        try:
            found = identifiers
            if given:
                mapping, _ = self._arguments("data", given, None, identifiers)
                found = dict(mapping)
            if found:
                reporter.put_event(ENVIRONMENT, {"data": reporter.redact.data(plain(found))}, may_wait=True)
        except Exception as error:
            reporter.report_error("data", error)

    def _configured(self, changed: dict[str, Any]) -> None:
        """Report changed settings. The handshake, which the sender's thread builds, gets a new mapping."""
        try:
            changed = self._reporter.redact.data(changed)
            self._run_info.config = {**(self._run_info.config or {}), **changed}
            self._reporter.put_event(ENVIRONMENT, {"config": changed}, may_wait=True)
        except Exception as error:
            self._reporter.report_error("config", error)

    def _summarized(self, changed: dict[str, Any]) -> None:
        try:
            data = {"summary": self._reporter.redact.data(changed)}
            self._reporter.put_event(ENVIRONMENT, data, may_wait=True)
        except Exception as error:
            self._reporter.report_error("summary", error)

    def checkpoint(self, path: Any, *, step: int | None = None) -> None:
        """Report a checkpoint that was written by other means than torch, safetensors or a framework.

        Call it once the checkpoint is complete. tocsin never opens the file.

        Args:
            path: The file or directory, or the URL of an object store.
            step: The newest step whose update it contains; default: the current one.
        """
        reporter = self._reporter
        if reporter.off:
            return
        try:
            at = None if step is None else self._step_of(step)
            if (found := path_of(path)) is None:
                self._refuse("checkpoint", "path", path, "a path")
            else:
                reporter.checkpoints.saved(found, by="run.checkpoint", step=at)
                reporter.start()
        except Exception as error:
            reporter.report_error("checkpoint", error)

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Mark a phase without steps, such as ``with run.phase("eval"):``.

        The time in a phase does not count as step time, and is not reported as a stall.

        Args:
            name: Name of the phase, such as ``eval`` or ``checkpoint``.
        """
        name = text(name)
        self.event("phase", name=name, state="begin")
        began, outer = self._reporter.now_ns(), bool(self._phases)
        self._phases.append(name)
        try:
            yield
        finally:
            self._phases.pop()
            if not outer:
                self._reporter.paused_ns += self._reporter.now_ns() - began
            self.event("phase", name=name, state="end")

    def expect(self, what: str, *, steps: Any = None) -> None:
        """Declare an intended change, so that it raises no alert.

        Args:
            what: The rule that would report it, such as ``lr-restart``, or its family, such as ``lr``.
            steps: Steps at which it happens; default: any step.
        """
        try:
            self.event("expect", what=what, steps=wholes(steps))
        except Exception as error:
            self._reporter.report_error("expect", error)

    def batch(self, identifier: Any) -> None:
        """Name the data of the next step. The name is sent if that step fails or is unusual.

        Call it once per step, as soon as the batch is loaded: without a DataLoader, the time from the
        previous step to this call counts as waiting for data (``data_time``).

        Args:
            identifier: Anything that identifies the batch: a text, a number, or a mapping such as
                ``{"shard": 12, "index": 3}``.
        """
        self._batches.named = identifier
        if self._reporter.off:
            return
        try:
            self._reporter.add_observer(self._report_batch)
            if self._ledger is not None:
                self._mark_data()
        except Exception as error:
            self._reporter.report_error("batch", error)

    def _mark_data(self) -> None:
        from ..capture.data_loading import marked

        marked(self._ledger)

    def check(
        self,
        batch: Any = None,
        losses: Mapping[str, Any] | None = None,
        *,
        weights: Any = None,
        step: int | None = None,
    ) -> None:
        """Check inputs, loss terms or weights for non-finite values, before they reach the backward.

        Args:
            batch: A tensor, or tensors in lists and mappings; reported as ``nonfinite/batch`` (1 or 0).
            losses: The named terms of the loss, reported as ``loss/<name>``.
            weights: A module, or tensors; reported as ``nonfinite/weights`` (1 or 0). All are read.
            step: The step; default: the current one.
        """
        try:
            values: dict[str, Any] = {f"loss/{name}": value for name, value in (losses or {}).items()}
            if losses:
                self._report_terms(tuple(map(str, losses)))
            if batch is not None:
                values["nonfinite/batch"] = nonfinite(batch)
            if weights is not None:
                self._stop_weights_check()
                read = getattr(weights, "parameters", None)
                values["nonfinite/weights"] = nonfinite(list(read()) if callable(read) else weights)
            flag = values.get("nonfinite/batch")
            if type(flag) is float and flag:
                at = self._steps.coming(tuple(values)) if step is None else step
                self.event("nonfinite-input", step=at, inputs=describe(batch))
            self.log(values, step=step)
        except Exception as error:
            self._reporter.report_error("check", error)

    def _stop_weights_check(self) -> None:
        """Stop the hook's own check of the weights, because the script checks them."""
        weights = getattr(self._ledger, "weights", None)
        if weights is not None:
            weights.stop()

    def _report_terms(self, names: tuple[str, ...]) -> None:
        """Report the names of loss terms before their values, because ``loss/<name>`` may also be an
        optimizer's.
        """
        if not self._terms.issuperset(names) and len(self._terms) < NAMES:
            self._terms.update(names)
            self.event("loss-components", names=list(names))

    def _report_batch(self, item: tuple[Any, ...]) -> None:
        """Report the batch of a record that indicates a problem."""
        named = self._batches.take_if_bad(item)
        if named is not None:
            self._reporter.put_event("batch", {"id": self._reporter.redact.data(plain(named))}, item[0])

    # -- alerts

    def alert(
        self,
        title: str,
        text: str = "",
        severity: str = "warning",
        *,
        step: int | None = None,
        resolved: bool = False,
        level: Any = None,
        wait_duration: Any = None,
    ) -> None:
        """Raise an alert of the script. It is notified like those of the rules.

        It fires until the script resolves it, the run ends or someone acknowledges it. A call with the same
        title changes the alert that fires; another title is another alert.

        Args:
            title: What happened, such as ``"validation loss rises"``. It identifies the alert, so put numbers
                that change into the text.
            text: Details; may change from call to call.
            severity: ``"info"``, ``"warning"`` or ``"critical"``.
            step: The step; default: the current one.
            resolved: True resolves the alert of this title.
            level: Another name of ``severity``, as in W&B: ``INFO``, ``WARN`` or ``ERROR``.
            wait_duration: Accepted as in W&B, without effect: an alert that fires is not raised again.
        """
        try:
            given = severity if level is None else getattr(level, "value", level)
            chosen = SEVERITIES.get(str(given).lower())
            if chosen is None:
                why = f'severity is "{str(given)[:100]}"'
                expected = '"info", "warning" or "critical"'
                self._warn_once("alert", why, f"{why}, expected {expected}. The alert is a warning.")
            data = {"title": str(title), "text": str(text), "severity": chosen or "warning"}
            self.event("alert", data | ({"resolved": True} if resolved else {}), step=step)
        except Exception as error:  # such as a script's own ``__str__``
            why = f"its title or text cannot be read ({type(error).__name__})"
            self._warn_once("alert", "text", f"{why}. The alert is left out.")

    def on_alert(self, *given: Any, rules: Any = (), severity: str | None = None) -> Any:
        """Decorate a function to be called with each alert of this run, after a step, on the training thread.

        Use ``@run.on_alert``, ``@run.on_alert("scaler-collapse")`` or ``@run.on_alert(severity="critical",
        rules=[...])`` before the first step, because alerts are requested when the run connects. The function
        must not run a collective: other ranks receive the alert at another step, or never.

        Args:
            given: The function, or identifiers of rules.
            rules: Rules whose alerts the function receives; default: all.
            severity: Severity of the alerts that it receives; default: any.
        """
        if len(given) == 1 and callable(given[0]):
            return self.on_alert(rules=rules, severity=severity)(given[0])
        chosen = words((*given, rules))

        def register(handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
            self._alert_handlers.add(handler, chosen, severity)
            self.want_alerts()
            return handler

        return register

    def want_alerts(self) -> None:
        """Ask the server for the alerts of this run, when the run connects."""
        if "alerts" not in self._run_info.wants:
            self._run_info.wants.append("alerts")

    def on_request(self, action: str) -> Callable[[Handler], Handler]:
        """Decorate a function that carries out a request, ``"checkpoint"`` or ``"stop"`` (see ``actions=``).

        It is called with the request on the training thread, at the end of the optimizer's step; with several
        ranks, after the same step on each.

        Args:
            action: ``"checkpoint"`` or ``"stop"``.
        """

        def register(handler: Handler) -> Handler:
            try:
                self._actions.register(action, handler)
            except Exception as error:
                self._reporter.report_error("on_request", error)
            return handler

        return register

    @property
    def requested(self) -> str:
        """``"checkpoint"`` or ``"stop"`` if one is due after the current step, else empty.

        With several ranks it is set after the same step on each.
        """
        try:
            return self._actions.requested
        except Exception as error:
            self._reporter.report_error("requested", error)
            return ""

    def _handle(self, message: Any) -> None:
        if isinstance(message, Request):
            self._actions.take(message)
            return
        if callable(message):
            message()
            return
        self._alert_handlers.call(message)

    # -- the end

    def finish(
        self,
        exit_code: int | None = None,
        quiet: Any = None,
        *,
        state: str = "finished",
        error: BaseException | None = None,
    ) -> None:
        """End the run: stop capturing, and deliver what is left (by default within 3 s).

        Args:
            exit_code: Other than 0 and None: the run failed.
            quiet: Accepted as in W&B, without effect.
            state: ``"finished"`` or ``"failed"``.
            error: Makes it a failed run; its type, message and the end of its traceback are sent.
        """
        if self._ended:
            return
        self._ended = True
        shutdown.unregister(self)
        try:
            self._reporter.detach()
            facts = None if error is None else shutdown.error_facts(error, self._reporter.redact)
            failed = error is not None or state == "failed" or bool(exit_code)
            if not failed and self._ledger is not None:
                self._ledger.on_finished()
            state = "failed" if failed else "finished"
            self._reporter.close(state, facts)
            if self._card is not None:
                self._card.update()
            elif self.problems is not None and (failed or self._reporter.has_started or has_children()):
                self._write_end(state)
        except Exception as problem:
            LOG.warning("tocsin: finishing the run failed: %r", problem)

    def replace(self) -> None:
        """End the run because another one begins; without a trace if nothing was recorded in a notebook.

        Its cell was executed again before the training.
        """
        backwards = 0 if self._ledger is None else self._ledger.backwards
        if backwards or self._reporter.has_started or has_children() or not self._is_in_shell():
            self.finish()
            return
        shutdown.unregister(self)
        try:
            self._reporter.detach()
            self._reporter.state = "finished"
            self.forget()
            self._reporter.sender.forget()
            if self._card is not None:
                self._card.update()
        except Exception as problem:
            LOG.warning("tocsin: replacing the run failed: %r", problem)

    def _is_in_shell(self) -> bool:
        """Return whether this is a notebook or a terminal with IPython."""
        if "IPython" not in sys.modules:
            return False
        from ..notebook import interactive_shell

        return interactive_shell() is not None

    def _write_end(self, state: str) -> None:
        """Write the last line in the terminal: what was sent, what the server found, and the run's page."""
        sender: Any = self._reporter.sender
        unsent = f", {counted(sender.unsent, 'record')} not sent yet" if sender.unsent else ""
        dropped = sender.stats.dropped
        lost = f", {counted(dropped, 'record')} lost" if dropped else ""
        verb = "recorded" if unsent or lost else "sent"
        summary = f"{counted(self._reporter.steps, 'step')} {verb}{lost}{unsent}"
        if not self._reporter.steps and has_children():
            summary = "its child processes send the steps"
        is_checked = sender.run and self._reporter.steps  # nothing is checked without a connection or a step
        found = f", {self.problems}" if is_checked else ""
        console.write(f'"{self.name}" {state}: {summary}{found}. {self.url}')

    def recorded(self) -> int:
        """Return the number of records so far."""
        return self._reporter.records

    def forget(self) -> None:
        """In a forked child: discard everything, because the run belongs to the parent."""
        self._ended = True
        self._reporter.discard()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_regular = isinstance(error, GeneratorExit) or (
            isinstance(error, SystemExit) and error.code in (None, 0)
        )
        self.finish(error=None if is_regular else error)

    async def __aenter__(self) -> Run:
        return self

    async def __aexit__(self, *raised: Any) -> None:
        """End the run as ``with`` does, on the thread of the event loop, because capture belongs to it."""
        self.__exit__(*raised)


def _of(given: Any, name: Any) -> Any:
    """Return what was given for all metrics, or for this one."""
    return given.get(name) if isinstance(given, Mapping) else given
