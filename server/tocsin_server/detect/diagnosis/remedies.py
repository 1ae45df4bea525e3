"""Remedies, as a sentence and as code to paste."""

from __future__ import annotations

from collections.abc import Sequence

from tocsin_server.core.checkpoints import Checkpoint
from tocsin_server.core.models import Remedy
from tocsin_server.detect.diagnosis.case import LOSS_SHAPE, NUMERIC, DiagnosisContext
from tocsin_server.detect.interface.formatting import count, number

BF16 = Remedy(
    "Train in bfloat16, which has the range of float32 and needs no loss scaler.",
    'with torch.autocast("cuda", dtype=torch.bfloat16):\n    loss = model(batch)',
)
FP32_ISLAND = Remedy(
    "Compute the operation that overflows in float32; cast before leaving autocast, not inside.",
    'x = x.float()\nwith torch.autocast("cuda", enabled=False):\n    y = operation(x)',
)
FIND_MODULE = Remedy(
    "Find the first module whose output is not finite.",
    "def first_bad(module, args, out):\n"
    "    if torch.is_tensor(out) and not torch.isfinite(out).all():\n"
    "        raise FloatingPointError(type(module).__name__)\n"
    "for module in model.modules():\n"
    "    module.register_forward_hook(first_bad)",
)
CHECK_BATCH = Remedy(
    "Check the batch and the terms of the loss before the backward pass.",
    'run.check(batch=batch, losses={"loss": loss})',
)
WIRE_SCALER = Remedy(
    "Let the scaler skip steps, and call update() in every iteration, without a continue before it.",
    "scaler.unscale_(optimizer)\n"
    "torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)\n"
    "scaler.step(optimizer)\n"
    "scaler.update()\n"
    "optimizer.zero_grad(set_to_none=True)",
)
NORM_BEFORE_ZERO = Remedy(
    "Measure the norm between backward() and zero_grad(): use what clip_grad_norm_ returns.",
    "norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)\n"
    "optimizer.step()\n"
    "optimizer.zero_grad(set_to_none=True)",
)
UPDATE_STEPS_ONLY = Remedy(
    "Log the norm at update steps only.",
    "if (i + 1) % accumulate == 0:\n"
    "    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    "    run.log(norm=norm)",
)
SCALED_ONLY = (BF16, FP32_ISLAND, WIRE_SCALER)
"""Advice about fp16 and loss scalers, which fits only runs with a loss scale."""
CHECK_GRAPH = Remedy(
    "Print which parameters get a gradient.",
    "for name, p in model.named_parameters():\n"
    "    print(name, p.requires_grad, None if p.grad is None else p.grad.abs().sum())",
)
CHECK_SCHEDULE = Remedy(
    (
        "Compare the schedule's length with the number of updates, and check that it is "
        "stepped once per update."
    ),
    'print(scheduler.state_dict(), [group["lr"] for group in optimizer.param_groups])',
)
SKIP_DATA = Remedy(
    "If it recurs at the same step, go back about 100 steps and skip the next 200 to 500 batches."
)
RERUN = Remedy(
    "Run the same step again on another device; an error that does not repeat is a hardware fault."
)


def lower_lr(case: DiagnosisContext, factor: float = 5.0) -> Remedy | None:
    """Return a remedy that divides the learning rate by ``factor``, with the run's numbers.

    With a scheduler, its base rates are changed, because it overwrites the optimizer's rate. None if the
    learning rate is far below its peak or that of similar runs, where lowering it further cannot help.
    """
    if case.rate_faded or case.kind("lr-out-of-range") == "below-siblings":
        return None
    by = number(factor)
    text = f"Divide the learning rate by {by}"
    if not case.lr:
        return Remedy(f"{text}.", f"for group in optimizer.param_groups:\n    group['lr'] /= {by}")
    text = f"{text} ({number(case.lr)} → {number(case.lr / factor)})."
    if not case.context.schedulers:
        code = f"for group in optimizer.param_groups:\n    group['lr'] = {case.lr / factor:.3g}"
        return Remedy(text, code)
    return Remedy(
        f"{text} Change the scheduler's base rate; it overwrites the optimizer's value every step.",
        f"scheduler.base_lrs = [lr / {by} for lr in scheduler.base_lrs]",
    )


