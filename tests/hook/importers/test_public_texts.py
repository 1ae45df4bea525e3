"""Texts as well-known tools and scripts print them: the steps, the loss of each, and where it is no number.

Each text is made for 40 steps; from the 30th on the loss is not a number.
"""

# ruff: noqa: E501  (lines of logs are as long as they are)

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest

from tests.hook.importers.conftest import Written, records
from tocsin.importers import UnreadableLogError

STEPS, BAD = 40, 30
Line = Callable[[int, str], str]


def losses() -> list[float]:
    return [2.0 - i / 64 if i < BAD else math.nan for i in range(STEPS)]


def spelled(i: int) -> str:
    return repr(losses()[i])


TEXTS: dict[str, tuple[str, Line, str, int]] = {
    # name: head, one step, format, step of the last record
    "hf_dicts": ("", lambda i, x: f"{{'loss': {x}, 'grad_norm': 1.5, 'learning_rate': 1e-4, 'epoch': {(i + 1) / 20}}}\n", "key=value lines", 39),
    "hf_dicts_of_text": ("", lambda i, x: f"{{'loss': '{x}', 'learning_rate': '1e-04', 'epoch': '{(i + 1) / 20:.2f}'}}\n", "key=value lines", 39),
    "axolotl": ("[INFO] [axolotl.train] Starting trainer\n", lambda i, x: f"  1%|█  | {i * 10}/400 [00:10<10:00, 1.5it/s]\r{{'loss': {x}, 'epoch': 0.01}}\n", "key=value lines", 390),
    "llama_factory": ("", lambda i, x: json.dumps({"current_steps": i * 10, "total_steps": 400, "loss": float(x), "lr": 1e-4, "epoch": i / 20}) + "\n", "JSON lines", 390),
    "pytorch_example": ("", lambda i, x: f"Train Epoch: {1 + i // 20} [{(i % 20) * 640}/12800 ({(i % 20) * 5}%)]\tLoss: {x}\n", "key=value lines", 12800 * 2 + 19 * 640),
    "flax_clu": ("", lambda i, x: f"I0501 10:00:00.123456 14000 logging_writer.py:48] [{i * 100}] learning_rate=0.001, loss={x}\n", "key=value lines", 3900),
    "llmc_printed": ("", lambda i, x: f"step {i + 1:4d}/19560 | loss {x} (+1.2z)| norm 1.2000 (-0.3z)| lr 6.00e-04 | 312.33 ms | 61.9% bf16 MFU\n", "llm.c main.log", 40),
    "composer": ("", lambda i, x: f"[batch={i + 1}/4800]:\n\t Train time/batch: {i}\n\t Train loss/train/total: {x}\n\t Train lr-DecoupledAdamW/group0: 0.0001\n", "blocks of indented lines", 40),
    "olmo": ("", lambda i, x: f"2024-02-01 10:00:00.123\thost:0\tolmo.train:967\tINFO\t[step={i + 1}/739328]\n    optim/total_grad_norm=1.2\n    train/CrossEntropyLoss={x}\n    optim/learning_rate_group0=0.0003\n", "blocks of indented lines", 40),
    "stable_baselines": ("", lambda i, x: f"{'-' * 40}\n| time/ | |\n|    total_timesteps | {i * 2048} |\n| train/ | |\n|    loss | {x} |\n{'-' * 40}\n", "blocks of indented lines", 39 * 2048),
    "fastai": ("epoch     train_loss  valid_loss  accuracy  time    \n", lambda i, x: f"{i:<10}{x:<12}1.5         0.800     00:12   \n", "CSV", 39),
    "markdown": ("| Step | Training Loss | Validation Loss |\n|------|---------------|-----------------|\n", lambda i, x: f"| {(i + 1) * 10} | {x} | 1.5 |\n", "CSV", 400),
    "decimal_commas": ("step;loss;lr\n", lambda i, x: f"{i};{x.replace('.', ',')};0,001\n", "CSV", 39),
    "wandb_chart": ('"Step","run-1 - train/loss","run-1 - train/loss__MIN","run-1 - train/loss__MAX"\n', lambda i, x: f'"{i * 10}","{x}","1","3"\n', "CSV", 390),
    "accelerate": ("", lambda i, x: f"Steps:  1%|█ | {i}/1200 [00:10<10:00, 1.2it/s, lr=1e-5, step_loss={x}]\n", "key=value lines", 39),
    "kohya": ("", lambda i, x: f"\rsteps:  1%|█ | {i}/1200 [00:10<10:00, 1.2it/s, avr_loss={x}]", "key=value lines", 39),
    "keras_backspaces": ("Epoch 1/1\n", lambda i, x: "\b" * 30 + f"{i + 1}/100 [====>....] - ETA: 3s - loss: {x} - acc: 0.5", "key=value lines", 40),
    "keras_3": ("Epoch 1/3\n", lambda i, x: f"\r\x1b[1m{i + 1:3d}/100\x1b[0m \x1b[32m━━━━\x1b[0m \x1b[1m3s\x1b[0m 30ms/step - accuracy: 0.5 - loss: {x}", "key=value lines", 40),
    "torchtune": ("", lambda i, x: f"Step {i + 1} | loss:{x} lr:2e-05 tokens_per_second_per_gpu:1234.5 \n", "key=value lines", 40),
    "torchtitan": ("", lambda i, x: f"[rank0]:2024-09-01 10:00:00,123 - root - INFO - \x1b[31mstep: {i + 1:2d}  \x1b[32mloss: {x}  \x1b[33mmemory: 12.34GiB(12.99%)  tps: 1,234\x1b[39m\n", "key=value lines", 40),
    "detectron2": ("", lambda i, x: f"[01/05 10:00:00 d2.utils.events]:  eta: 1:02:03  iter: {i * 20 + 19}  total_loss: {x}  loss_cls: 0.5  time: 0.3012  lr: 0.00025  max_mem: 3456M\n", "key=value lines", 799),
    "paddle": ("", lambda i, x: f"[2023/01/01 10:00:00] ppcls INFO: [Train][Epoch 1/20][Iter: {i * 10}/1200]lr(LinearWarmup): 0.001, CELoss: 0.5, loss: {x}, ips: 100 samples/s\n", "key=value lines", 390),
    "nanogpt": ("tokens per iteration will be: 491,520\n", lambda i, x: f"iter {i * 10}: loss {x}, time 312.45ms, mfu 33.21%\n", "key=value lines", 390),
    "fairseq_text": ("", lambda i, x: f"2021-01-01 10:00:00 | INFO | train_inner | epoch 001:  {i * 100} / 5000 loss={x}, ppl=12.3, num_updates={(i + 1) * 100}, lr=0.0005, gnorm=1.2, loss_scale=128\n", "key=value lines", 4000),
    "windows": ("", lambda i, x: f"step {i} loss {x} lr 0.001\r\n", "key=value lines", 39),
}  # fmt: skip


