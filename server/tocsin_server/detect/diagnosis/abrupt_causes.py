"""Causes of a loss that changes from one record to the next.

They differ in what stayed unchanged. A learning rate that is too high makes loss and gradient norm
climb over several updates. Different data raise both at once, with unchanged weights. A loss that is
summed or logged differently changes while the gradients stay as they were.
"""

from __future__ import annotations

import math

from tocsin_server.core.models import Evidence, Remedy
from tocsin_server.detect.diagnosis import remedies as r
from tocsin_server.detect.diagnosis.case import LOSS_SHAPE, DiagnosisContext
from tocsin_server.detect.diagnosis.cause import DATA, FORWARD, MEASUREMENT, Cause, Ranked
from tocsin_server.detect.interface.formatting import number
from tocsin_server.detect.interface.history import median

KNOWN, STAYED = 20, 5
"""Minimum number of losses before the onset and since."""
AT_ONCE = 0.5
"""Minimum share of the rise that happens at the first record."""
NEAR = 0.1
"""Share of the rise up to which a record is still at the usual level."""
RESCALED, SAME_NORM = 4.0, 1.5
"""Minimum factor of change of the loss, and maximum factor of change of the gradient norm."""
PAIRS = 3
SAME_SPREAD = 3.0
"""Maximum factor between the spreads of a loss that is only logged differently."""

LOG_WHAT_IS_TRAINED = Remedy(
    "Log the tensor that backward() is called on, with the same reduction throughout the run.",
    "loss.backward()\nrun.step(loss=loss.detach(), grad_norm=norm)",
)
COMPARE_DATA = Remedy(
    "Compare the batches before and after that step: shard, labels, scaling of the inputs.",
    "for batch in (batch_before, batch_after):\n"
    "    for value in batch:\n"
    "        print(value.dtype, value.shape, value.float().mean(), value.float().std(),\n"
    "              value.min(), value.max())",
)


def _finite(case: DiagnosisContext, base: str, *, since: bool = False) -> list[float]:
    pairs = case.since(base) if since else case.before(base)
    return [value for _, value in pairs if math.isfinite(value)]


def _each_step(case: DiagnosisContext) -> bool:
    """Return whether the records around the onset are one step apart, so that no climb is missed."""
    steps = [step for step, _ in [*case.before("loss")[-3:], *case.since("loss")[:2]]]
    return len(steps) == 5 and steps[-1] - steps[0] == 4


def other_data(case: DiagnosisContext) -> Cause | None:
    """Detect a loss that jumps from one step to the next without an earlier sign.

    With overflows, a loss that stays there is not evidence: weights whose updates are skipped do not
    recover.
    """
    if case.rule not in LOSS_SHAPE | {"grad-explosion"} or case.numeric:
        return None
    if case.lr_event is not None or not _each_step(case):
        return None
    before, after = _finite(case, "loss"), _finite(case, "loss", since=True)
    if len(before) < KNOWN or len(after) < STAYED or case.norm_rose is not None:
        return None
    usual, now = median(before), median(after[: 2 * STAYED])
    if usual is None or now is None or case.kind("weights-reset") is not None:
        return None
    half, near = usual + AT_ONCE * (now - usual), usual + NEAR * (now - usual)
    while after[0] <= near and len(after) > STAYED:  # the rule may have set the onset one usual record early
        after = after[1:]
    if now <= usual or max(before) > half or min(after[:STAYED]) < half:
        return None
    return Cause(
        "other-data",
        f"Likely different data: the loss went {number(usual)} → {number(after[0])} in one "
        "step and stays there, with no earlier sign in the records.",
        "different data: a bad shard, wrong labels, or inputs scaled differently",
        (COMPARE_DATA, r.CHECK_BATCH, r.go_back(case), r.SKIP_DATA),
        "Evaluate the new batches with the weights from before the onset: the loss is high.",
        (
            Evidence("loss before", usual, "median", None),
            Evidence("loss of the first record", after[0], "", case.onset),
        ),
    )


