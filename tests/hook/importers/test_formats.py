"""Each format is detected from its content and read into tocsin's steps and names."""

# ruff: noqa: E501  (lines of logs are as long as they are)

from __future__ import annotations

import gzip
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.hook.importers.conftest import Written, facts, records
from tests.matrix import represented
from tocsin.importers import UnreadableLogError

NAN, INF = math.nan, math.inf
Read = Callable[..., list[tuple[int, dict[str, float]]]]

SWIN = (
    "[2026-01-02 03:04:05 swin_tiny] (main.py 223): INFO Train: [1/300][10/390]\teta 0:22:23 lr 0.000100\t "
    "wd 0.0500\ttime 0.2384 (0.5321)\tloss {loss} (2.35)\tgrad_norm 5.1 (inf)\tloss_scale 65536.0000 (65536.0)\tmem 8947MB\n"
)
TIMM = (
    "Train: 0 [  50/390 ( 13%)]  Loss: nan (6.95)  Time: 3.45s,  37.2/s  (3.45s,  37.2/s)  LR: 1.000e-05  Data: 1.2 (1.2)\n"
    "Test: [  78/78]  Time: 0.1 (0.1)  Loss:  1.2 (1.3)  Acc@1: 71.2 (70.1)  Acc@5: 90.1 (91.2)\n"
)
MAE = "Epoch: [1]  [ 20/390]  eta: 0:10:00  lr: 0.000100  loss: 6.8 (6.9)  time: 1.2  data: 0.5  max mem: 5000\n"
MMCV = (
    "2021-01-01 10:00:00,000 - mmdet - INFO - Epoch [2][50/1000]\tlr: 1.000e-03, eta: 1:00:00, time: 0.5, "
    "data_time: 0.05, memory: 5000, loss_cls: 0.5, loss: 0.8, grad_norm: 2.3\n"
)
BASICSR = (
    "2021-01-01 10:00:00,000 INFO: [Demo..][epoch:  0, iter:   1,000, lr:(2.000e-04,)] "
    "[eta: 1 day, 2:03:04, time (data): 0.500 (0.010)] l_pix: 3.0000e-02 l_percep: 1.0e-02 \n"
    "\t # psnr: 27.1234\tBest: 27.2 @ 5000 iter\n"
)
MEGATRON = (
    " iteration     7000/  300000 | consumed samples:      100 | elapsed time per iteration (ms): 32000.0 | "
    "learning rate: 6.000E-05 | lm loss: 6.444662E+00 | loss scale: 2048.0 | grad norm: nan | "
    "number of skipped iterations:   2 | number of nan iterations:   0 |\n"
)
DEEPSPEED = (
    "[2023-01-01 10:00:00,123] [INFO] [deepspeed] OVERFLOW! Rank 0 Skipping step. "
    "Attempted loss scale: 65536, reducing to 32768\n"
    "[2023-01-01 10:00:05,000] [INFO] [logging.py:60] [Rank 0] step=10, skipped=3, lr=[0.001, 0.002], mom=[(0.9, 0.9)]\n"
)
FAIRSEQ = (
    '2021-01-01 00:00:00 | INFO | train_inner | {"epoch": 1, "num_updates": "100", "loss": "13.2", "lr": "1e-05", '
    '"gnorm": "3.1", "loss_scale": "128"}\n'
    "2021-01-01 00:00:01 | INFO | fairseq.trainer | NOTE: gradient overflow detected, ignoring gradient, "
    "setting loss scale to: 64.0\n"
    '2021-01-01 00:00:02 | INFO | valid | {"epoch": 1, "valid_loss": "12.1", "valid_num_updates": "100"}\n'
)
FAIRSEQ_HYDRA = (
    '[2023-05-12 10:23:01,456][train_inner][INFO] - {"epoch": 1, "update": 0.01, "loss": "14.2", "wps": "11433.1", '
    '"num_updates": "100", "lr": "1.2e-05", "gnorm": "3.112", "loss_scale": "64", "train_wall": "72"}\n'
    '[2023-05-12 10:26:01,456][valid][INFO] - {"epoch": 1, "valid_loss": "10.2", "valid_bsz": "4", '
    '"valid_num_updates": "100"}\n'
)
HF_STATE = (
    '{"best_metric": null, "global_step": 20, "log_history": [\n'
    '{"epoch": 0.1, "learning_rate": 5e-05, "loss": 2.5, "grad_norm": NaN, "step": 10},\n'
    '{"epoch": 0.2, "eval_loss": 2.4, "eval_runtime": 3.0, "step": 20},\n'
    '{"train_runtime": 9.0, "train_loss": 2.45, "step": 20}\n], "max_steps": 500}\n'
)
MMENGINE = (
    '{"lr": 0.1, "data_time": 0.1, "loss": 1.0, "time": 0.5, "epoch": 1, "iter": 50, "memory": 100, "step": 50}\n'
    '{"accuracy/top1": 55.0, "data_time": 0.1, "time": 0.1, "step": 1}\n'
)
ALGOPERF = (
    "global_step,grad_norm,loss,validation/accuracy,score,total_duration,preemption_count\n"
    "100,inf,5.5,,,,\n105,,,0.2,1.0,2.0,0.0\n"
)
LIGHTNING = "epoch,step,train_loss_step,train_loss_epoch,val_loss,lr-AdamW,lr-AdamW/pg2\n0,9,1.5,,,0.1,0.2\n0,10,,1.1,2.0,,\n"
PIX2PIX = (
    "================ Training Loss (Thu Dec 21 09:30:48 2017) ================\n"
    "(epoch: 1, iters: 100, time: 0.622) G_GAN: 15.0 G_L1: 10.0 D_real: -2.0 D_fake: -1.0 \n"
)

