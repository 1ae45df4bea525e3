"""A loop of torchtitan's parts, as in its ``Trainer.train_step``: optimizers, schedule, clip and metrics.

Its trainer itself needs CUDA. Here the measurement of device memory is left out of the metrics.
"""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torchtitan.components import metrics
from torchtitan.components.optimizer import OptimizersContainer, ParamGroupConfig
from torchtitan.components.optimizer.lr_scheduler import LRSchedulersContainer
from torchtitan.distributed import ParallelDims
from torchtitan.distributed.utils import clip_grad_norm_

from tests.hook.ingest_server import closed_port
from tests.real_trainers.trainings.cases import OwnLog, batches, is_watched, main, net, uses_integration
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS

MICRO_STEPS, EVERY = 2, 20
ALONE = ParallelDims(dp_replicate=1, dp_shard=1, cp=1, tp=1, pp=1, ep=1, world_size=1)
ADAMW = ParamGroupConfig(pattern=".*", optimizer_name="AdamW", optimizer_kwargs={"lr": 3e-3})


class NoMemory:
    """Measures no device memory."""

    device_name = "cpu"

    def get_peak_stats(self) -> Any:
        return metrics.DeviceMemStats(0, 0, 0, 0, 0, 0)

    def reset_peak_stats(self) -> None:
        pass


def processor(folder: str) -> Any:
    """Return torchtitan's metrics with its TensorBoard logger, or tocsin's if this training is watched."""
    settings: dict[str, Any] = {"log_freq": 1, "enable_tensorboard": True, "save_tb_folder": "tb"}
    config = metrics.MetricsProcessor.Config(**settings)
    if is_watched():
        from tocsin.integrations.torchtitan import TocsinMetrics

        config = TocsinMetrics.Config(**settings, project="real-trainers")
    described = {"training": {"steps": STEPS}, "metrics": config.to_dict()}
    found = config.build(parallel_dims=ALONE, dump_folder=folder, config_dict=described)
    found.num_flops_per_token = 1
    return found


@uses_integration
def train(case: str, log: OwnLog) -> nn.Module:
    """Train as ``Trainer.train_step`` does; note what is logged."""
    model = net()
    optimizers = OptimizersContainer.Config(param_groups=[ADAMW], implementation="for-loop").build(
        model_parts=[model]
    )
    schedule = LRSchedulersContainer.Config(warmup_steps=5).build(optimizers=optimizers, training_steps=STEPS)
    nan_at = MICRO_STEPS * BROKEN_AT if case == "broken" else None
    data = iter(batches(MICRO_STEPS * STEPS, nan_at=nan_at))
    with tempfile.TemporaryDirectory() as folder:
        logged = processor(folder)
        for step in range(STEPS):
            update(step, model, optimizers, schedule, data, logged, log)
            if (step + 1) % EVERY == 0:
                validate(step, model, logged, log)
        logged.close()
        assert list(Path(folder).rglob("events.*"))  # its own logger works as before
    log.planned, log.setting = STEPS, ("metrics.log_freq", 1)
    return model


def update(
    step: int, model: nn.Module, optimizers: Any, schedule: Any, data: Any, logged: Any, log: OwnLog
) -> None:
    """Make one step: each loss is a sum, divided by the number of all targets of the step."""
    optimizers.zero_grad(set_to_none=True)
    rates, losses = schedule.get_metrics(), list[torch.Tensor]()
    micro = [next(data) for _ in range(MICRO_STEPS)]
    valid = torch.tensor(sum(targets.numel() for _, targets in micro))
    for features, targets in micro:
        loss = loss_of(model(features), targets, "sum") / valid
        loss.backward()
        losses.append(loss.detach())
    norm = clip_grad_norm_(model.parameters(), 1.0, foreach=True)
    optimizers.step()
    schedule.step()
    logged.data_loading_times.append(0.0)
    average = float(sum(losses))
    logged.log(step + 1, average, average, norm.item(), extra_metrics={"n_tokens_seen": step, **rates})
    log.note(step, loss=average, grad_norm=norm, lr=rates["lr/AdamW"])
    log.note_metrics(step, n_tokens_seen=step, **{"loss_metrics/global_avg_loss": average})


def loss_of(output: torch.Tensor, targets: torch.Tensor, reduction: str) -> torch.Tensor:
    """Return the loss of a classification, as of language models."""
    labels = (targets.flatten() > 0).long()
    return nn.functional.cross_entropy(torch.cat([output, -output], 1), labels, reduction=reduction)


def validate(step: int, model: nn.Module, logged: Any, log: OwnLog) -> None:
    """Log the loss of other data."""
    with torch.no_grad():
        loss = sum(loss_of(model(x), y, "mean").item() for x, y in batches(2)) / 2
    logged.log_validation(loss, step + 1)
    log.note_evaluation(step, loss=loss)


if __name__ == "__main__":
    logging.disable(logging.INFO)
    metrics.build_device_memory_monitor = NoMemory
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(closed_port()), "RANK": "0"}
    os.environ |= {"WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    torch.distributed.init_process_group("gloo")
    main(train, "torchtitan", "healthy", "broken")
