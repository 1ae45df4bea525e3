"""Candidate causes of an episode that several rules share.

They are ranked: instrumentation, data, a change of learning rate, the scaler, forward overflow,
gradients, optimization, hardware. Each candidate checks the context and returns a cause, or None
without evidence.
"""

from __future__ import annotations

import math

from tocsin_server.core.models import Evidence, Remedy
from tocsin_server.detect.diagnosis import remedies as r
from tocsin_server.detect.diagnosis.case import LOSS_SHAPE, NUMERIC, DiagnosisContext
from tocsin_server.detect.diagnosis.cause import (
    DATA,
    FORWARD,
    GRADIENT,
    HARDWARE,
    MEASUREMENT,
    OPTIMISATION,
    RATE,
    RUNAWAY,
    SCALER,
    Cause,
    Ranked,
)
from tocsin_server.detect.interface.formatting import number, scale
from tocsin_server.detect.interface.history import median
from tocsin_server.detect.interface.rule import CRITICAL

FIND_SATURATED = Remedy(
    "Find the first module whose output is the same for every sample or at its limit.",
    "def spread(module, args, out):\n"
    "    if torch.is_tensor(out):\n"
    "        print(type(module).__name__, out.min().item(), out.max().item(), out.float().std(0).max())\n"
    "for module in model.modules():\n"
    "    module.register_forward_hook(spread)",
)
LOG_TERMS = Remedy(
    "Log each term of the loss without its weight.",
    "run.check(losses={'reconstruction': reconstruction, 'kl': kl})",
)
NAME_BATCHES = Remedy(
    "Name the batch of each step, so that alerts can say which shard or sample recurs.",
    "run.batch({'shard': shard, 'index': index})",
)
BOUND_SOFTLY = Remedy(
    "Bound the outputs with layer norm or a gradient penalty instead of a hard clamp, "
    "whose gradient is 0 beyond its bounds."
)


def norm_measured_late(case: DiagnosisContext) -> Cause | None:
    if case.rule != "zero-grad-norm" or case.result.kind == "real":
        return None
    if case.result.kind == "accumulation":
        return Cause(
            "accumulation",
            (
                "Likely gradient accumulation: the norm is logged at each micro-step but measured "
                "only at updates."
            ),
            "gradient accumulation, logged at every micro-step",
            (r.UPDATE_STEPS_ONLY,),
            "Check the script: it accumulates gradients.",
        )
    return Cause(
        "measurement",
        "Likely a measurement error: the norm is measured after zero_grad, or at a "
        "micro-step without an update. No loss is logged to check it against.",
        "a norm measured after zero_grad",
        (r.NORM_BEFORE_ZERO, r.UPDATE_STEPS_ONLY),
        "Print the norm directly after backward(): it is above 0.",
    )


def saturated(case: DiagnosisContext) -> Cause | None:
    """Detect a gradient that existed until the onset: the graph is intact but a limit was reached."""
    if case.rule != "zero-grad-norm" or case.result.kind != "real":
        return None
    usual = median([norm for _, norm in case.before("grad_norm") if 0 < norm < math.inf])
    if usual is None:
        return None
    return Cause(
        "saturated",
        f"Likely saturation: the norm was {number(usual)} before, and since the onset it is "
        "0 while the loss is constant. Outputs are beyond a clamp, or activations "
        "are saturated (sigmoid, tanh, dead ReLUs).",
        "saturation: a clamp, or saturated activations",
        (FIND_SATURATED, r.go_back(case), BOUND_SOFTLY, r.lower_lr(case)),
        "Print the outputs of the last layer: they are equal for all samples, or at a limit.",
        (Evidence("grad norm before", usual, "median", None),),
    )


def no_gradient(case: DiagnosisContext) -> Cause | None:
    if case.rule != "zero-grad-norm" or case.result.kind != "real":
        return None
    return Cause(
        "no-gradient",
        "No gradient reaches the parameters: the loss is constant and the norm is 0. "
        "Likely a detached graph, frozen parameters, or targets for which the loss is always "
        "0.",
        "a detached graph or a loss that is always 0",
        (r.CHECK_GRAPH, Remedy("Check the targets of one batch: a single class, all padding, or all -100.")),
        "Print the gradients after backward(): all are 0 or None.",
    )


def bad_data(case: DiagnosisContext) -> Cause | None:
    if case.kind("nonfinite-input") is None:
        return None
    return Cause(
        "data",
        "The batch itself contains non-finite values.",
        "non-finite values in the batch",
        (r.CHECK_BATCH, r.SKIP_DATA),
        "Load the same batch again: it contains non-finite values.",
    )