def text_of(name: str) -> str:
    head, line, _, _ = TEXTS[name]
    return head + "".join(line(i, spelled(i)) for i in range(STEPS))


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_of_a_known_tool_is_read(written: Written, name: str) -> None:
    """Every step once, in order, with its exact loss; no line is unread and no run is split."""
    log = written("train.log", text_of(name))
    found = [record for record in records(list(log.items())) if "loss" in record.values]
    assert log.format.name == TEXTS[name][2]
    assert repr([record.values["loss"] for record in found]) == repr(losses())
    steps = [record.step for record in found]
    assert steps == sorted(set(steps))
    assert steps[-1] == TEXTS[name][3]
    assert (log.stream.unread, log.stream.went_back, {record.attempt for record in found}) == (0, 0, {0})


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("composer", {"loss", "lr", "time/batch"}),
        ("olmo", {"loss", "lr", "grad_norm"}),
        ("llmc_printed", {"loss", "lr", "grad_norm", "step_time"}),
        ("paddle", {"loss", "lr", "ips"}),
        ("wandb_chart", {"loss"}),
        ("flax_clu", {"loss", "lr"}),
    ],
)
def test_its_signals_have_our_names(written: Written, name: str, ours: set[str]) -> None:
    """Other numbers (a file's name and line, the bounds of a chart) are not read as signals."""
    log = written("train.log", text_of(name))
    found = {key for record in records(list(log.items())) for key in record.values}
    assert found - {"loss/celoss", "CELoss", "logged/CELoss"} == ours


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig", "latin-1"])
def test_encodings_are_detected_by_their_marks(written: Written, encoding: str) -> None:
    """With a byte order mark, or in a code page that is not valid UTF-8."""
    text = "Début\n" + text_of("nanogpt")
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b""
    found = records(list(written("train.log", mark + text.encode(encoding)).items()))
    assert len(found) == STEPS


def test_yolo_results_are_components(written: Written) -> None:
    """Padded names, one with a colon; no total loss is made up from the parts."""
    head = "      epoch,   train/box_loss,  train/obj_loss, metrics/mAP_0.5:0.95, val/box_loss, x/lr0\n"
    text = head + "".join(f"{i:10d},{spelled(i)},  0.5,  0.2,  1.1, 0.01\n" for i in range(STEPS))
    found = records(list(written("results.csv", text).items()))
    assert len(found) == STEPS
    assert {"loss/box", "loss/obj", "val/box_loss"} <= found[-1].values.keys()
    assert math.isnan(found[-1].values["loss/box"])


def test_fractions_of_epochs_are_not_steps(written: Written) -> None:
    """Epoch 1.0 among fractions is not step 1; an epoch that starts again is another run."""
    one = "".join(f"{{'loss': 2.0, 'epoch': {i / 4}}}\n" for i in range(1, 9))
    found = records(list(written("train.log", one + one).items()))
    assert [record.step for record in found] == [*range(8), *range(8)]
    assert [record.attempt for record in found] == [0] * 8 + [1] * 8


def test_whole_epochs_are_steps(written: Written) -> None:
    """One line per epoch."""
    text = "".join(f"epoch: {i} loss: 2.0\n" for i in range(1, 6))
    assert [record.step for record in records(list(written("a.log", text).items()))] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("text", ["0   2.5\n1   2.4\n" * 20, "nothing to see\n" * 50, "\0" * 1000])
def test_columns_without_names_are_rejected(written: Written, text: str) -> None:
    """Two columns without names could be anything."""
    with pytest.raises(UnreadableLogError, match="not a known training log"):
        written("train.log", text)
