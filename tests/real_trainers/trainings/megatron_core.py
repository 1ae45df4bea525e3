"""Megatron Core's schedule of microbatches and its optimizers, in float32 and in float16 with its own scaler.

Megatron Core names CUDA wherever it makes a tensor or looks at a type; here the CPU takes its place.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.enums import ModelType
from megatron.core.optimizer import OptimizerConfig
from megatron.core.optimizer.grad_scaler import DynamicGradScaler
from megatron.core.optimizer.optimizer import Float16OptimizerWithFloat16Params, FP32Optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer import MegatronModule, TransformerConfig
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tests.hook.ingest_server import closed_port
from tests.real_trainers.trainings.cases import OwnLog, batches, is_watched, main, net, uses_integration
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS

MICRO_STEPS = 2


class OnCpu(TorchFunctionMode):
    """Makes tensors of CUDA on the CPU, and calls the types of those on the CPU types of CUDA."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = dict(kwargs or {})
        if given.get("device") == "cuda":
            given["device"] = "cpu"
        found = func(*args, **given)
        return found.replace("torch.", "torch.cuda.") if func is Tensor.type and len(args) == 1 else found


class Model(MegatronModule):
    """A regression as a stage of a pipeline."""

    def __init__(self) -> None:
        super().__init__(TransformerConfig(num_layers=1, hidden_size=8, num_attention_heads=1))
        self.net, self.model_type = net(), ModelType.encoder_or_decoder

    def set_input_tensor(self, given: Any) -> None:
        pass

    def forward(self, features: Tensor) -> Tensor:
        weight = next(self.parameters())
        found: Tensor = self.net(features.to(weight.dtype))
        return found.float()


def forward_step(data: Iterator[Any], model: Model) -> Any:
    """Return the output of a microbatch and the function of its loss, as a script of Megatron-LM."""
    features, targets = next(data)
    return model(features), partial(loss_of, targets)


def loss_of(targets: Tensor, output: Tensor) -> Any:
    """Return the loss, and what is logged of it."""
    loss = nn.functional.mse_loss(output, targets)
    return loss, loss.detach().clone()


def optimizer_of(model: nn.Module, case: str) -> Any:
    """Return Megatron's optimizer in float32, or with a scale that is too high for float16 at first."""
    config = OptimizerConfig(clip_grad=1.0, lr=3e-3)
    inner = torch.optim.AdamW(model.parameters(), lr=3e-3)
    if case != "scaled":
        return FP32Optimizer(inner, config, lambda *_: None)
    scaler = DynamicGradScaler(2.0**22, 1.0, 2.0, 0.5, 25, 1)
    return Float16OptimizerWithFloat16Params(inner, config, scaler, lambda *_: None)


@uses_integration
def train(case: str, log: OwnLog) -> nn.Module:
    """Train as Megatron-LM's ``train`` does."""
    with OnCpu():
        model = Model().half() if case == "scaled" else Model()
        optimizer = optimizer_of(model, case)
        if is_watched():
            from tocsin.integrations.megatron import watch_optimizer

            watch_optimizer(optimizer, planned_steps=STEPS, config={"train_iters": STEPS})
        model.config.grad_scale_func = optimizer.scale_loss
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer.optimizer, STEPS)
        nan_at = MICRO_STEPS * BROKEN_AT if case == "broken" else None
        data = iter(batches(MICRO_STEPS * STEPS, nan_at=nan_at))
        for step in range(STEPS):
            update(step, model, optimizer, data, log)
            schedule.step()
    log.planned, log.setting = STEPS, ("train_iters", STEPS)
    return model.net


def update(step: int, model: Model, optimizer: Any, data: Iterator[Any], log: OwnLog) -> None:
    """Make one step, and note what Megatron-LM logs of it."""
    optimizer.zero_grad()
    losses = get_forward_backward_func()(
        forward_step_func=forward_step,
        data_iterator=data,
        model=model,
        num_microbatches=MICRO_STEPS,
        seq_length=1,
        micro_batch_size=16,
    )
    scale = optimizer.get_loss_scale().item() if hasattr(optimizer, "grad_scaler") else None
    lr = optimizer.param_groups[0]["lr"]
    _, norm, _ = optimizer.step()
    log.note(step, loss=sum(losses) / len(losses), lr=lr, scale=scale, grad_norm=norm)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(closed_port()), "RANK": "0"}
    os.environ |= {"WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    torch.distributed.init_process_group("gloo")
    parallel_state.initialize_model_parallel()
    main(train, "megatron-core", "healthy", "scaled", "broken")