def some_batches(case: DiagnosisContext) -> Cause | None:
    """Detect non-finite records between finite ones whose loss scale is as high: the batches differ.

    If the scale is too high, every batch fails until it is lowered. If an operation or the weights leave the
    range of the number format, batches fail more and more often.
    """
    if not case.numeric or case.kind("nonfinite-weights") is not None or case.loss_ran_away is not None:
        return None
    mixed = case.mixed
    if mixed is None:
        return None
    bad, known = mixed
    names = dict(case.context.batches)
    shown = [f"{step} ({names[step]})" if step in names else str(step) for step in bad[:5]]
    steps = f"{', '.join(shown)}{', …' if len(bad) > 5 else ''}"
    return Cause(
        "some-batches",
        f"Likely the data of some batches: {len(bad)} of {known} records since the onset are non-finite, and "
        f"at least as many between them are finite at loss scales no lower. Affected steps: {steps}.",
        "some batches that make loss or gradients non-finite",
        (r.CHECK_BATCH, r.SKIP_DATA, NAME_BATCHES, r.FIND_MODULE),
        "Evaluate an affected batch and the next one with the same weights: only the first is non-finite.",
        (
            Evidence("non-finite records", float(len(bad)), f"of {known}", bad[-1]),
            Evidence("first non-finite steps", ", ".join(shown), "", bad[0]),
        ),
    )


def lr_rose(case: DiagnosisContext) -> Cause | None:
    event = case.lr_event
    if event is None or case.rate_faded or case.rule not in NUMERIC | LOSS_SHAPE | {"grad-explosion"}:
        return None
    step, low, high = event
    times = number(round(high / low, 1))
    again = "; the schedule starts over" if case.restart else ""
    return Cause(
        "lr-rose",
        f"Likely the learning rate: it rose {times}x, {number(low)} → {number(high)}, in the "
        f"{case.onset - step} steps before the onset{again}.",
        f"the learning rate, which rose {times}x before the onset",
        (*((r.CHECK_SCHEDULE,) if case.restart else ()), r.lower_lr(case), r.go_back(case), r.clip(case)),
        "Repeat these steps at the learning rate from before the rise: training stays stable.",
        (
            Evidence("learning rate before", low, "", step),
            Evidence("learning rate at onset", high, "", case.onset),
        ),
        (step, f"Learning rate rises {times}x, {number(low)} → {number(high)}"),
    )


def scaler_not_wired(case: DiagnosisContext) -> Cause | None:
    kind = case.kind("scaler-not-updating")
    if kind is None or not case.numeric:
        return None
    how = (
        "the loop abandons the step before scaler.update()"
        if kind == "abandoned"
        else (
            "scaler.update() is not called, the optimizer is stepped without the scaler, or the "
            "scale is static"
        )
    )
    return Cause(
        "scaler-not-wired",
        f"The scaler is not informed of the overflows, so it cannot back off: {how}.",
        "a scaler whose update() is bypassed",
        (r.WIRE_SCALER,),
        "Print the loss scale after an overflow: it does not change.",
    )


def scale_is_zero(case: DiagnosisContext) -> Cause | None:
    if case.kind("scaler-at-floor") != "zero" or case.rule != "scaler-at-floor":
        return None
    return Cause(
        "scale-zero",
        "The scale has fallen to 0, so unscaling gives NaN and every update is skipped. "
        "Training cannot recover by itself.",
        "a scale of 0, at which every gradient is NaN",
        (r.go_back(case), r.lower_lr(case), r.FIND_MODULE, r.BF16),
        "Print the loss scale for some steps: it stays 0.",
    )


def runaway(case: DiagnosisContext) -> Cause | None:
    """Detect loss or gradients that left their level at about the first overflow: training diverged."""
    if not case.numeric:
        return None
    loss, norm, shape = case.loss_ran_away, case.norm_ran_away, case.shape_first
    if loss is None and norm is None and shape is None:
        return None
    signs, evidence = [], []
    if loss is not None:
        signs.append(f"loss {number(loss[0])} → {number(loss[1])}")
        evidence.append(Evidence("loss before", loss[0], "baseline", None))
        when = "at onset" if case.loss_rose else "soon after onset"
        evidence.append(Evidence(f"loss {when}", loss[1], "", case.onset))
    if norm is not None:
        signs.append(f"gradient norm {number(norm[0])} → {number(norm[1])}")
        evidence.append(Evidence("grad norm before", norm[0], "baseline", None))
        when = "at onset" if case.norm_rose else "soon after onset"
        evidence.append(Evidence(f"grad norm {when}", norm[1], "", case.onset))
    if not signs and shape is not None:
        signs.append(f"{shape.summary[0].lower()}{shape.summary[1:]}")
    if case.lr:
        evidence.append(Evidence("learning rate", case.lr, "", case.onset))
    start = (case.runaway_step, f"Training diverges: {', '.join(signs)}") if loss or norm else None
    if case.rate_faded:
        return Cause(
            "diverged",
            f"Training diverged around the first overflow ({', '.join(signs)}). The learning rate is far "
            "below its peak, so it is not the likely cause.",
            "training that diverged",
            (r.go_back(case), r.clip(case), r.CHECK_BATCH, r.FP32_ISLAND, r.BF16),
            "Resume from a checkpoint before the onset with other batches: it passes that step.",
            tuple(evidence),
            start,
        )
    rate = f" at a learning rate of {number(case.lr)}" if case.lr else ""
    return Cause(
        "lr-too-high",
        f"Likely a learning rate that is too high: training diverged{rate} around the first overflow "
        f"({', '.join(signs)}).",
        "a learning rate that is too high",
        (r.lower_lr(case), r.clip(case), r.go_back(case), r.FP32_ISLAND, r.BF16),
        "Resume from a checkpoint before the onset at a fifth of the learning rate: it passes that step.",
        tuple(evidence),
        start,
    )


