"""TRL's ``SFTTrainer``: the Hugging Face Trainer for language models, with its own loss and collator."""

from __future__ import annotations

import tests.real_trainers.trainings.torchvision_operators  # noqa: F401  (before what imports torchvision)

# isort: split

import tempfile
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import SFTConfig, SFTTrainer

from tests.real_trainers.trainings.cases import OwnLog, main, uses_integration
from tests.real_trainers.trainings.hf_trainer import BATCH, MICRO_STEPS, Copied, read, reported_to, sentences
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS


class OneHighRate(TrainerCallback):
    """Multiplies the rate of one step by 1000; TRL leaves out samples that could make the loss NaN."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        if state.global_step == BROKEN_AT:
            for group in parts["optimizer"].param_groups:
                group["lr"] *= 1000


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer for sixteen words; the data are tokens already."""
    words = {str(number): number for number in range(16)}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="0")),
        eos_token="0",
        pad_token="0",
        unk_token="0",
    )


@uses_integration
def train(case: str, log: OwnLog) -> torch.nn.Module:
    """Fine-tune a small Llama."""
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model: torch.nn.Module = LlamaForCausalLM(LlamaConfig(vocab_size=16, max_position_embeddings=16, **shape))
    with tempfile.TemporaryDirectory() as folder:
        settings = SFTConfig(
            output_dir=folder,
            max_steps=STEPS,
            per_device_train_batch_size=BATCH,
            gradient_accumulation_steps=MICRO_STEPS,
            gradient_checkpointing=False,
            learning_rate=1e-3,
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
            bf16=False,
            seed=0,
        )
        data = sentences(case)
        trainer = SFTTrainer(
            model,
            settings,
            train_dataset=Dataset.from_list(data),
            eval_dataset=Dataset.from_list(data[:BATCH]),
            processing_class=tokenizer(),
            callbacks=[Copied(log), *([OneHighRate()] if case == "broken" else [])],
        )
        trainer.train()
        trainer.save_state()
        read(folder, log)
        log.setting = ("max_length", settings.max_length)
    return model


if __name__ == "__main__":
    main(train, "trl", "healthy", "broken")
