"""Lines of ordinary scripts, and messages that they print when something goes wrong."""

from __future__ import annotations

import math

import pytest

from tests.hook.importers.conftest import Written, records
from tests.hook.importers.test_formats import INF, NAN, Read, equal

LINES = {
    "batch": ("📊 Batch 50: grad_norm=2.451, loss=11.8234\n", [(50, {"grad_norm": 2.451, "loss": 11.8234})]),
    "critic": (
        "batch=100:  c_loss=-1000.0002  g_loss=1000.0000   m_loss=0.2630\n",
        [(100, {"loss/D": -1000.0002, "loss": 1000.0, "loss/m": 0.263})],
    ),
    "not available": ("Step 512: loss = N/A, LR = 0.00043139\n", [(512, {"loss": NAN, "lr": 0.00043139})]),
    "at": (
        "PSNR 11.5119, SSIM 0.4685 @ 1,000 iterations\n",
        [(1000, {"val/psnr": 11.5119, "val/ssim": 0.4685})],
    ),
    "scale": ("iter: 1,000 loss: 0.1 scale_g: 2.0972e+06\n", [(1000, {"loss": 0.1, "scale": 2.0972e6})]),
    "words": (
        "[Epoch 3] step 10 | Train Loss: 0.5 | Grad Norm: inf\n",
        [(10, {"Train Loss": 0.5, "Grad Norm": INF})],
    ),
    "nanogpt": ("iter 10: loss 9.5000, time 100.22ms, mfu 3.00%\n", [(10, {"loss": 9.5})]),
    "printed dict": (
        "  5%|▌  | 10/200 [00:10<03:20,  1.05s/it]\r{'loss': 2.5, 'grad_norm': nan, 'epoch': 0.01}\n",
        [(10, {"loss": 2.5, "grad_norm": NAN})],
    ),
    "colours": ("\x1b[32mstep 3\x1b[0m \x1b[1mloss=0.25\x1b[0m\n", [(3, {"loss": 0.25})]),
    "tensor": ("step=4 loss=tensor(0.5000, device='cuda:0')\n", [(4, {"loss": 0.5})]),
    "norm alone": (
        "step 1 | loss: 2.5 | lr 6e-4 | norm: 1.5 | Logit Scale: 14.3 | params norm: 512.0\n",
        [(1, {"loss": 2.5, "lr": 6e-4, "grad_norm": 1.5})],
    ),
    "batches of an epoch": (
        "| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 12.01 | loss  5.22 | ppl   123.12\n",
        [(3183, {"lr": 20.0, "loss": 5.22})],
    ),
    "place in the code": (
        "2026-01-02 03:04:05 | INFO | train:run:104 - Step: 7 | Loss: 0.5\n",
        [(7, {"loss": 0.5})],
    ),
    "nemo": (
        "Training epoch 0, iteration 7/99 | lr: 0.1 | global_step: 7 | reduced_train_loss: 11.03\n",
        [(7, {"lr": 0.1, "loss": 11.03})],
    ),
    "keras without a bar": (
        "Epoch 1/2\n100/100 - 5s - 45ms/step - loss: 0.4\nEpoch 2/2\n100/100 - 5s - 45ms/step - loss: 0.3\n",
        [(100, {"loss": 0.4}), (200, {"loss": 0.3})],
    ),
    "keras": (
        "Epoch 1/10\n100/100 [====] - 5s 50ms/step - loss: 0.4 - val_loss: 0.6\n"
        "Epoch 2/10\n100/100 [====] - 5s 50ms/step - loss: nan - val_loss: 0.6\n",
        [(100, {"loss": 0.4, "val/loss": 0.6}), (200, {"loss": NAN, "val/loss": 0.6})],
    ),
}


