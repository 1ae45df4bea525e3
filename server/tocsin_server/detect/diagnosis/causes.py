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
    "Find the first module that answers every sample alike, or lies at its limit.",
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
BOUND_SOFTLY = Remedy(
    "Bound the outputs by normalisation inside the network (LayerNorm, or a gradient penalty for a critic) "
    "instead of a hard clamp, whose gradient is 0 beyond it."
)


def norm_measured_late(case: DiagnosisContext) -> Cause | None:
    if case.rule != "zero-grad-norm" or case.result.kind == "real":
        return None
    if case.result.kind == "accumulation":
        return Cause(
            "accumulation",
            "Likely gradient accumulation: the norm is logged at each micro-step, but taken at updates only.",
            "gradient accumulation, logged at every micro-step",
            (r.UPDATE_STEPS_ONLY,),
            "The script does not accumulate gradients.",
        )
    return Cause(
        "measurement",
        "Likely a fault of measurement: norms that are exactly 0 are rare; this one is probably taken after "
        "zero_grad, or at a micro-step without update. There is no loss to tell.",
        "the norm is taken after zero_grad",
        (r.NORM_BEFORE_ZERO, r.UPDATE_STEPS_ONLY),
        "A norm taken directly after backward() is 0 too.",
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
        f"Likely saturation: the norm was {number(usual)} before, and since the onset it is exactly 0 while "
        "the loss stands still. Outputs have run into a clamp, or activations are past the point where they "
        "have a slope (a sigmoid or tanh at its end, ReLUs that died).",
        "saturation: a clamp, or activations without a slope",
        (FIND_SATURATED, r.go_back(case), BOUND_SOFTLY, r.lower_lr(case)),
        "The outputs of the last layer differ from sample to sample and lie within their limits.",
        (Evidence("grad norm before", usual, "median", None),),
    )


def no_gradient(case: DiagnosisContext) -> Cause | None:
    if case.rule != "zero-grad-norm" or case.result.kind != "real":
        return None
    return Cause(
        "no-gradient",
        "No gradient reaches the parameters: the loss is constant and the norm exactly 0. Likely a detached "
        "graph, frozen parameters, or targets that make the loss vanish.",
        "a detached graph or a loss that is zero by construction",
        (r.CHECK_GRAPH, Remedy("Look at the targets of one batch: one class only, all padding or all -100.")),
        "Some parameter has a gradient other than 0 after backward().",
    )


def bad_data(case: DiagnosisContext) -> Cause | None:
    if case.kind("nonfinite-input") is None:
        return None
    return Cause(
        "data",
        "The batch itself holds values that are not finite.",
        "values in the batch that are not finite",
        (r.CHECK_BATCH, r.SKIP_DATA),
        "The same batch is finite when it is read again.",
    )


def lr_rose(case: DiagnosisContext) -> Cause | None:
    event = case.lr_event
    if event is None or case.rule not in NUMERIC | LOSS_SHAPE | {"grad-explosion"}:
        return None
    step, low, high = event
    times = number(round(high / low, 1))
    again = "; the schedule starts over" if case.restart else ""
    return Cause(
        "lr-rose",
        f"Likely the learning rate: it rose {times} times, {number(low)} → {number(high)}, "
        f"in the {case.onset - step} steps before the onset{again}.",
        f"the learning rate, which rose {times} times before the onset",
        (*((r.CHECK_SCHEDULE,) if case.restart else ()), r.lower_lr(case), r.go_back(case), r.clip(case)),
        "The same stretch fails again at the learning rate from before the rise.",
        (
            Evidence("learning rate before", low, "", step),
            Evidence("learning rate at onset", high, "", case.onset),
        ),
        (step, f"Learning rate rises {times} times, {number(low)} → {number(high)}"),
    )


