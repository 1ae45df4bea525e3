"""Measurement errors: a loss or a norm that is non-finite only in the log.

A NaN loss gives NaN gradients, and an update with these gives NaN weights and losses. If one occurs
without the other, the logged value is not the one that was used for training.
"""

from __future__ import annotations

import math

from tocsin_server.core.models import Evidence, Remedy
from tocsin_server.detect.diagnosis.case import DiagnosisContext
from tocsin_server.detect.diagnosis.cause import MEASUREMENT, Cause, Ranked
from tocsin_server.detect.interface.formatting import number

PAIRS = 3
"""Records of a NaN loss with a finite norm that are needed; one if records come at every step."""
SOUND = 5
"""Finite losses after the first NaN norm that are needed; NaN weights show at the next loss."""
LOG_WHAT_IS_TRAINED = Remedy(
    "Log the tensor that backward() is called on, and average finite values only.",
    "loss.backward()\nrun.step(loss=loss.detach(), grad_norm=norm)",
)
TAKE_THE_NORM = Remedy(
    "Measure the norm between backward() and zero_grad(), over all parameters that have a gradient.",
    "loss.backward()\nnorm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)\noptimizer.step()",
)


def loss_misread(case: DiagnosisContext) -> Cause | None:
    """Detect a NaN loss with finite gradients at the same steps."""
    if case.rule != "nonfinite-loss" or case.result.kind != "nan":
        return None
    norms = dict(case.since("grad_norm"))
    bad = [step for step, loss in case.since("loss") if math.isnan(loss) and step in norms]
    known = [norms[step] for step in bad]
    if not known or not all(math.isfinite(norm) and norm > 0 for norm in known):
        return None
    if len(known) < PAIRS and not _each_step(case):
        return None
    return Cause(
        "loss-misread",
        "Likely a logging error: the reported loss is NaN, but the gradients of the same "
        f"steps are finite ({number(known[-1])}), which is impossible for a NaN loss. An "
        "average that includes a NaN, a division by 0, or another tensor was logged.",
        "a loss that is NaN only in the log",
        (LOG_WHAT_IS_TRAINED,),
        "Print the tensor that backward() is called on: it is finite.",
        (Evidence("grad norm at the NaN losses", known[-1], "", bad[-1]),),
    )


def norm_misread(case: DiagnosisContext) -> Cause | None:
    """Detect a NaN norm that is followed by finite losses."""
    if case.rule != "nonfinite-grad-norm" or case.result.kind != "no-scaler" or case.since("scale"):
        return None
    norms = [norm for _, norm in case.since("grad_norm")]
    losses = [loss for _, loss in case.since("loss")][1:]
    if len(losses) < SOUND or not all(map(math.isfinite, losses)) or not all(map(math.isnan, norms)):
        return None
    return Cause(
        "norm-misread",
        "Likely a measurement error: an update with NaN gradients makes the weights NaN, but "
        f"{len(losses)} losses after it are finite. The norm is probably measured without "
        "gradients (after zero_grad, over an empty list), or divided by 0.",
        "a norm that is NaN only in the log",
        (TAKE_THE_NORM,),
        "Print the gradients directly after backward(): they are finite.",
        (Evidence("losses since that are finite", float(len(losses)), "records", None),),
    )


def _each_step(case: DiagnosisContext) -> bool:
    """Return whether the records before the onset came at every step."""
    steps = [step for step, _ in case.before("loss")[-5:]]
    return len(steps) == 5 and steps[-1] - steps[0] == 4


CANDIDATES: tuple[Ranked, ...] = ((MEASUREMENT, loss_misread), (MEASUREMENT, norm_misread))