def every_scale(case: DiagnosisContext) -> Cause | None:
    if not case.numeric:
        return None
    lowest = case.lowest_bad_scale
    persists = case.kind("nonfinite-grad-norm") == "every-scale"
    if not persists and (lowest is None or lowest > 1.0):
        return None
    at = f" (still at {scale(lowest)})" if lowest is not None else ""
    evidence = () if lowest is None else (Evidence("lowest scale that overflowed", lowest, "", None),)
    if case.steady and case.kind("nonfinite-weights") is None and lowest is not None:
        return Cause(
            "forward-operation",
            f"Loss or gradients are non-finite at every scale{at}, so the forward pass is the "
            "cause, not the scale. Likely one operation that exceeds the range of fp16 (65 504) "
            "or is undefined (FFT, attention logits, norms, exp, division), or input data out of range.",
            "one operation that is non-finite at any scale, or inputs out of range",
            (r.FIND_MODULE, r.FP32_ISLAND, r.BF16, r.go_back(case), r.CHECK_BATCH),
            "Run the forward pass in float32: if it is finite, an operation exceeded the range of fp16.",
            evidence,
        )
    return Cause(
        "forward-nonfinite",
        f"Loss or gradients are non-finite at every scale{at}, so the forward pass is the "
        "cause, not the scale. Likely causes: weights that are too large or NaN, one operation, or "
        "one batch.",
        "a forward pass that is non-finite at any scale",
        (r.go_back(case), r.FIND_MODULE, r.lower_lr(case), r.BF16),
        "Check the newest weights: some are NaN or very large.",
        evidence,
    )


def one_operation(case: DiagnosisContext) -> Cause | None:
    if not case.numeric or (
        case.kind("scaler-overflow-burst") is None and case.kind("scaler-collapse") is None
    ):
        return None
    rise = case.rise("loss")
    flat = f": the loss stays near {number(rise[0])}" if rise is not None else ""
    return Cause(
        "fp16-operation",
        f"Likely one operation that exceeds the range of fp16 (65 504){flat} while the scale "
        "falls, such as FFT, attention logits, norms or exp.",
        "one operation that overflows fp16",
        (r.FP32_ISLAND, r.FIND_MODULE, r.BF16, r.clip(case), r.lower_lr(case)),
        "Run the forward pass in float32: the overflows stop.",
    )


def nan_from_nowhere(case: DiagnosisContext) -> Cause | None:
    if case.rule not in ("nonfinite-loss", "nonfinite-grad-norm", "scaler-at-floor"):
        return None
    before = ": the records before show no sign of it" if case.steady else ""
    return Cause(
        "batch-or-operation",
        f"Likely one batch, or an unprotected log, sqrt or division by 0{before}. Weights that something "
        "other than the optimizer changed (an average, a loaded checkpoint) would look the same.",
        "one batch, or a log, sqrt or division at 0",
        (r.CHECK_BATCH, r.FIND_MODULE, r.go_back(case), r.lower_lr(case)),
        "Evaluate the same batch with the weights from before the step: its loss is non-finite.",
    )