def watch(case: DiagnosisContext) -> Remedy:
    """Return the advice to wait, and to lower the learning rate if that can help."""
    later = "" if lower_lr(case) is None else "; lower the learning rate if it spikes again"
    return Remedy(f"Do nothing if the loss is back at its baseline{later}.")


SCALED_NORM = 1e3
"""If usual norm and loss scale both exceed this, the norm was likely measured before unscale_."""


def usual_norm(case: DiagnosisContext) -> float | None:
    """Return the gradient norm before the episode, taken from a gradient explosion if one came first."""
    for rule, _, result in case.episode:
        reported = [fact[1] for fact in result.evidence if fact[0] == "usual norm"]
        if rule == "grad-explosion" and reported:
            return float(reported[0])
    return case.usual_norm


def clip(case: DiagnosisContext) -> Remedy:
    """Return a remedy that clips gradients at 1.5 times the run's usual norm."""
    usual = usual_norm(case)
    limit = f"{1.5 * usual:.2g}" if usual else "1.0"
    reason = f" The usual norm of this run is {number(usual)}." if usual else ""
    scales = [scale for _, scale in case.before("scale")]
    if usual and usual > SCALED_NORM and scales and scales[-1] > SCALED_NORM:
        limit = "1.0"
        reason = f" The logged norm, {number(usual)}, is likely that of scaled gradients."
    unscale = "scaler.unscale_(optimizer)\n" if case.history.has("scale") else ""
    after = " after unscaling them" if unscale else ""
    return Remedy(
        f"Clip gradients{after}.{reason}",
        f"{unscale}torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm={limit})",
    )


CORRUPTING = NUMERIC | LOSS_SHAPE | {"grad-explosion", "loss-level-shift", "weights-reset"}
"""Rules about events that may have corrupted the weights."""


FIRST = 1
"""The first step of a run that counts from 0 or 1: no checkpoint is before it."""


def corrupted_since(case: DiagnosisContext) -> int:
    """Return the step from which the weights may be corrupted, at the latest this alert's onset."""
    onsets = [result.onset_step for rule, _, result in case.episode if rule in CORRUPTING]
    return min([*onsets, case.onset])


def go_back(case: DiagnosisContext) -> Remedy:
    """Return a remedy that resumes from the newest checkpoint before the problem started."""
    since = corrupted_since(case)
    saved = _resumable(case, since)
    if saved is None and since <= FIRST:
        return Remedy("Start again from the initial weights; the present ones may be corrupted.")
    if saved is None:
        return Remedy(f"Resume from a checkpoint before step {since}; later weights may be corrupted.")
    before = count(since - saved.step, "step")
    limit = "the onset" if since == case.onset else f"step {since}"
    text = f"Resume from {saved.name} (step {saved.step}, {before} before {limit})."
    return Remedy(text, saved.resume_code)


def _resumable(case: DiagnosisContext, since: int) -> Checkpoint | None:
    """Return the newest checkpoint before ``since`` whose weights gave a record that was still healthy."""
    healthy = [records[-1][0] for base in ("loss", "grad_norm") if (records := _until(case, base, since))]
    return case.context.last_good_checkpoint(max(healthy) + 1 if healthy else since)


def _until(case: DiagnosisContext, base: str, step: int) -> list[tuple[int, float]]:
    return case.history.between(base, -(1 << 62), step, upto=case.upto)


def stop(case: DiagnosisContext) -> Remedy:
    """Return the first action when no update can succeed any more: resume from a checkpoint."""
    since = corrupted_since(case)
    saved = _resumable(case, since)
    if saved is None and since <= FIRST:
        return Remedy("Stop. Fix the cause and start again; no update can succeed any more.")
    if saved is None:
        return Remedy(f"Stop. Resume from a checkpoint before step {since}; no update can succeed any more.")
    text = f"Stop. Resume from {saved.name} (step {saved.step}); no update can succeed any more."
    return Remedy(text, saved.resume_code)


def fitting(case: DiagnosisContext, proposed: Sequence[Remedy | None]) -> tuple[Remedy, ...]:
    """Return the remedies that fit the run, the first action first.

    If no update can succeed any more, that is to stop and resume from a checkpoint.
    """
    fit = [each for each in proposed if each is not None and (case.scaled or each not in SCALED_ONLY)]
    if not (case.no_update_can_succeed and (case.numeric or case.rule in CORRUPTING)):
        return tuple(fit)
    resume = go_back(case)
    return (stop(case), *(each for each in fit if each != resume))