CASES: list[tuple[str, str, str, list[tuple[int, dict[str, float]]]]] = [
    ("log_rank0.txt", "Swin-Transformer log", SWIN.format(loss="nan"), [
        (400, {"lr": 1e-4, "wd": 0.05, "step_time": 0.2384, "loss": NAN, "grad_norm": 5.1,
               "grad_norm_epoch_avg": INF, "scale": 65536.0})]),
    ("a.log", "timm log", TIMM, [
        (50, {"loss": NAN, "step_time": 3.45, "lr": 1e-5, "data_time": 1.2}),
        (50, {"val/loss": 1.3, "val/acc1": 70.1, "val/acc5": 91.2})]),
    ("a.log", "MetricLogger or MMCV text log", MAE, [
        (410, {"lr": 1e-4, "loss": 6.8, "step_time": 1.2, "data_time": 0.5})]),
    ("a.log", "MetricLogger or MMCV text log", MMCV, [
        (1050, {"lr": 1e-3, "step_time": 0.5, "data_time": 0.05, "loss/cls": 0.5, "loss": 0.8, "grad_norm": 2.3})]),
    ("a.log", "BasicSR log", BASICSR, [
        (1000, {"loss": 0.04, "lr": 2e-4, "loss/pix": 0.03, "loss/percep": 0.01, "step_time": 0.5,
                "data_time": 0.01}),
        (1000, {"val/psnr": 27.1234})]),
    ("a.log", "Megatron-LM log", MEGATRON, [
        (7000, {"step_time": 32.0, "lr": 6e-5, "loss": 6.444662, "scale": 2048.0, "grad_norm": NAN,
                "skipped": 2.0, "nan_iters": 0.0})]),
    ("a.log", "DeepSpeed log", DEEPSPEED, [
        (0, {"scale": 65536.0, "skipped": 1.0}), (10, {"skipped": 2.0, "lr": 0.001, "lr/g1": 0.002})]),
    ("a.log", "fairseq JSON log", FAIRSEQ, [
        (100, {"loss": 13.2, "lr": 1e-5, "grad_norm": 3.1, "scale": 128.0}),
        (101, {"scale": 64.0, "skipped": 1.0}), (100, {"val/loss": 12.1})]),
    ("hydra_train.log", "fairseq JSON log", FAIRSEQ_HYDRA, [
        (100, {"loss": 14.2, "lr": 1.2e-5, "grad_norm": 3.112, "scale": 64.0}), (100, {"val/loss": 10.2})]),
    ("trainer_state.json", "HF trainer_state.json", HF_STATE, [
        (10, {"lr": 5e-5, "loss": 2.5, "grad_norm": NAN}), (20, {"val/loss": 2.4, "eval_runtime": 3.0})]),
    ("scalars.json", "MMEngine scalars.json", MMENGINE, [
        (50, {"lr": 0.1, "data_time": 0.1, "loss": 1.0, "step_time": 0.5}), (50, {"val/accuracy/top1": 55.0})]),
    ("measurements.csv", "AlgoPerf measurements.csv", ALGOPERF, [
        (100, {"grad_norm": INF, "loss": 5.5}), (105, {"val/accuracy": 0.2})]),
    ("metrics.csv", "Lightning metrics.csv", LIGHTNING, [
        (9, {"loss": 1.5, "lr": 0.1, "lr/g1": 0.2}), (10, {"train_loss_epoch": 1.1, "val/loss": 2.0})]),
    ("loss_log.txt", "pix2pix or CycleGAN loss_log.txt", PIX2PIX, [
        (100, {"G_GAN": 15.0, "G_L1": 10.0, "D_real": -2.0, "D_fake": -1.0, "loss": 25.0, "loss/D": -3.0,
               "step_time": 0.622})]),
    ("main.log", "llm.c main.log", "s:0 tel:11.0\ns:0 trl:10.5 lr:0.001000 norm:15.37\n", [
        (0, {"val/loss": 11.0}), (0, {"loss": 10.5, "lr": 0.001, "grad_norm": 15.37})]),
    ("a.jsonl", "JSON lines", '{"train": {"loss": 1.5}, "global_step": 7}\n{"loss": "-inf", "step": 8}\n', [
        (7, {"loss": 1.5}), (8, {"loss": -INF})]),
    ("a.json", "JSON list", '[{"epoch": 0, "loss": 1.0},\n {"epoch": 1, "loss": -Infinity}]', [
        (0, {"loss": 1.0}), (1, {"loss": -INF})]),
    ("a.tsv", "CSV", "iter\tloss\tpsnr\n1\t0.5\t20.0\n2\tN/A\t\n", [
        (1, {"loss": 0.5, "val/psnr": 20.0}), (2, {"loss": NAN})]),
]  # fmt: skip


