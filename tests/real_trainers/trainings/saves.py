"""Save checkpoints with one framework, and print the events that the hook reports, one JSON line each.

Usage: ``python saves.py FRAMEWORK FOLDER``.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from tests.hook.captured import watched
from tests.hook.ingest_server import closed_port


def data() -> TensorDataset:
    """Return 24 samples."""
    return TensorDataset(torch.randn(24, 4), torch.randn(24, 1))


def safetensors(folder: Path) -> None:
    """Save weights by ``save_file`` and ``save_model``, and activations, which are no checkpoint."""
    net = torch.nn.Linear(4, 1)
    torch.optim.SGD(net.parameters(), lr=0.1).step()
    from safetensors.torch import save_file, save_model

    save_file(net.state_dict(), folder / "file.safetensors")
    save_model(net, str(folder / "model.safetensors"))
    save_file({"activations": torch.zeros(3)}, folder / "activations.safetensors")


def transformers(folder: Path) -> None:
    """Train with a checkpoint every 2 steps of which one is kept."""
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=16, max_position_embeddings=16, **shape))
    words = [{"input_ids": [1, 2, 3], "labels": [1, 2, 3]} for _ in range(8)]
    settings = TrainingArguments(
        output_dir=str(folder),
        max_steps=4,
        per_device_train_batch_size=2,
        save_strategy="steps",
        save_steps=2,
        save_total_limit=1,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    Trainer(model, settings, train_dataset=words).train()


def accelerate(folder: Path) -> None:
    """Save the state of a loop, and its model alone."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    net = torch.nn.Linear(4, 1)
    made: Any = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1), DataLoader(data(), 8))
    net, optimizer, loader = made
    for inputs, targets in loader:
        accelerator.backward(torch.nn.functional.mse_loss(net(inputs), targets))
        optimizer.step()
        optimizer.zero_grad()
    accelerator.save_state(str(folder / "state"))
    accelerator.save_model(net, str(folder / "model"))
    accelerator.save(net.state_dict(), folder / "weights.pt")


def lightning(folder: Path) -> None:
    """Train three epochs, each with a checkpoint; the best one and the last are kept."""
    import lightning
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Net(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, index: int) -> Any:
            return torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ModelCheckpoint(dirpath=folder, filename="{epoch}", save_top_k=1, save_last=True)],
    )
    trainer.fit(Net(), DataLoader(data(), 8))


def deepspeed(folder: Path) -> None:
    """Train two steps and save, with a tag and without."""
    settings = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(closed_port()), "RANK": "0", "WORLD_SIZE": "1"}
    os.environ |= settings | {"LOCAL_RANK": "0", "DS_ACCELERATOR": "cpu"}
    import deepspeed

    deepspeed.init_distributed("gloo")
    net = torch.nn.Linear(4, 1)
    engine, *_ = deepspeed.initialize(
        model=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        config={"train_micro_batch_size_per_gpu": 8},
        dist_init_required=False,
    )
    for inputs, targets in DataLoader(data(), 8):
        engine.backward(torch.nn.functional.mse_loss(engine(inputs), targets))
        engine.step()
    engine.save_checkpoint(str(folder))
    engine.save_checkpoint(str(folder), tag="best")


def distributed(folder: Path) -> None:
    """Save by ``torch.distributed.checkpoint`` from one process of a group."""
    import torch.distributed as group

    dcp: Any = importlib.import_module("torch.distributed.checkpoint")
    group.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    net = torch.nn.Linear(4, 1)
    net(torch.ones(4)).sum().backward()
    torch.optim.SGD(net.parameters(), lr=0.1).step()
    dcp.save({"model": net.state_dict()}, checkpoint_id=folder / "plain")
    dcp.async_save({"model": net.state_dict()}, checkpoint_id=folder / "async").result()
    group.destroy_process_group()


if __name__ == "__main__":
    with watched() as (_, outbox):
        globals()[sys.argv[1]](Path(sys.argv[2]))
    for kind, step, found in outbox.reported:
        if kind.startswith("checkpoint"):
            print(json.dumps({"kind": kind, "step": step, **found}))