def loss_rescaled(case: DiagnosisContext) -> Cause | None:
    """Detect a loss that is many times its usual value while the gradients of the same steps are not."""
    if case.rule not in LOSS_SHAPE | {"loss-level-shift"}:
        return None
    losses = median(_finite(case, "loss")), median(_finite(case, "loss", since=True))
    before, after = _finite(case, "grad_norm"), _finite(case, "grad_norm", since=True)
    norms = median(before), median(after)
    if min(len(before), len(after)) < 2 * STAYED or None in (*losses, *norms):
        return None
    (usual, now), (norm, norm_now) = losses, norms
    if not (usual and now and norm and norm_now) or min(usual, now, norm, norm_now) <= 0:
        return None
    if not _same_shape(case):
        return None
    held = max(before) <= SAME_NORM * min(before)  # a norm measured after clipping is no evidence
    if held or now < RESCALED * usual or norm_now > SAME_NORM * norm:
        return None
    return Cause(
        "loss-rescaled",
        f"Likely a change of the logged loss: it is {number(round(now / usual, 1))} times "
        f"what it was, but the gradient norm did not rise ({number(norm)} before, "
        f"{number(norm_now)} since). A sum may have replaced a mean, or a term without "
        "gradient was added.",
        "a loss that is logged differently",
        (LOG_WHAT_IS_TRAINED,),
        "Print the tensor that backward() is called on: it is at its old level.",
        (
            Evidence("loss before", usual, "median", None),
            Evidence("loss since", now, "median", None),
            Evidence("grad norm before", norm, "median", None),
            Evidence("grad norm since", norm_now, "median", None),
        ),
    )


def _same_shape(case: DiagnosisContext) -> bool:
    """Return whether the losses spread as before, relatively (another scale) or absolutely (a constant)."""
    before, after = spread(_finite(case, "loss")), spread(_finite(case, "loss", since=True))
    if None in (before, after):
        return False
    return any(
        0 < one <= SAME_SPREAD * other and 0 < other <= SAME_SPREAD * one
        for one, other in zip(before, after, strict=True)
    )


def spread(values: list[float]) -> tuple[float, float]:
    """Return the median deviation of values from their median, absolute and relative to it."""
    middle = median(values) or 0.0
    deviation = median([abs(value - middle) for value in values]) or 0.0
    return deviation, deviation / abs(middle) if middle else 0.0


def cut_off(case: DiagnosisContext) -> Cause | None:
    """Detect a loss that jumps and stays while the gradient norm falls: less of the model is trained.

    A norm that hardly changes is no evidence: it may be measured after clipping.
    """
    if case.rule not in LOSS_SHAPE | {"loss-level-shift"} or case.numeric or case.lr_event is not None:
        return None
    losses = median(_finite(case, "loss")), median(_finite(case, "loss", since=True))
    norms = median(_finite(case, "grad_norm")), median(_finite(case, "grad_norm", since=True))
    if len(_finite(case, "grad_norm", since=True)) < 2 * STAYED or None in (*losses, *norms):
        return None
    (usual, now), (norm, norm_now) = losses, norms
    if not (usual and now and norm and norm_now) or min(usual, now, norm, norm_now) <= 0:
        return None
    if now < RESCALED * usual or SAME_NORM * norm_now > norm or _same_shape(case):
        return None
    return Cause(
        "cut-off",
        f"Likely a part of the model that no longer passes gradients (saturation, dead units, damaged "
        f"weights): the loss went {number(usual)} → {number(now)}, but the gradient norm fell "
        f"{number(norm)} → {number(norm_now)}. Different data usually raise it.",
        "a part of the model that no longer passes gradients",
        (r.go_back(case), r.CHECK_GRAPH, r.lower_lr(case)),
        "Print the outputs of each layer: some are equal for all samples.",
        (
            Evidence("grad norm before", norm, "median", None),
            Evidence("grad norm since", norm_now, "median", None),
        ),
    )


def infinite_term(case: DiagnosisContext) -> Cause | None:
    """Detect an infinite loss, step after step, with finite gradients."""
    if case.rule != "nonfinite-loss" or case.result.kind != "inf":
        return None
    norms = dict(case.since("grad_norm"))
    bad = [step for step, loss in case.since("loss") if math.isinf(loss) and step in norms]
    if len(bad) < PAIRS or not all(math.isfinite(norms[step]) and norms[step] > 0 for step in bad):
        return None
    limit = " (65 504 in fp16)" if case.scaled else ""
    return Cause(
        "infinite-term",
        f"Likely one term of the loss that overflows{limit}: the loss is infinite "
        "at every step, but the gradients of the same steps are finite "
        f"({number(norms[bad[-1]])}), so the rest of the model still trains.",
        "one term of the loss that overflows",
        (r.FP32_ISLAND, r.FIND_MODULE, LOG_WHAT_IS_TRAINED, r.BF16),
        "Compute each term in float32 at such a step: all are finite.",
        (Evidence("grad norm at the infinite losses", norms[bad[-1]], "", bad[-1]),),
    )


CANDIDATES: tuple[Ranked, ...] = (
    (MEASUREMENT, loss_rescaled),
    (DATA, cut_off),
    (DATA, other_data),
    (FORWARD, infinite_term),
)
