"""Hugging Face ``Trainer`` with its defaults (fused AdamW, clip at 1, linear schedule) and accumulation."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

from tests.real_trainers.trainings.cases import OwnLog, is_watched, main, uses_integration
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS

MICRO_STEPS = 2
BATCH = 4
MASKED = -100
"""Label that the loss leaves out."""


class Copied(TrainerCallback):
    """Copies the log of the Trainer."""

    def __init__(self, log: OwnLog) -> None:
        self.log = log

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any
    ) -> None:
        if logs and "grad_norm" in logs:
            step = state.global_step - 1
            self.log.note(step, loss=logs["loss"], grad_norm=logs["grad_norm"], lr=logs["learning_rate"])


def sentences(case: str) -> list[dict[str, list[int]]]:
    """Return sequences that repeat. In the broken batch every label is masked, so that its loss is 0 / 0."""
    draw = torch.Generator().manual_seed(3)
    found = []
    for number in range(STEPS * MICRO_STEPS * BATCH):
        words = torch.randint(0, 16, (6,), generator=draw).tolist() * 2
        is_masked = case == "broken" and number // (MICRO_STEPS * BATCH) == BROKEN_AT
        found.append({"input_ids": words, "labels": [MASKED] * len(words) if is_masked else words})
    return found


def reported_to() -> str:
    """Return the value of ``report_to``: tocsin, if this training is watched."""
    if is_watched():
        import tocsin.integrations.transformers  # noqa: F401
    return "tocsin" if is_watched() else "none"


def read(folder: str, log: OwnLog) -> None:
    """Note the evaluations and the length that ``trainer_state.json`` has, and a setting."""
    state = json.loads((Path(folder) / "trainer_state.json").read_text("utf-8"))
    for row in state["log_history"]:
        if "eval_loss" in row:
            log.note_evaluation(row["step"] - 1, loss=row["eval_loss"])
    log.planned = state["max_steps"]


@uses_integration
def train(case: str, log: OwnLog) -> torch.nn.Module:
    """Train a small Llama."""
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model: torch.nn.Module = LlamaForCausalLM(LlamaConfig(vocab_size=16, max_position_embeddings=16, **shape))
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            max_steps=STEPS,
            per_device_train_batch_size=BATCH,
            gradient_accumulation_steps=MICRO_STEPS,
            learning_rate=1e-3,
            weight_decay=0.01,
            warmup_steps=5,
            logging_steps=1,
            logging_nan_inf_filter=False,
            train_sampling_strategy="sequential",
            save_strategy="no",
            eval_strategy="steps",
            eval_steps=20,
            report_to=reported_to(),
            disable_tqdm=True,
            use_cpu=True,
            seed=0,
        )
        data = sentences(case)
        trainer = Trainer(
            model, settings, train_dataset=data, eval_dataset=data[:BATCH], callbacks=[Copied(log)]
        )
        trainer.train()
        trainer.save_state()
        read(folder, log)
        log.setting = ("weight_decay", settings.weight_decay)
    return model


if __name__ == "__main__":
    main(train, "transformers", "healthy", "broken")
