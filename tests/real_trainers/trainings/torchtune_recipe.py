"""torchtune's recipe ``full_finetune_single_device`` with a tiny Llama, clip and accumulation."""

from __future__ import annotations

import logging
import runpy
import tempfile
from pathlib import Path
from typing import Any

import torch
import torchtune
from omegaconf import OmegaConf
from torch import nn
from torch.utils.data import Dataset
from torchtune.models.llama3 import llama3
from torchtune.training.metric_logging import DiskLogger

from tests.real_trainers.trainings.cases import OwnLog, is_watched, main, uses_integration
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS

EPOCHS, ACCUMULATED, BATCH, LENGTH = 4, 2, 2, 12
VOCABULARY = 32
SIZES = {"vocab_size": VOCABULARY, "num_layers": 1, "num_heads": 2, "num_kv_heads": 1, "embed_dim": 16}
SIZES |= {"max_seq_len": 16, "intermediate_dim": 32}
HERE = "tests.real_trainers.trainings.torchtune_recipe"
RECIPE = Path(torchtune.__file__).parents[1] / "recipes" / "full_finetune_single_device.py"
"""Recipes are scripts beside the package, which ``tune run`` executes."""
logging.getLogger("torchtune").setLevel(logging.ERROR)


class Tokenizer:
    """A tokenizer that is never asked for tokens."""

    pad_id = 0


class Sentences(Dataset[Any]):
    """Sequences of different lengths that count modulo the vocabulary, of which some tokens are masked."""

    def __init__(self, tokenizer: Any) -> None:
        draw = torch.Generator().manual_seed(7)
        count = STEPS // EPOCHS * ACCUMULATED * BATCH
        self.starts = torch.randint(1, VOCABULARY, (count,), generator=draw).tolist()
        self.lengths = torch.randint(4, LENGTH, (count,), generator=draw).tolist()

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: int) -> dict[str, list[int]]:
        tokens = [(self.starts[number] + k) % VOCABULARY for k in range(self.lengths[number])]
        return {"tokens": tokens, "labels": [-100, *tokens[1:]]}


class Weights:
    """A checkpointer with new weights, which saves nothing."""

    def __init__(self, model_type: str, should_load_recipe_state: bool = False) -> None:
        pass

    def load_checkpoint(self) -> dict[str, Any]:
        return {"model": llama3(**SIZES).state_dict()}

    def save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        pass


class BothLoggers:
    """torchtune's own logger and tocsin's: a recipe has only one."""

    def __init__(self, log_dir: str) -> None:
        self.loggers: list[Any] = [DiskLogger(log_dir, filename="own.txt")]
        if is_watched():
            from tocsin.integrations.torchtune import TocsinLogger

            self.loggers.append(TocsinLogger("real-trainers", log_dir=log_dir))

    def log_config(self, config: Any) -> None:
        for one in self.loggers:
            one.log_config(config)

    def log_dict(self, payload: Any, step: int) -> None:
        for one in self.loggers:
            one.log_dict(payload, step)

    def close(self) -> None:
        for one in self.loggers:
            one.close()


def settings(folder: str) -> Any:
    """Return a configuration like those of ``tune run``."""
    found: dict[str, Any] = dict.fromkeys(
        ("resume_from_checkpoint", "optimizer_in_bwd", "compile", "shuffle"), False
    )
    found |= {"device": "cpu", "dtype": "fp32", "seed": 0, "epochs": EPOCHS, "batch_size": BATCH}
    found |= {"output_dir": folder, "max_steps_per_epoch": None, "clip_grad_norm": 1.0}
    found["gradient_accumulation_steps"] = ACCUMULATED
    found["model"] = {"_component_": "torchtune.models.llama3.llama3", **SIZES}
    found["tokenizer"] = {"_component_": f"{HERE}.Tokenizer"}
    found["dataset"] = {"_component_": f"{HERE}.Sentences"}
    found["checkpointer"] = {"_component_": f"{HERE}.Weights", "model_type": "LLAMA3"}
    found["metric_logger"] = {"_component_": f"{HERE}.BothLoggers", "log_dir": folder}
    found["optimizer"] = {"_component_": "torch.optim.AdamW", "lr": 3e-3, "fused": False}
    schedule = "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup"
    found["lr_scheduler"] = {"_component_": schedule, "num_warmup_steps": 5}
    found["loss"] = {"_component_": "torchtune.modules.loss.CEWithChunkedOutputLoss"}
    return OmegaConf.create(found)


def break_at(recipe: Any, step: int) -> None:
    """Make the loss of a step not finite."""
    forward = recipe._loss_step

    def broken(batch: Any) -> torch.Tensor:
        loss: torch.Tensor = forward(batch)
        return loss * float("nan") if recipe.global_step == step else loss

    recipe._loss_step = broken


@uses_integration
def train(case: str, log: OwnLog) -> nn.Module:
    """Run the recipe, and read what its own logger wrote."""
    with tempfile.TemporaryDirectory() as folder:
        config = settings(folder)
        recipe = runpy.run_path(str(RECIPE))["FullFinetuneRecipeSingleDevice"](config)
        recipe.setup(config)
        rates = recipe._optimizer.param_groups[0]
        recipe._optimizer.register_step_pre_hook(
            lambda *_: log.note(recipe.global_step, lr=float(rates["lr"]))
        )
        if case == "broken":
            break_at(recipe, BROKEN_AT)
        recipe.train()
        recipe.cleanup()
        for line in (Path(folder) / "own.txt").read_text("utf-8").splitlines():
            read(line, log)
    log.planned, log.setting = recipe.global_step, ("optimizer.lr", config.optimizer.lr)
    model: nn.Module = recipe._model
    return model


def read(line: str, log: OwnLog) -> None:
    """Note one line of the log: ``Step 1 | loss:0.5 ... grad_norm:0.2``. Its rate is the next step's."""
    head, _, values = line.partition(" | ")
    step = int(head.removeprefix("Step ")) - 1
    found = dict(one.split(":") for one in values.split())
    log.note(step, loss=number(found["loss"]), grad_norm=number(found["grad_norm"]))
    speed = number(found["tokens_per_second_per_gpu"])
    log.note_metrics(step, **{"train/tokens_per_second_per_gpu": speed})


def number(text: str) -> float:
    """Return a number of the log."""
    return float(text.removeprefix("tensor(").removesuffix(")"))


if __name__ == "__main__":
    main(train, "torchtune", "healthy", "broken")
