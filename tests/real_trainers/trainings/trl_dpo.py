"""TRL's ``DPOTrainer``: preferences, a reference model, and metrics such as ``rewards/margins``."""

from __future__ import annotations

import tests.real_trainers.trainings.torchvision_operators  # noqa: F401  (before what imports torchvision)

# isort: split

import copy
import json
import tempfile
from pathlib import Path

import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM
from trl import DPOConfig, DPOTrainer

from tests.real_trainers.trainings.cases import OwnLog, main, uses_integration
from tests.real_trainers.trainings.hf_trainer import BATCH, Copied, read, reported_to
from tests.real_trainers.trainings.length import STEPS
from tests.real_trainers.trainings.trl_sft import OneHighRate, tokenizer

CAPTURED = ("loss", "grad_norm", "learning_rate", "epoch", "step")
"""Names that the Trainer logs for what the hook captures."""


def preferences() -> list[dict[str, str]]:
    """Return prompts of numbers whose chosen answer repeats them; the rejected one repeats a word."""
    draw = torch.Generator().manual_seed(3)
    found = []
    for _ in range(STEPS * BATCH):
        words = [str(one) for one in torch.randint(1, 16, (4,), generator=draw).tolist()]
        prompt = " ".join(words)
        found.append({"prompt": prompt, "chosen": f" {prompt}", "rejected": " 1 1 1 1"})
    return found


def note_metrics(folder: str, log: OwnLog) -> None:
    """Note the metrics of the training that ``trainer_state.json`` has."""
    state = json.loads((Path(folder) / "trainer_state.json").read_text("utf-8"))
    for row in state["log_history"]:
        if "loss" in row:
            own = {f"train/{name}": value for name, value in row.items() if name not in CAPTURED}
            log.note_metrics(row["step"] - 1, **own)


@uses_integration
def train(case: str, log: OwnLog) -> torch.nn.Module:
    """Align a small Llama."""
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model: torch.nn.Module = LlamaForCausalLM(LlamaConfig(vocab_size=16, max_position_embeddings=16, **shape))
    with tempfile.TemporaryDirectory() as folder:
        settings = DPOConfig(
            output_dir=folder,
            max_steps=STEPS,
            per_device_train_batch_size=BATCH,
            gradient_checkpointing=False,
            learning_rate=1e-3,
            logging_steps=1,
            logging_nan_inf_filter=False,
            save_strategy="no",
            report_to=reported_to(),
            disable_tqdm=True,
            use_cpu=True,
            bf16=False,
            seed=0,
        )
        trainer = DPOTrainer(
            model,
            copy.deepcopy(model),
            args=settings,
            train_dataset=Dataset.from_list(preferences()),
            processing_class=tokenizer(),
            callbacks=[Copied(log), *([OneHighRate()] if case == "broken" else [])],
        )
        trainer.train()
        trainer.save_state()
        read(folder, log)
        note_metrics(folder, log)
        log.setting = ("beta", settings.beta)
    return model


if __name__ == "__main__":
    main(train, "trl", "healthy", "broken")
