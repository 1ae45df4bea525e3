"""A loop with Accelerate: accumulation, clip, a scheduler; in float16 with a GradScaler; on two ranks."""

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from tests.real_trainers.trainings.cases import (
    OwnLog,
    batches,
    grad_scaler,
    is_watched,
    main,
    net,
    uses_integration,
)
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS

MICRO_STEPS = 2
CONFIG = {"rate": 3e-3, "max_train_steps": STEPS}


def accelerator_for(case: str) -> Accelerator:
    """Return an Accelerator. It supports float16 on a GPU only, so the scaler is set manually."""
    if is_watched():
        import tocsin.integrations.accelerate  # noqa: F401
    tracker = "tocsin" if is_watched() else None
    found = Accelerator(cpu=True, gradient_accumulation_steps=MICRO_STEPS, log_with=tracker)
    found.init_trackers("real-trainers", config=CONFIG)
    if case in ("scaled", "broken"):
        found.state._mixed_precision = "fp16"
        found.native_amp = True
        found.scaler = grad_scaler()
    return found


def features_of(batch: tuple[Tensor, Tensor], step: int, case: str) -> Tensor:
    """Return the features; in the broken case they overflow float16 from BROKEN_AT on."""
    return batch[0] * 1e5 if case == "broken" and step >= BROKEN_AT else batch[0]


def evaluate(accelerator: Accelerator, model: nn.Module, step: int, log: OwnLog) -> None:
    """Log the loss on one batch that is not trained."""
    features, targets = batches(1)[0]
    model.eval()
    with torch.no_grad():
        loss = (model(features) - targets).pow(2).mean().item()
    model.train()
    accelerator.log({"eval_loss": loss}, step=step)
    log.note_evaluation(step, loss=loss)


@uses_integration
def train(case: str, log: OwnLog) -> nn.Module:
    """Train as Accelerate's documentation shows it."""
    accelerator = accelerator_for(case)
    model: nn.Module = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=CONFIG["rate"])
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS * accelerator.num_processes)
    features, targets = zip(*batches(STEPS * MICRO_STEPS * accelerator.num_processes), strict=True)
    loader = DataLoader(TensorDataset(torch.cat(features), torch.cat(targets)), batch_size=len(features[0]))
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    losses: list[float] = []
    step = 0
    for batch in loader:
        with accelerator.accumulate(model):
            with accelerator.autocast():
                output = model(features_of(batch, step, case))
            loss = (output.float() - batch[1]).pow(2).mean()
            accelerator.backward(loss)
            losses.append(loss.item())
            lr, scale = scheduler.get_last_lr()[0], accelerator.scaler and accelerator.scaler.get_scale()
            norm = (
                accelerator.clip_grad_norm_(model.parameters(), 1.0) if accelerator.sync_gradients else None
            )
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            skipped = accelerator.optimizer_step_was_skipped
            log.note(
                step, loss=sum(losses) / MICRO_STEPS, grad_norm=norm, lr=lr, scale=scale, skipped=skipped
            )
            accelerator.log({"train_loss": losses[-1], "lr": lr}, step=step)
            if step % 20 == 19:
                evaluate(accelerator, model, step, log)
            losses.clear()
            step += 1
    log.planned, log.setting = STEPS, ("rate", CONFIG["rate"])
    accelerator.end_training()
    trained: nn.Module = accelerator.unwrap_model(model)
    return trained


if __name__ == "__main__":
    main(train, "accelerate", "healthy", "scaled", "broken")
