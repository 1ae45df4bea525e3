"""Start capture for a run: at once, or when the script imports torch later."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from ..core.handshake import RunInfo, versions
from ..lifecycle.child_processes import keep_own_rank
from ..lifecycle.import_hook import when_imported
from .reporter import RunReporter
from .run import Run


def attach(reporter: RunReporter, run_info: RunInfo, *, patch: bool, model: Any, **options: Any) -> Any:
    """Start capture if torch is imported; send an ``attached`` event with what was found.

    Args:
        reporter: Receives records and events.
        run_info: The run's data for the handshake.
        patch: Whether to patch torch at all.
        model: The model to describe, or None.
        options: Parameters of the ledger.

    Returns:
        The ledger, or None without capture.
    """
    if not patch or "torch" not in sys.modules:
        run_info.versions = versions()
        reporter.put_event("attached", {"signals": {}})
        return None
    from .. import capture
    from ..capture.descriptions import Describer
    from ..capture.evaluation import Evaluation
    from ..capture.layer_norms import LayerNorms
    from ..capture.manual_updates import ManualUpdates
    from ..capture.overhead import OverheadMeter
    from ..capture.restored_steps import restore
    from ..capture.scaler import report_last_scales
    from ..capture.weights import WeightsCheck
    from ..preflight import Preflight

    ledger = capture.Ledger(reporter, **options)
    layers = LayerNorms(reporter, rank=run_info.identity.writer.rank)
    ledger.layers = layers
    ledger.checkpoints = reporter.checkpoints
    ledger.weights = WeightsCheck(ledger)
    reporter.on_end.append(ledger.release)
    reporter.on_end.append(lambda: report_last_scales(ledger))
    reporter.on_close.append(layers.drain)
    reporter.on_off.append(lambda: capture.detach(ledger))
    reporter.on_close.append(lambda: capture.detach(ledger))  # again, for patches that were in use before
    Preflight(reporter, ledger, model)
    reporter.on_end.append(Evaluation(ledger).end)
    if not options.get("optimizers"):  # otherwise other optimizers are not watched
        reporter.on_end.insert(0, ManualUpdates(ledger).finish)
    reporter.on_off.append(OverheadMeter(ledger, reporter.waiting).stop)
    described = Describer(reporter, ledger, run_info, versions).described
    restore(ledger)
    data = {
        "optimizers": described["optimizers"],
        "scalers": described["scalers"],
        "torch": run_info.versions["torch"],
        "signals": capture.attach(ledger),
    }
    if model is not None:
        data["model"] = _described_model(model)
    reporter.put_event("attached", data)
    return ledger


def attach_late(run: Run, reporter: RunReporter, run_info: RunInfo, **options: Any) -> None:
    """Start capture after torch was imported late, unless the script reports its steps itself."""
    if reporter.off or run.reports_steps:
        return
    try:
        run.captured_by(attach(reporter, run_info, **options))
        if reporter.has_started:
            for begin in reporter.on_start:
                begin()
    except Exception as error:
        reporter.detach()
        reporter.report_error("attach", error)


def _described_model(model: Any) -> dict[str, Any]:
    from ..capture.discovery import size_of

    parameters = [size_of(param) for param in model.parameters()]
    return {"class": type(model).__name__, "parameters": sum(parameters), "tensors": len(parameters)}


def follow_torch(
    run: Run,
    reporter: RunReporter,
    run_info: RunInfo,
    share: Callable[[], Callable[[], None]] | None,
    capture: Mapping[str, Any],
) -> None:
    """Share the run with child processes once torch is imported; start capture then, if it is late.

    ``share`` shares the run and returns the function that stops it; None if this process must not.
    """

    def share_with_children() -> None:
        if share is not None:
            reporter.on_off.append(share())
            if reporter.has_started:
                keep_own_rank()
            reporter.on_start.append(keep_own_rank)

    def torch_imported() -> None:
        attach_late(run, reporter, run_info, **capture)
        share_with_children()

    if "torch" in sys.modules:
        share_with_children()
    elif capture["patch"]:
        reporter.on_off.append(when_imported("torch", torch_imported))
