"""Check the model's parameters: frozen, missing from the optimizer, without gradient, shared.

Only flags and identities are read, no values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..core.values import counted
from .autograd_graph import GraphSummary
from .findings import Report, some
from .optimizers import FP16_EPS

MOST = 0.5
"""It is a warning if at least this share of the trained weights gets no gradient."""
CHECKS = ("frozen-parameters", "missing-parameters", "parameters-without-gradient", "shared-weights")


def models_of(modules: Iterable[Any], optimizers: Iterable[Any]) -> list[Any]:
    """Return the outermost modules that have a parameter of the optimizers."""
    owned = {id(param) for one in optimizers for group in one.param_groups for param in group["params"]}
    every = list(modules)
    inner = {id(child) for module in every for child in module.children()}
    outer = [module for module in every if id(module) not in inner]
    return [module for module in outer if any(id(param) in owned for param in module.parameters())]


def named_parameters(models: Iterable[Any]) -> dict[int, tuple[str, Any]]:
    """Return id -> (first name, parameter)."""
    return {id(param): (name, param) for model in models for name, param in model.named_parameters()}


def check_trained(
    models: list[Any], optimizers: Mapping[str, Any], summary: GraphSummary | None, report: Report
) -> None:
    """Find frozen parameters, and parameters that get a gradient but are in no optimizer.

    Parameters without a gradient are not reported as missing: averaged weights (EMA) and target networks are
    copies that the script updates itself.

    Args:
        models: The models.
        optimizers: Optimizers by name.
        summary: Content of the loss's graph, or None.
        report: Receives the findings.
    """
    if not models:
        report.unseen("parameters missing from the optimizer: no model; pass tocsin.watch(model=...)")
        return
    report.checks += ["frozen-parameters", "missing-parameters"]
    known = named_parameters(models)
    owned = {
        id(param) for one in optimizers.values() for group in one.param_groups for param in group["params"]
    }
    frozen = [name for name, param in known.values() if not param.requires_grad]
    if frozen:
        report.add(
            "frozen-parameters", "info", some(frozen), expected="requires_grad",
            got=f"{len(frozen)} of {len(known)} are frozen",
        )  # fmt: skip
    reached = summary.reached if summary is not None else set()
    missing = [
        name
        for key, (name, param) in known.items()
        if param.requires_grad and key not in owned and (key in reached or param.grad is not None)
    ]
    if missing:
        report.add(
            "missing-parameters", "warning", some(missing), expected="in an optimizer",
            got=f"{len(missing)} of {len(known)} get a gradient but are in no optimizer: they never change",
        )  # fmt: skip


def trained_by(optimizers: Iterable[Any]) -> list[Any]:
    """Return the parameters of ``optimizers`` that are not frozen."""
    params = [param for one in optimizers for group in one.param_groups for param in group["params"]]
    return [param for param in params if param.requires_grad]


def without_gradient(stepped: Iterable[Any], summary: GraphSummary | None) -> list[Any]:
    """Return parameters of stepped optimizers without gradient, without state, and outside of the graph."""
    reached = summary.reached if summary is not None else set()
    return [
        param
        for optimizer in stepped
        for group in optimizer.param_groups
        for param in group["params"]
        if param.requires_grad
        and param.grad is None
        and id(param) not in reached
        and not optimizer.state.get(param)
    ]


def check_gradients(idle: list[Any], every: list[Any], names: Mapping[int, str], report: Report) -> None:
    """Report which parameters got no gradient.

    An unused part (a pooler, a head) is information; it is a warning if most of the model gets no gradient.

    Args:
        idle: Those of ``every`` without a gradient.
        every: The parameters that the optimizers step.
        names: Id -> name of a parameter.
        report: Receives the finding.
    """
    from ..capture.discovery import size_of

    report.checks.append("parameters-without-gradient")
    if not idle:
        return
    labels = [names.get(id(param)) or f"shape {tuple(param.shape)}" for param in idle]
    share = sum(map(size_of, idle)) / max(sum(map(size_of, every)), 1)
    is_warning = report.stage != "first-step" and share >= MOST
    report.add(
        "parameters-without-gradient", "warning" if is_warning else "info", some(labels),
        expected="a gradient after backward",
        got=f"none for {counted(len(idle), 'parameter')}, {share:.0%} of the trained weights",
    )  # fmt: skip


def check_shared(models: list[Any], optimizers: Mapping[str, Any], report: Report) -> None:
    """Find weights with two names, Parameters that share memory, and parameters in two optimizers.

    Args:
        models: The models.
        optimizers: Optimizers by name.
        report: Receives the findings.
    """
    report.checks.append("shared-weights")
    for names in _tied(models):
        report.add(
            "shared-weights", "info", " = ".join(names), expected="one name each",
            got=f"{len(names)} names for one Parameter (tied weights)",
        )  # fmt: skip
    for names in _twins(named_parameters(models).values()):
        report.add(
            "shared-weights", "warning", " = ".join(names), expected="one Parameter per weight tensor",
            got=f"{len(names)} Parameters: each update is applied {len(names)} times",
        )  # fmt: skip
    shared = _several(models, optimizers)
    if shared:
        report.add(
            "shared-weights", "info", some(shared), expected="updated by one optimizer",
            got=f"{counted(len(shared), 'parameter')} in several optimizers",
        )  # fmt: skip


def _tied(models: list[Any]) -> list[list[str]]:
    """Return the names of each Parameter in several modules. A module with two names counts as one."""
    names: dict[int, list[str]] = {}
    for model in models:
        for prefix, module in model.named_modules():
            for name, param in module._parameters.items():
                if param is not None:
                    names.setdefault(id(param), []).append(f"{prefix}.{name}" if prefix else name)
    return [several for several in names.values() if len(set(several)) > 1]


def _twins(parameters: Iterable[tuple[str, Any]]) -> list[list[str]]:
    found: dict[Any, list[str]] = {}
    for name, param in parameters:
        place = _place(param)
        if place is not None:
            found.setdefault(place, []).append(name)
    return [names for names in found.values() if len(names) > 1]


def _place(param: Any) -> Any:
    """Return the memory of a parameter, or None if it has none itself (sharded, lazy, meta device)."""
    if hasattr(param, "_local_tensor") or hasattr(param, "materialize"):
        return None
    if param.numel() == 0 or param.device.type == "meta":
        return None
    return (
        param.untyped_storage()._cdata,
        param.storage_offset(),
        param.numel(),
    )  # a transposed view has the same memory


def _several(models: list[Any], optimizers: Mapping[str, Any]) -> list[str]:
    """Return the names of parameters that are in several optimizers, or in one twice."""
    names, count = named_parameters(models), dict[int, int]()
    for optimizer in optimizers.values():
        for group in optimizer.param_groups:
            for param in group["params"]:
                count[id(param)] = count.get(id(param), 0) + 1
    return [names[key][0] if key in names else "a parameter" for key, n in count.items() if n > 1]


def check_module_eps(models: list[Any], summary: GraphSummary | None, report: Report) -> None:
    """Find the script's own modules whose eps is 0 in float16. torch's modules compute in float32.

    Args:
        models: The models.
        summary: Content of the loss's graph, or None.
        report: Receives the findings.
    """
    half_graph = summary is not None and summary.has("float16")
    for model in models:
        for name, module in model.named_modules():
            eps = getattr(module, "eps", None)
            if not isinstance(eps, float) or eps > FP16_EPS or type(module).__module__.startswith("torch."):
                continue
            half = any(str(param.dtype) == "torch.float16" for param in module.parameters(recurse=False))
            if half or half_graph:
                got = f"{eps:g}, which is 0 in float16" + ("" if half else ", if its input is float16")
                subject = f"{name or 'model'} ({type(module).__name__}.eps)"
                severity = "warning" if half else "info"
                report.add("eps-underflow", severity, subject, expected=f"above {FP16_EPS:.1e}", got=got)
