"""Check the operations of a loss's graph: masked NaN, clamps, float16 where it overflows. Pure."""

from __future__ import annotations

from .autograd_graph import GraphSummary
from .findings import Report, some

CHECKS = ("masked-values", "clamped-values", "fp16-unsafe")
HALF = ("float16", "complex32")
FFT = ("FftR2C", "FftC2R", "FftC2C")
UNSAFE = (
    "Cdist", "Cosh", "Cumprod", "Cumsum", "Exp", "LinalgVectorNorm", "LogSumExp", "Logsumexp", "Norm", "Pow",
    "Prod", "Reciprocal", "Rsqrt", "Sinh", "Std", "Sum", "Tan", "Var",
)  # fmt: skip
"""Operations that torch's CUDA autocast computes in float32 because float16 (65504 at most) overflows."""
_HARMLESS = ("Expand", "Tanh")
_WHY = {
    "CompiledFunction": "a compiled model shows one node for all of it",
    "CheckpointFunction": "a reentrant checkpoint hides its operations; use_reentrant=False shows them",
}


def check_graph(summary: GraphSummary | None, report: Report) -> None:
    """Add the findings of a graph, and what could not be seen in it."""
    if summary is None:
        report.unseen("loss graph: no backward was seen before the first step")
        return
    _note_unseen(summary, report)
    if summary.nodes == 0:
        return
    report.checks += CHECKS
    if count := summary.count("NanToNum"):
        report.add(
            "masked-values", "warning", "torch.nan_to_num in the loss's graph",
            expected="non-finite values stay visible", got=f"{count} times",
        )  # fmt: skip
    if count := summary.count("Clamp"):
        report.add(
            "clamped-values", "info", "torch.clamp in the loss's graph",
            expected="gradient everywhere", got=f"{count} times",
        )  # fmt: skip
    _check_half(summary, report)


def _check_half(summary: GraphSummary, report: Report) -> None:
    if summary.has("float16"):
        report.unseen(
            "an eps within float16 operations: the graph does not show the numbers that a script adds"
        )
    unsafe = {
        f"{name.removesuffix('0').removesuffix('1').removesuffix('Backward')} x {count} ({dtype})"
        for (name, dtype), count in summary.operations.items()
        if dtype in HALF and _is_unsafe(name)
    }
    if unsafe:
        report.add(
            "fp16-unsafe", "warning", some(sorted(unsafe)),
            expected="float32: their results soon exceed 65504", got="computed in float16",
        )  # fmt: skip
    calm = sum(
        n for (name, dtype), n in summary.operations.items() if name.startswith(FFT) and dtype not in HALF
    )
    if calm and summary.has("float16"):
        report.add(
            "fp16-unsafe", "info", f"FFT x {calm} in float32 next to float16 operations",
            expected="a result that stays in float32", got="sums over all samples: they overflow in float16",
        )  # fmt: skip


def _is_unsafe(name: str) -> bool:
    return name.startswith(FFT) or (name.startswith(UNSAFE) and not name.startswith(_HARMLESS))


def _note_unseen(summary: GraphSummary, report: Report) -> None:
    for name, count in summary.opaque.items():
        why = next(
            (text for start, text in _WHY.items() if name.startswith(start)), "a custom autograd function"
        )
        report.unseen(f"loss graph behind {name} x {count}: {why}")
    if summary.cut:
        report.unseen(f"loss graph: {summary.cut} were examined")
    if not summary.dtypes_known:
        report.unseen("dtypes in the loss's graph: this version of torch does not show them")
    if summary.nodes == 0:
        report.unseen("loss graph: the loss has none")
