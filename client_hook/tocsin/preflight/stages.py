"""Run the config check at the first backward, the first step, the tenth step, and after fifty clips.

It runs on the training thread, and reads names, flags, settings and metadata, never a tensor's value. A check
that fails is reported as not checkable; nothing is raised into the script.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import perf_counter
from typing import Any

from ..lifecycle.child_processes import has_children
from . import graph_checks, optimizers, parameters, scalers
from .autograd_graph import GraphSummary, summarize_graph
from .clipping import ClipWatch, NormWatch
from .findings import Report

RECHECK = 10
LOSSES = 4
"""Maximum number of different losses whose graphs are examined. A GAN has two."""
AFTER = "after clipping"
"""As in ``capture.optimizer_tracker``, which cannot be imported here because it imports torch."""
BLIND = "gradient rules: the norm is constant because it is measured after clipping, so they cannot fire"


class Preflight:
    """The config check of one run."""

    def __init__(self, reporter: Any, ledger: Any, model: Any = None) -> None:
        self._reporter = reporter
        self._ledger = ledger
        self._model = model
        self._summary: GraphSummary | None = None
        self._later: GraphSummary | None = None
        """Summary of losses that were first seen after the first step."""
        self._graphs: list[Counter[tuple[str, str]]] = []
        self._done = False
        self._scaled = False
        self._scales_itself = False
        self._took = 0.0
        self._seen = 0
        self._clip: ClipWatch | None = None
        self._norms: NormWatch | None = None
        self._idle: set[int] = set()
        ledger.add_inspector(self.see_backward)
        ledger.on_explicit_steps = self.on_explicit_steps
        ledger.on_no_steps = self.no_steps
        ledger.on_finished = self.on_finished
        ledger.step_scheduler.schedule(1, self.first_step)

    def see_backward(self, tensors: Any, scaled: bool) -> None:
        """Examine the losses of the first backwards while their graphs exist; each graph once."""
        began = perf_counter()
        losses = tensors if isinstance(tensors, (tuple, list)) else [tensors]
        self._scaled = self._scaled or scaled
        self._add(summarize_graph([getattr(loss, "grad_fn", None) for loss in losses]))
        self._took += perf_counter() - began

    def _add(self, summary: GraphSummary) -> None:
        """Add a graph with other operations than before: those of a micro-step are the same."""
        self._seen += 1
        if summary.operations not in self._graphs:
            self._graphs.append(summary.operations.copy())
            if self._done:
                self._later = summary if self._later is None else self._later.joined(summary)
            self._summary = summary if self._summary is None else self._summary.joined(summary)
        if len(self._graphs) >= LOSSES or self._seen >= 4 * LOSSES:
            self._stop_inspecting()

    def _stop_inspecting(self) -> None:
        """Stop examining losses."""
        self._ledger.remove_inspector(self.see_backward)

    def on_explicit_steps(self, is_scaled: bool) -> None:
        """Report what is known without steps, because the script reports them.

        Args:
            is_scaled: Whether it also reports a scale, so that it scales the loss without a GradScaler.
        """
        self._scales_itself = is_scaled
        if not self._done:
            self._ledger.alive = None  # outdated: models may have been made since the watch
            self.first_step()

    def no_steps(self, backwards: int, *, has_ended: bool = False) -> None:
        """Report backward passes without a step immediately, because the run may end without a record."""
        report = Report("no-steps", checks=["no-steps"])
        passes = "1 backward pass" if backwards == 1 else f"{backwards:,} backward passes"
        got = f"{passes} and no optimizer step"
        report.add("no-steps", "warning", "training loop", expected="a step of a torch optimizer", got=got)
        self._send(report, 0.0)
        said = f"the run that has ended had {got}" if has_ended else got
        self._reporter.warn(
            f"tocsin: {said}, so no steps are recorded. Call run.step(loss=...) once per step."
        )
        self._reporter.start()

    def on_finished(self) -> None:
        """Report a run that ends without any record, such as functional training."""
        ledger = self._ledger
        if self._done or ledger.quiet or self._reporter.has_started or has_children():
            return
        self.no_steps(ledger.backwards, has_ended=True)

    def first_step(self) -> None:
        """Run the checks of the first step."""
        if self._done:
            return
        began, self._done = perf_counter(), True
        if len(self._ledger.trackers) < 2:
            self._stop_inspecting()
        report, named = Report("first-step"), self._optimizers()
        found = _Found(self._ledger, self._model, named, self._scaled)
        names = parameters.named_parameters(found.models)
        known = {key: name for key, (name, _) in names.items()}  # names only, so that nothing is kept alive
        if self._ledger.layers is not None:
            self._ledger.layers.named(known)
        half = any(str(param.dtype) == "torch.float16" for _, param in names.values())
        stepped = self._stepped()
        idle = parameters.without_gradient(stepped, self._summary)
        trained = parameters.trained_by(stepped)
        self._idle = {id(param) for param in idle}
        _try(report, "loss graph", lambda: graph_checks.check_graph(self._summary, report))
        _try(report, "scaler settings", lambda: scalers.check_scalers(found.scalers, report))
        if not self._scales_itself:
            _try(
                report,
                "need of a scaler",
                lambda: scalers.check_need(self._summary, self._scaled, half, report),
            )
        current = self._current(named)
        _try(report, "learning rates", lambda: optimizers.check_rates(current, report))
        _try(report, "eps", lambda: optimizers.check_eps(current, report))
        _try(report, "eps", lambda: parameters.check_module_eps(found.models, self._summary, report))
        _try(
            report, "parameters", lambda: parameters.check_trained(found.models, named, self._summary, report)
        )
        _try(
            report,
            "shared weights",
            lambda: parameters.check_shared(found.models, self._each_once(named), report),
        )
        _try(report, "gradients", lambda: parameters.check_gradients(idle, trained, known, report))
        self._model = None
        self._send(report, self._took + perf_counter() - began)
        self._ledger.step_scheduler.schedule(2, self._other_losses)
        self._ledger.step_scheduler.schedule(RECHECK, lambda: self._recheck(known, report))
        self._watch_clip()

    def _other_losses(self) -> None:
        """At the second step, check the graphs of losses after the first one, such as the generator's in a
        GAN.
        """
        began = perf_counter()
        self._stop_inspecting()
        later, self._later = self._later, None
        if later is not None:
            report = Report("other-losses")
            _try(report, "loss graph", lambda: graph_checks.check_graph(later, report))
            self._send(report, perf_counter() - began)

    def _recheck(self, names: dict[int, str], first: Report) -> None:
        """At step 10, check rates after a warm-up has begun, and parameters without a gradient.

        What was found at the first step is not reported again.
        """
        began = perf_counter()
        report = Report(f"step-{RECHECK}")
        stepped = self._stepped()
        trained = parameters.trained_by(stepped)
        idle = [
            param for param in parameters.without_gradient(stepped, self._summary) if id(param) in self._idle
        ]
        self._summary = None
        training = {
            name: one for name, one in self._optimizers().items() if any(one is each for each in stepped)
        }
        _try(report, "learning rates", lambda: optimizers.check_rates_still(training, report))
        _try(report, "gradients", lambda: parameters.check_gradients(idle, trained, names, report))
        report.drop_repeated(first)
        self._send(report, perf_counter() - began)

    def _watch_clip(self) -> None:
        primary = self._ledger.primary
        if primary is not None and not primary.user_clips:
            self._norms = NormWatch(lambda: not primary.user_clips, self._norms_done)
            self._reporter.add_observer(self._norms)
        if primary is None or not primary.user_clips:
            return

        def threshold() -> float | None:
            source = primary.reported_source
            return source[-1] if source is not None and source[0] == "clip" else None

        self._clip = ClipWatch(threshold, self._clip_done)
        self._reporter.add_observer(self._clip)

    def _norms_done(self, report: Report | None) -> None:
        if report is not None:
            self._note_constant_norm(report)
            self._send(report, 0.0)
        self._reporter.remove_observer(self._norms)

    def _note_constant_norm(self, report: Report) -> None:
        """Note that rules on gradients see only the threshold."""
        report.unseen(BLIND)
        primary = self._ledger.primary
        if primary is not None:
            primary.norm_timing = AFTER

    def _clip_done(self, report: Report) -> None:
        if any(one.check == "constant-norm" for one in report.findings):
            self._note_constant_norm(report)
        self._send(report, 0.0)
        self._reporter.remove_observer(self._clip)

    def _send(self, report: Report, took_s: float) -> None:
        self._reporter.put_event("preflight", report.data(took_s * 1e3), max(self._ledger.step, 0))

    def _optimizers(self) -> dict[str, Any]:
        """Return all live optimizers by name, or by class before their first step."""
        pairs = [(one.name, one.ref()) for one in self._ledger.trackers.values()]
        find_objects = [(name, optimizer) for name, optimizer in pairs if optimizer is not None]
        return {name or f"{type(one).__name__} {k}": one for k, (name, one) in enumerate(find_objects)}

    def _current(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return those without optimizers that only an earlier training of this process used."""
        stepped = {id(one) for one in self._stepped()}
        return {name: one for name, one in named.items() if id(one) in stepped or not one.state}

    def _each_once(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return those that are not a wrapper or the inner part of another one that has stepped."""
        inside = {
            id(peer.ref())
            for one in self._ledger.trackers.values()
            if one.number
            for peer in self._ledger.peers_of(one)
            if not peer.number
        }
        return {name: one for name, one in named.items() if id(one) not in inside}

    def _stepped(self) -> list[Any]:
        trackers = self._ledger.trackers.values()
        return [one.ref() for one in trackers if one.number and one.ref() is not None]


class _Found:
    """The models and enabled scalers. Models: the one given, or those that own trained parameters."""

    def __init__(self, ledger: Any, model: Any, named: dict[str, Any], scaled: bool) -> None:
        import torch

        from ..capture.live_objects import find_objects
        from ..capture.scaler import scaler_class

        kinds: tuple[type, ...] = (scaler_class(),)
        if ledger.alive is None:
            found = find_objects(kinds if model is not None else (*kinds, torch.nn.Module))
        else:
            found = [one for ref in ledger.alive if (one := ref()) is not None]
            ledger.alive = None
        enabled = [one for one in found if isinstance(one, kinds) and getattr(one, "_enabled", True)]
        self.scalers = {ledger.scaler_name(one): one for one in _of_this_run(enabled, ledger, scaled)}
        modules = [one for one in found if isinstance(one, torch.nn.Module)]
        self.models = [model] if model is not None else parameters.models_of(modules, named.values())


def _of_this_run(scalers: list[Any], ledger: Any, scaled: bool) -> list[Any]:
    """Return the scalers without those of earlier trainings, unless losses are scaled by an unknown one."""
    own = [one for one in scalers if ledger.owns(one)]
    return scalers if scaled and not own else own


def _try(report: Report, what: str, check: Callable[[], None]) -> None:
    """Run a check. If it fails, report that it could not be made."""
    try:
        check()
    except Exception as error:
        report.unseen(f"{what}: {type(error).__name__}: {error}"[:300])
