"""Ignite: its supervised trainer and evaluator with a scheduler, an engine in float16; two ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ignite.distributed as idist
import torch
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from ignite.handlers import LRScheduler
from ignite.metrics import MeanAbsoluteError, MeanSquaredError, RunningAverage
from torch import nn

from tests.real_trainers.trainings.cases import (
    OwnLog,
    batches,
    grad_scaler,
    is_watched,
    main,
    net,
    norm_of,
    uses_integration,
)
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS

EPOCHS = 4


def scaled_update(
    model: nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler
) -> Callable[[Engine, Any], float]:
    """Return a training step in float16; ignite's own (``amp_mode="amp"``) computes in it on CUDA only."""

    def update(engine: Engine, batch: Any) -> float:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            output = model(batch[0])
        loss = nn.functional.mse_loss(output.float(), batch[1])
        scaler.scale(loss).backward()
        engine.state.scale = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    return update


def evaluate_epochs(trainer: Engine, model: nn.Module, log: OwnLog) -> Engine:
    """Evaluate after each epoch; note what the engines have in their states."""
    metrics: Any = {"loss": MeanSquaredError(), "mae": MeanAbsoluteError()}
    evaluator = create_supervised_evaluator(model, metrics, "cpu")
    RunningAverage(output_transform=lambda output: output).attach(trainer, "smooth")

    def evaluate(engine: Engine) -> None:
        model.eval()
        evaluator.run(batches(2))
        model.train()
        log.note_evaluation(engine.state.iteration - 1, **evaluator.state.metrics)
        log.note_metrics(engine.state.iteration - 1, **{"train/smooth": engine.state.metrics["smooth"]})

    trainer.add_event_handler(Events.EPOCH_COMPLETED, evaluate)
    return evaluator


def attach(trainer: Engine, evaluator: Engine, case: str) -> None:
    """Attach tocsin's handler; in the case ``lacking``, to an engine that has no event for the epoch."""
    from tocsin.integrations.ignite import TocsinHandler

    if case == "lacking":
        trainer._allowed_events.remove(Events.EPOCH_STARTED)
    TocsinHandler(config={"rate": 3e-3}).attach(trainer, evaluator)


@uses_integration
def train(case: str, log: OwnLog) -> nn.Module:
    """Run a trainer; its event handlers record the values in its state."""
    model = net()
    if case == "ranks":
        idist.initialize("gloo")  # never finalized: freeing DDP right after that can hang in torch 2.13
        model = idist.auto_model(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    if case == "scaled":
        trainer = Engine(scaled_update(model, optimizer, grad_scaler()))
    else:
        trainer = create_supervised_trainer(model, optimizer, nn.functional.mse_loss, "cpu")

    def started(engine: Engine) -> None:
        log.note(engine.state.iteration - 1, lr=optimizer.param_groups[0]["lr"])

    def completed(engine: Engine) -> None:
        norm = norm_of(model)
        scale = getattr(engine.state, "scale", None)
        log.note(engine.state.iteration - 1, loss=engine.state.output, grad_norm=norm, scale=scale)

    trainer.add_event_handler(Events.ITERATION_STARTED, started)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, completed)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, LRScheduler(schedule))
    evaluator = evaluate_epochs(trainer, model, log)
    if is_watched():
        attach(trainer, evaluator, case)
    data = batches(STEPS * idist.get_world_size(), nan_at=BROKEN_AT if case == "broken" else None)
    own = data[idist.get_rank() :: idist.get_world_size()]
    trainer.run(own, max_epochs=EPOCHS, epoch_length=STEPS // EPOCHS)
    log.planned, log.setting = trainer.state.iteration, ("trainer.max_epochs", trainer.state.max_epochs)
    return model


if __name__ == "__main__":
    main(train, "pytorch-ignite", "healthy", "scaled", "broken", "lacking")