@pytest.mark.parametrize("case", [case for case in LINES if case != "words"])
def test_a_line_of_a_script_is_a_record(case: str, steps_of: Read) -> None:
    """Steps and signals are read in any notation."""
    text, expected = LINES[case]
    found = steps_of("a.log", text)
    assert [step for step, _ in found] == [step for step, _ in expected]
    assert all(equal(values, want) for (_, values), (_, want) in zip(found, expected, strict=True)), found


def test_names_of_several_words_are_known(steps_of: Read) -> None:
    """``Train Loss`` and ``Grad Norm`` are loss and grad_norm."""
    ((step, values),) = steps_of("a.log", LINES["words"][0])
    assert step == 10
    assert equal(values, {"loss": 0.5, "grad_norm": INF})


@pytest.mark.parametrize(
    ("line", "step", "values"),
    [
        ("⚠️  Infinite gradient at batch 234! Skipping batch.", 234, {"grad_norm": INF, "stepped": 0.0}),
        ("❌ NaN loss detected at batch 456! Skipping batch.", 456, {"loss": NAN, "stepped": 0.0}),
        ("Loss is nan, stopping training", 101, {"loss": NAN}),
        ("AMP scaler dropping: 8192 (normal: 65536)", 101, {"scale": 8192.0}),
        ("Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 1024.0", 101,
         {"scale": 1024.0, "skipped": 1.0}),
    ],
)  # fmt: skip
def test_messages_between_records_are_read(
    line: str, step: int, values: dict[str, float], steps_of: Read
) -> None:
    """Without a step, they belong to the step after the newest."""
    found = steps_of("a.log", f"Batch 100: loss=1.5\n{line}\n")
    assert found[1][0] == step
    assert equal(found[1][1], values)


def test_messages_about_one_step_belong_to_one_step(steps_of: Read) -> None:
    """An overflow and the message about it: the next line does not go back a step."""
    overflow = "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 256.0\n"
    more = "Gradient overflow.  Skipping step, loss scaler 1 reducing loss scale to 64.0\n"
    found = steps_of(
        "a.log", f"step 9 loss 1.5\n{overflow}{more}Scaler critically low: 256\nstep 10 loss 1.5\n"
    )
    assert [step for step, _ in found] == [9, 10, 10, 10]


def test_a_null_alone_is_a_missing_loss(steps_of: Read) -> None:
    """The line has no other value, and every step before had a number."""
    found = steps_of(
        "a.log", "".join(f"step {step}: loss=1.5\n" for step in range(4)) + "step 4: loss=None\n"
    )
    assert found[-1][0] == 4
    assert math.isnan(found[-1][1]["loss"])


def test_settings_are_not_records(steps_of: Read) -> None:
    """A page of settings before the training, some of them named like losses."""
    settings = "LR: 0.1\nloss_scale: 65536\n  freq_loss: 0.1\nepochs: 300\nloss: mse\n"
    assert steps_of("a.log", settings + "step 1 loss 0.5\n") == [(1, {"loss": 0.5})]


def test_epochs_times_iterations_are_steps(steps_of: Read) -> None:
    """The length of an epoch is that of the previous one; a summary of an epoch is not a step."""
    text = "".join(
        f"Epoch [{epoch}/9], Step [{step}/600], Loss: 0.5\n" for epoch in (1, 2, 3) for step in (300, 600)
    )
    found = steps_of("a.log", text + "Epoch 3 | Train Loss: 0.45 | Val Acc: 50.1%\n")
    assert [step for step, _ in found] == [300, 600, 900, 1200, 1500, 1800, 1800]
    assert found[-1][1] == {"val/acc": 50.1}


def test_ranks_stay_apart(written: Written) -> None:
    """torchrun's prefixes name the writer."""
    text = "".join(f"[rank{rank}]: step={step} loss={rank}.5\n" for step in (1, 2) for rank in (0, 1))
    found = records(list(written("a.log", text).items()))
    assert [(record.rank, record.step, record.attempt) for record in found] == [
        (0, 1, 0),
        (1, 1, 0),
        (0, 2, 0),
        (1, 2, 0),
    ]
