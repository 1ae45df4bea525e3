"""Measurement errors: a loss or a norm that is non-finite only in the log.

A NaN loss gives NaN gradients, and an update with these gives NaN weights and losses. If one occurs
without the other, the logged value is not the one that was used for training.
"""

from __future__ import annotations

import math

from tocsin_server.core.models import Evidence, Remedy
from tocsin_server.detect.diagnosis.case import DiagnosisContext
from tocsin_server.detect.diagnosis.cause import MEASUREMENT, Cause, Ranked
from tocsin_server.detect.interface.formatting import count, number

PAIRS = 3
"""Records of a NaN loss with a finite norm that are needed; one if records come at every step."""
SOUND = 5
"""Finite losses after the first NaN norm that are needed; NaN weights show at the next loss."""
LOG_WHAT_IS_TRAINED = Remedy(
    "Log the very tensor that backward() is called on, and average only what is finite.",
    "loss.backward()\nrun.step(loss=loss.detach(), grad_norm=norm)",
)
TAKE_THE_NORM = Remedy(
    "Take the norm between backward() and zero_grad(), over all parameters that have a gradient.",
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
        f"Likely a fault of logging: the loss is NaN on the page, but the gradients of the same steps are "
        f"finite ({number(known[-1])}), which those of a NaN loss never are. What was logged is not what was "
        "trained with: an average that once took a NaN in, a division by a count of 0, or another tensor.",
        "a loss that is NaN in the logging only",
        (LOG_WHAT_IS_TRAINED,),
        "The tensor on which backward() is called is NaN at such a step.",
        (Evidence("grad norm at the NaN losses", known[-1], count(len(known), "record"), bad[-1]),),
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
        f"Likely a fault of measurement: an update with gradients that are NaN makes the weights NaN, but "
        f"{len(losses)} losses after it are finite. The norm is probably taken where there are no "
        "gradients (after zero_grad, over an empty list), or divided by 0.",
        "a norm that is NaN in the logging only",
        (TAKE_THE_NORM,),
        "The script leaves these updates out, or some gradient is NaN directly after backward().",
        (Evidence("losses since that are finite", float(len(losses)), "records", None),),
    )


def _each_step(case: DiagnosisContext) -> bool:
    """Return whether the records before the onset came at every step."""
    steps = [step for step, _ in case.before("loss")[-5:]]
    return len(steps) == 5 and steps[-1] - steps[0] == 4


CANDIDATES: tuple[Ranked, ...] = ((MEASUREMENT, loss_misread), (MEASUREMENT, norm_misread))