def spike(case: DiagnosisContext) -> Cause | None:
    if case.rule != "loss-spike":
        return None
    norm = case.norm_rose
    if case.result.severity == CRITICAL and case.rate_faded:
        return Cause(
            "stays-high",
            "Likely different data: the loss does not recover, and the learning rate is far below its peak.",
            "different data",
            (r.go_back(case), r.SKIP_DATA, r.clip(case)),
            "Evaluate the new batches with the weights from before the onset: the loss is high.",
        )
    if case.result.severity == CRITICAL:
        return Cause(
            "stays-high",
            "Likely a learning rate that is too high at this point of training, or different "
            "data: the loss does not recover. The records cannot tell which.",
            "a learning rate that is too high, or different data",
            (r.go_back(case), r.lower_lr(case), r.SKIP_DATA, r.clip(case)),
            "Resume from before the onset at a fifth of the learning rate: the loss stays at its level.",
        )
    lead = f" The gradient norm rose first, {number(norm[0])} → {number(norm[1])}." if norm else ""
    rate = "" if case.rate_faded else " or a learning rate that is nearly too high"
    return Cause(
        "spike",
        f"Likely an unusual batch{rate}.{lead}",
        "a single bad batch",
        (
            r.watch(case),
            r.SKIP_DATA,
            r.clip(case),
            r.lower_lr(case, 2.0),
            r.RERUN,
        ),
        "Repeat the step with another data order: no spike.",
    )


def diverging(case: DiagnosisContext) -> Cause | None:
    if case.rule != "loss-divergence":
        return None
    rate = f" ({number(case.lr)})" if case.lr else ""
    if case.result.kind == "slow":
        return Cause(
            "slow-climb",
            "Likely an increasing weight of one term of the loss (a KL warm-up, a penalty, a "
            "curriculum), which is harmless. Data that slowly changes"
            + ("" if case.rate_faded else f" or a learning rate{rate} that is slightly too high")
            + " would look the same.",
            "an increasing weight of one term of the loss",
            (LOG_TERMS, r.CHECK_BATCH, r.lower_lr(case, 2.0), r.go_back(case)),
            "Log each term without its weight: none of them rises.",
        )
    if case.rate_faded:
        return Cause(
            "diverging",
            f"No likely cause stands out: the learning rate{rate} is far below its peak. Different data or "
            "a changed loss remain.",
            "different data or a changed loss",
            (r.go_back(case), r.CHECK_BATCH, r.clip(case)),
            "Evaluate the new batches with the weights from before the onset: the loss is high.",
        )
    return Cause(
        "lr-too-high",
        f"Likely a learning rate{rate} that is too high at this point of training. Data that slowly changes "
        "or an increasing weight of one term would look the same.",
        "a learning rate that is too high",
        (r.lower_lr(case), r.go_back(case), r.clip(case), LOG_TERMS, r.CHECK_BATCH),
        "Resume from a checkpoint before the onset at a fifth of the learning rate: if the loss climbs "
        "again, it is the data or a term.",
    )


def schedule(case: DiagnosisContext) -> Cause | None:
    if case.rule != "zero-lr":
        return None
    skipping = case.kind("nonfinite-grad-norm") is not None or case.kind("nonfinite-loss") is not None
    if case.result.kind == "never" and skipping:
        text = (
            "Every update is skipped, so the schedule never leaves 0; the learning rate is the "
            "consequence, not the cause."
        )
        return Cause("skipped-schedule", text, "skipped updates", (r.FIND_MODULE, r.CHECK_BATCH),
                     "Fix the skipped updates: the learning rate rises above 0.")  # fmt: skip
    return Cause(
        "schedule",
        {
            "dropped": (
                "The schedule, or its replacement, set the learning rate to 0 in the middle of training."
            ),
            "never": "The learning rate was never above 0: the schedule is not stepped, or starts at 0.",
            "faded": "The schedule has ended, and training continues without learning.",
            "tiny": "The schedule nearly ended well before the planned last step.",
        }[case.result.kind],
        "a schedule that ended or was removed",
        (
            r.CHECK_SCHEDULE,
            Remedy(
                "Set the learning rate once and check whether it stays.",
                "for group in optimizer.param_groups:\n    group['lr'] = 1e-4",
            ),
        ),
        "Print optimizer.param_groups: the learning rate is 0.",
    )


def hardware(case: DiagnosisContext) -> Cause | None:
    """Return the cause of last resort: only a repeated step can show a hardware fault."""
    if case.rule not in NUMERIC | LOSS_SHAPE:
        return None
    return Cause(
        "hardware",
        "Nothing in the records explains it, so a hardware fault remains.",
        "a hardware fault, which does not repeat on another device",
        (r.RERUN,),
        "Repeat the step on another device: it succeeds.",
    )


CANDIDATES: tuple[Ranked, ...] = (
    (MEASUREMENT, norm_measured_late), (DATA, bad_data), (DATA, some_batches), (RATE, schedule),
    (RATE, lr_rose), (SCALER, scaler_not_wired), (SCALER, scale_is_zero), (RUNAWAY, runaway),
    (FORWARD, every_scale), (FORWARD, one_operation), (GRADIENT, saturated), (GRADIENT, no_gradient),
    (OPTIMISATION, nan_from_nowhere), (OPTIMISATION, spike), (OPTIMISATION, diverging), (HARDWARE, hardware),
)  # fmt: skip
"""Candidates that several rules share, with their ranks; those of a single rule are in its module."""
