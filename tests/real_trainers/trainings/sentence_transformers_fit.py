"""``SentenceTransformerTrainer`` with static embeddings and pairs that are labelled with their similarity."""

from __future__ import annotations

import tests.real_trainers.trainings.torchvision_operators  # noqa: F401  (before what imports torchvision)

# isort: split

import tempfile

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.losses import CosineSimilarityLoss
from sentence_transformers.models import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from tests.real_trainers.trainings.cases import OwnLog, main, uses_integration
from tests.real_trainers.trainings.hf_trainer import Copied, read, reported_to
from tests.real_trainers.trainings.length import BROKEN_AT, STEPS

BATCH = 8
WORDS = 32


def pairs(case: str) -> Dataset:
    """Return pairs of short texts and their similarity; of the broken batch the similarity is NaN."""
    draw = torch.Generator().manual_seed(5)
    words = torch.randint(0, WORDS, (STEPS * BATCH, 2, 4), generator=draw)
    words[::2, 1] = words[::2, 0]
    texts = [[" ".join(map(str, text.tolist())) for text in pair] for pair in words]
    scores = [1.0, 0.0] * (STEPS * BATCH // 2)
    if case == "broken":
        scores[BROKEN_AT * BATCH] = float("nan")
    one, other = zip(*texts, strict=True)
    return Dataset.from_dict({"sentence1": one, "sentence2": other, "score": scores})


@uses_integration
def train(case: str, log: OwnLog) -> torch.nn.Module:
    """Train the embeddings."""
    tokenizer = Tokenizer(WordLevel({str(number): number for number in range(WORDS)}, unk_token="0"))
    tokenizer.pre_tokenizer = Whitespace()
    model: torch.nn.Module = SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_dim=16)], device="cpu"
    )
    with tempfile.TemporaryDirectory() as folder:
        settings = SentenceTransformerTrainingArguments(
            output_dir=folder,
            max_steps=STEPS,
            per_device_train_batch_size=BATCH,
            learning_rate=1e-3,
            warmup_steps=5,
            logging_steps=1,
            logging_nan_inf_filter=False,
            save_strategy="no",
            eval_strategy="steps",
            eval_steps=20,
            report_to=reported_to(),
            disable_tqdm=True,
            use_cpu=True,
            train_sampling_strategy="sequential",
            seed=0,
        )
        trainer = SentenceTransformerTrainer(
            model,
            settings,
            train_dataset=pairs(case),
            eval_dataset=pairs("healthy").select(range(BATCH)),
            loss=CosineSimilarityLoss(model),
            callbacks=[Copied(log)],
        )
        trainer.train()
        trainer.save_state()
        read(folder, log)
        log.setting = ("multi_dataset_batch_sampler", str(settings.multi_dataset_batch_sampler.value))
    return model


if __name__ == "__main__":
    main(train, "sentence-transformers", "healthy", "broken")
