"""Processes that print into one log are separated, and nothing else is mistaken for them."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.hook.importers.conftest import Written, records
from tocsin.importers.copies import ENOUGH, Copies

STEPS = 60


def line(step: int, rank: int = 0) -> str:
    return f"step {step} | loss {2 - step / 600 + rank / 1000:.4f} grad_norm 1.2\n"


def in_turn() -> str:
    return "".join(line(step) * 4 for step in range(STEPS))


def jumbled() -> str:
    """Return the log of four processes that are up to a step apart."""
    draw = random.Random(1)
    timed = [(step * 4 + draw.uniform(-3, 3), line(step, rank)) for step in range(STEPS) for rank in range(4)]
    return "".join(text for _, text in sorted(timed))


@pytest.mark.parametrize("text", [in_turn, jumbled])
def test_four_processes_are_recognized_after_ten_steps(written: Written, text: Callable[[], str]) -> None:
    """Each then has every step once; before, they count as one."""
    found = records(list(written("train.log", text()).items()))
    late = [record for record in found if record.step >= 2 * ENOUGH + 16]
    for copy in range(4):
        own = sorted(record.step for record in late if record.copy == copy)
        assert own == list(range(2 * ENOUGH + 16, STEPS))
    assert {record.copy for record in found if record.step < ENOUGH} == {0}


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"step {step} loss 2.0\nstep {step} lr 0.1 skipped=0\n" for step in range(STEPS)),
        "".join(f"step {step} loss 2.0\n" * (1 + (step % 5 == 4)) for step in range(STEPS)),
        "".join(f"epoch {step // 20} step {step} val_loss: 2.0\n" * 2 for step in range(STEPS)),
    ],
    ids=["a step over two lines", "the last of an epoch twice", "evaluations"],
)
def test_other_repetitions_are_not_mistaken_for_processes(written: Written, text: str) -> None:
    """Lines that complete each other, a progress bar that repeats its end, metrics."""
    assert {record.copy for record in records(list(written("train.log", text).items()))} == {0}


def test_memory_is_bounded() -> None:
    """Only the newest steps are kept, for a log of any length."""
    copies = Copies()
    for step in range(10_000):
        copies.place(step, {"loss"})
    assert len(copies._seen) <= 16


def test_evaluations_of_several_processes_are_separated(written: Written) -> None:
    """A process that lags reports an older evaluation, which is not a rewind of the first process."""
    lines = ["step,loss,val_psnr"]
    for step in range(STEPS):
        lines.append(f"{step},{2 - step / 600:.4f},")
        if step % 5 == 4:
            lines.append(f"{step},,{20 + step / 10:.2f}")
    late = [[], [], [], *[[line] for line in lines[1:]]]
    text = "\n".join(
        [lines[0], *(out for line, old in zip(lines[1:], late, strict=False) for out in (line, *old))]
    )
    log = written("train.csv", text)
    found = [record for record in records(list(log.items())) if record.step >= 2 * ENOUGH + 16]
    for copy in range(2):
        evaluated = [record.step for record in found if record.copy == copy and "val/psnr" in record.values]
        assert evaluated == sorted(set(evaluated))
        assert len(evaluated) >= 3
