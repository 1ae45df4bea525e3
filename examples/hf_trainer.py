"""Hugging Face Trainer: `watch` before `train`, and no callback.

Run `pip install transformers accelerate` and `python examples/hf_trainer.py`.
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

import tocsin

STEPS = 60


def sentences(count: int) -> list[dict[str, list[int]]]:
    """Return token sequences whose second half repeats the first; a model can learn to copy."""
    halves = torch.randint(0, 32, (count, 8)).tolist()
    return [{"input_ids": half * 2, "labels": half * 2} for half in halves]


if __name__ == "__main__":
    torch.manual_seed(0)
    # A tiny model with random weights, so that nothing is downloaded. Use `from_pretrained` for a real one.
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=32,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=32,
        )
    )
    arguments = TrainingArguments(
        output_dir="build/hf-trainer",
        max_steps=STEPS,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,  # tocsin records the mean loss of the two, once per optimizer step
        learning_rate=1e-3,
        warmup_steps=10,
        logging_steps=10,
        save_strategy="no",
        report_to="none",
    )
    tocsin.watch("examples", name="hf-trainer", config=arguments.to_dict(), planned_steps=STEPS)
    Trainer(model, arguments, train_dataset=sentences(STEPS * 16)).train()