YOLO = (
    "                  epoch,         train/box_loss,         train/cls_loss,       metrics/mAP50(B),"
    "           val/box_loss,                 lr/pg0,                 lr/pg1\n"
    "                      0,                    1.5,                    nan,                   0.25,"
    "                    1.25,                   0.1,                   0.01\n"
)
CASES.append(
    ("results.csv", "YOLO results.csv", YOLO, [
        (0, {"loss": NAN, "loss/box": 1.5, "loss/cls": NAN, "val/map50": 0.25, "val/box_loss": 1.25,
             "lr": 0.1, "lr/g1": 0.01})])
)  # fmt: skip


# Lines of the same formats that are no plain training steps: evaluations, other kinds of steps, settings.
CASES += [
    ("log_rank0.txt", "Swin-Transformer log", SWIN.format(loss="2.5") + "INFO  * Acc@1 71.250 Acc@5 90.500\n", [
        (400, {"lr": 1e-4, "wd": 0.05, "step_time": 0.2384, "loss": 2.5, "grad_norm": 5.1,
               "grad_norm_epoch_avg": INF, "scale": 65536.0}),
        (400, {"val/acc1": 71.25, "val/acc5": 90.5})]),
    ("a.log", "MetricLogger or MMCV text log",
     "Iter(train) [  50/4000]  lr: 1e-3  time: 0.5  loss: inf\n" * 2 + "* Acc@1 71.0 Acc@5 90.0 loss 1.5\n", [
        (50, {"lr": 1e-3, "step_time": 0.5, "loss": INF}), (50, {"lr": 1e-3, "step_time": 0.5, "loss": INF}),
        (50, {"val/acc1": 71.0, "val/acc5": 90.0, "val/loss": 1.5})]),
    ("a.log", "Megatron-LM log",
     " iteration  10/ 100 | learning rate: 6.0E-05 | number of nan iterations:   1 |\n"
     "validation loss at iteration 10 | lm loss value: 2.5E+00 | lm loss PPL: 1.2E+01 |\n", [
        (10, {"lr": 6e-5, "nan_iters": 1.0, "loss": NAN}),
        (10, {"val/loss": 2.5, "val/ppl": 12.0})]),
    ("log.json", "MMEngine scalars.json",
     '{"env_info": "CUDA", "config": "model = 1"}\n'
     '{"mode": "train", "epoch": 2, "iter": 50, "data_time": 0.1, "memory": 100, "loss": NaN, "time": 0.5}\n'
     '{"mode": "val", "epoch": 2, "iter": 50, "data_time": 0.1, "memory": 9, "mAP": 0.25, "time": 0.5}\n', [
        (50, {"data_time": 0.1, "loss": NAN, "step_time": 0.5}), (50, {"val/map": 0.25})]),
]  # fmt: skip


def equal(one: Any, other: Any) -> bool:
    """Return whether two values are equal; NaN equals NaN."""
    return bool(one == pytest.approx(other, nan_ok=True))


@pytest.mark.parametrize(("name", "form", "text", "expected"), CASES, ids=[case[1] for case in CASES])
def test_a_log_is_read_into_our_steps_and_names(
    name: str, form: str, text: str, expected: list[tuple[int, dict[str, float]]], written: Written
) -> None:
    """The format is detected by content, and numbers are kept exactly, including non-finite ones."""
    log = written(name, text)
    found = records(list(log.items()))
    assert log.format.name == form
    assert [record.step for record in found] == [step for step, _ in expected]
    for record, (_, values) in zip(found, expected, strict=True):
        assert equal(record.values, values), record
    assert log.stream.unread == 0


@pytest.mark.parametrize(("name", "form", "text", "expected"), CASES, ids=[case[1] for case in CASES])
def test_bytes_may_come_in_any_pieces(
    name: str, form: str, text: str, expected: list[tuple[int, dict[str, float]]], written: Written
) -> None:
    """One byte at a time gives the records that the whole gives."""
    from tocsin.importers import Stream

    log = written(name, text)
    whole = list(log.items())
    stream = Stream(log.format)
    pieces = [item for byte in text.encode() for item in stream.feed(bytes([byte]))]
    pieces += list(stream.end())
    assert repr(pieces) == repr(whole)