def scaler_not_wired(case: DiagnosisContext) -> Cause | None:
    kind = case.kind("scaler-not-updating")
    if kind is None or not case.numeric:
        return None
    how = "the loop abandons the step before scaler.update()" if kind == "abandoned" else (
        "scaler.update() is not called, the optimizer is stepped past the scaler, or the scale is static"
    )  # fmt: skip
    return Cause(
        "scaler-not-wired",
        f"The scaler never hears of the overflows, so it cannot back off: {how}.",
        "a scaler that is not wired: update() is bypassed",
        (r.WIRE_SCALER,),
        "The loss scale halves in the update after an overflow.",
    )


def scale_is_zero(case: DiagnosisContext) -> Cause | None:
    if case.kind("scaler-at-floor") != "zero" or case.rule != "scaler-at-floor":
        return None
    return Cause(
        "scale-zero",
        "The scale has fallen to 0: unscaling gives NaN for ever and every update is skipped. Training does "
        "nothing any more, and cannot recover by itself.",
        "a scale of 0, at which every gradient is NaN",
        (r.go_back(case), r.lower_lr(case), r.FIND_MODULE, r.BF16),
        "An update is taken, and the scale rises above 0.",
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
    rate = f" at a learning rate of {number(case.lr)}" if case.lr else ""
    if case.lr:
        evidence.append(Evidence("learning rate", case.lr, "", case.onset))
    return Cause(
        "lr-too-high",
        f"Likely a learning rate that is too high: training diverged{rate} around the first overflow "
        f"({', '.join(signs)}).",
        "a learning rate that is too high",
        (r.lower_lr(case), r.clip(case), r.go_back(case), r.FP32_ISLAND, r.BF16),
        "With a fifth of the learning rate, from a checkpoint before the onset, it fails at the same step.",
        tuple(evidence),
        (case.runaway_step, f"Training runs away: {', '.join(signs)}") if loss or norm else None,
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
            f"Loss or gradients are not finite at every scale{at}, so it is not the scaling: the forward "
            "pass is not finite. Both were at their usual level until then: likely one operation that "
            "leaves the range of fp16 (65 504) or is undefined; FFT, attention logits, norms, exp and "
            "division are the usual ones.",
            "one operation that is not finite at any scale",
            (r.FIND_MODULE, r.FP32_ISLAND, r.BF16, r.go_back(case), r.CHECK_BATCH),
            "The overflows go on with the whole forward pass in float32.",
            evidence,
        )
    return Cause(
        "forward-nonfinite",
        f"Loss or gradients are not finite at every scale{at}, so it is not the scaling: the forward pass is "
        "not finite. Likely weights that have blown up or hold NaN, else one operation or batch.",
        "a forward pass that is not finite at any scale: weights blown up",
        (r.go_back(case), r.FIND_MODULE, r.lower_lr(case), r.BF16),
        "The newest weights are all finite and the same batch gives a finite loss in float32.",
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
        f"Likely one operation that leaves the range of fp16 (65 504){flat} while the scale falls. "
        "FFT, attention logits, norms and exp are the usual ones.",
        "one operation that overflows fp16",
        (r.FP32_ISLAND, r.FIND_MODULE, r.BF16, r.clip(case), r.lower_lr(case)),
        "The overflows go on with the whole forward pass in float32.",
    )


def nan_from_nowhere(case: DiagnosisContext) -> Cause | None:
    if case.rule not in ("nonfinite-loss", "nonfinite-grad-norm", "scaler-at-floor"):
        return None
    return Cause(
        "batch-or-operation",
        "Loss and gradients were at their usual level until then. Likely one batch, or an operation without "
        "a guard (log, sqrt or division at 0).",
        "one batch, or a log, sqrt or division at 0",
        (r.CHECK_BATCH, r.FIND_MODULE, r.go_back(case), r.lower_lr(case)),
        "The same batch gives a finite loss with the weights from before the step.",
    )


def spike(case: DiagnosisContext) -> Cause | None:
    if case.rule != "loss-spike":
        return None
    norm = case.norm_rose
    if case.result.severity == CRITICAL:
        return Cause(
            "stays-high",
            "The loss does not come back by itself: a learning rate that is too high for this point of "
            "training, or other data from there on. The records do not tell which.",
            "a learning rate that is too high, or other data",
            (r.go_back(case), r.lower_lr(case), r.SKIP_DATA, r.clip(case)),
            "With a fifth of the learning rate, from before the onset, it leaves its level again.",
        )
    lead = f" The gradient norm rose first, {number(norm[0])} → {number(norm[1])}." if norm else ""
    return Cause(
        "spike",
        f"Likely a batch that meets the present weights badly, or a learning rate at its limit.{lead}",
        "a single bad batch",
        (r.WATCH, r.SKIP_DATA, r.clip(case), r.lower_lr(case, 2.0), r.RERUN),
        "The same step, run again with another order of the data, spikes again.",
    )


def diverging(case: DiagnosisContext) -> Cause | None:
    if case.rule != "loss-divergence":
        return None
    rate = f" ({number(case.lr)})" if case.lr else ""
    if case.result.kind == "slow":
        return Cause(
            "slow-climb",
            f"The loss has climbed for much of the run: the weight of one of its terms that is raised (a KL "
            f"warm-up, a penalty, a curriculum), which is no fault, or a learning rate{rate} just above what "
            "training bears.",
            "the weight of a term of the loss that is raised",
            (LOG_TERMS, r.lower_lr(case, 2.0), r.go_back(case)),
            "Each term of the loss, logged without its weight, climbs too.",
        )
    return Cause(
        "lr-too-high",
        f"Likely a learning rate{rate} that is too high for this point of training.",
        "a learning rate that is too high",
        (r.lower_lr(case), r.go_back(case), r.clip(case)),
        "From a checkpoint before the onset, with a fifth of the learning rate, the loss climbs again.",
    )


def schedule(case: DiagnosisContext) -> Cause | None:
    if case.rule != "zero-lr":
        return None
    skipping = case.kind("nonfinite-grad-norm") is not None or case.kind("nonfinite-loss") is not None
    if case.result.kind == "never" and skipping:
        text = (
            "Every update is skipped, so the schedule never leaves 0: "
            "the rate is the consequence, not the cause."
        )
        return Cause("skipped-schedule", text, "updates that are all skipped", (r.FIND_MODULE, r.CHECK_BATCH),
                     "An update is taken and the rate is still 0.")  # fmt: skip
    return Cause(
        "schedule",
        {
            "dropped": "The schedule, or what replaced it, set the rate to 0 in the middle of training.",
            "never": "The rate was never above 0: a schedule that is not stepped, or a start value of 0.",
            "faded": "The schedule has come to its end, and training goes on without learning.",
            "tiny": "The schedule has nearly come to its end well before the planned last step.",
        }[case.result.kind],
        "a schedule that ended or was removed",
        (r.CHECK_SCHEDULE, Remedy("Set the rate once by hand and see whether it stays.",
                                  "for group in optimizer.param_groups:\n    group['lr'] = 1e-4")),
        "The optimizer's own param_groups show another rate than the one logged.",
    )  # fmt: skip


def hardware(case: DiagnosisContext) -> Cause | None:
    """Return the cause of last resort: only a repeated step can show a hardware fault."""
    if case.rule not in NUMERIC | LOSS_SHAPE:
        return None
    return Cause(
        "hardware",
        "Nothing in the records explains it; a fault of the hardware is left.",
        "a fault of the hardware, which does not recur when the step is run again",
        (r.RERUN,),
        "The same step fails again on another device.",
    )


CANDIDATES: tuple[Ranked, ...] = (
    (MEASUREMENT, norm_measured_late), (DATA, bad_data), (RATE, schedule), (RATE, lr_rose),
    (SCALER, scaler_not_wired), (SCALER, scale_is_zero), (RUNAWAY, runaway), (FORWARD, every_scale),
    (FORWARD, one_operation), (GRADIENT, saturated), (GRADIENT, no_gradient),
    (OPTIMISATION, nan_from_nowhere), (OPTIMISATION, spike), (OPTIMISATION, diverging), (HARDWARE, hardware),
)  # fmt: skip
"""Candidates that several rules share, with their ranks; those of a single rule are in its module."""