def test_the_planned_steps_of_a_trainer_state_are_known(written: Written) -> None:
    """They follow the history, so they are read from the end of the file."""
    assert written("trainer_state.json", HF_STATE).planned_steps == 500


def test_metrics_come_with_goal_and_unit(written: Written) -> None:
    """A metric's goal is reported before its first record."""
    items = list(written("a.log", BASICSR).items())
    (fact,) = facts(items, "metric")
    assert fact.data == {"name": "val/psnr", "goal": "max", "unit": "dB"}
    assert facts(items, "loss-components")[0].data == {"names": ["pix", "percep"]}


def test_times_in_front_of_lines_are_read(written: Written) -> None:
    """The time of a line becomes the time of its record."""
    (record,) = records(list(written("a.log", SWIN.format(loss="1.0")).items()))
    assert record.time_ns == 1767323045 * 10**9


EXPORTED_JSON = (
    '{"seq": 0, "writer": 1, "attempt": 1, "rank": 0, "step": 5, "time_ms": 1e3, "time_ns": 1000000000, "values": '
    '{"loss": "NaN", "loss/fft": 0.5, "loss/D": 0.1, "grad_norm/D": 2.0, "stepped": 1.0}}\n'
)
EXPORTED_CSV = (
    "seq,writer,attempt,rank,step,time_ms,time_ns,grad_norm/D,loss,loss/D,loss/fft,stepped\n"
    "0,1,1,0,5,1000.0,1000000000,2.0,nan,0.1,0.5,1.0\n"
)


@pytest.mark.parametrize(("name", "text"), [("a.jsonl", EXPORTED_JSON), ("a.csv", EXPORTED_CSV)])
def test_our_own_exports_are_read_back(name: str, text: str, written: Written) -> None:
    """Names, steps and times are unchanged; loss terms are not mistaken for other optimizers' losses."""
    items = list(written(name, text).items())
    (record,) = records(items)
    assert (record.step, record.time_ns) == (5, 10**9)
    expected = {"loss": NAN, "loss/fft": 0.5, "loss/D": 0.1, "grad_norm/D": 2.0, "stepped": 1.0}
    assert equal(record.values, expected)
    assert facts(items, "loss-components")[0].data == {"names": ["fft"]}


def packed(lines: int) -> bytes:
    """Return gzipped lines of a script."""
    return gzip.compress(
        "".join(f"step={step} loss={random.Random(step).random()}\n" for step in range(lines)).encode()
    )


@pytest.mark.parametrize("damage", represented(["cut", "overwritten"]))
def test_a_damaged_archive_is_read_up_to_the_damage(damage: str, written: Written) -> None:
    """Of a killed job, the records before the damage are read, and the reason is reported."""
    data = packed(20_000)
    at = len(data) * 3 // 4
    log = written("train.log.gz", data[:at] + (b"" if damage == "cut" else b"\xff" * 64 + data[at + 64 :]))
    found = records(list(log.items()))
    assert found[:3] == records(list(written("whole.log.gz", packed(20_000)).items()))[:3]
    assert len(found) > 1000
    assert log.broken


def test_an_archive_without_a_record_before_its_end_is_unreadable(written: Written) -> None:
    """The error contains the reason."""
    with pytest.raises(UnreadableLogError, match="ended before"):
        written("train.log.gz", packed(20_000)[:30])


@pytest.mark.parametrize("step", ["1e30", "-1"])
def test_a_step_that_is_too_large_is_an_unread_line(step: str, written: Written) -> None:
    """It is counted, and the rows around it are read."""
    log = written("a.csv", f"step,loss\n1,0.5\n{step},0.5\n2,0.5\n")
    assert [record.step for record in records(list(log.items()))] == [1, 2]
    assert (log.stream.unread, log.stream.records) == (1, 2)


@pytest.mark.parametrize("step", ["inf", "nan", "9" * 400])
def test_a_step_that_is_not_a_number_is_ignored(step: str, written: Written) -> None:
    """The row gets the next step."""
    log = written("a.csv", f"step,loss\n1,0.5\n{step},0.5\n3,0.5\n")
    assert [record.step for record in records(list(log.items()))] == [1, 2, 3]


def test_a_time_that_is_out_of_range_is_ignored(written: Written) -> None:
    """The record is kept without it."""
    text = '{"step": 1, "loss": 0.5, "timestamp": 1e300}\n{"step": 2, "loss": 0.5, "time_ns": -5}\n'
    assert [record.time_ns for record in records(list(written("a.jsonl", text).items()))] == [None, None]
