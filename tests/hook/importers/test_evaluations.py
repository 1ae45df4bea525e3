"""The loss of an evaluation in a script's log is not a training loss."""

from __future__ import annotations

import pytest

from tests.hook.importers.test_formats import Read
from tocsin.importers.evaluations import announces_evaluation, is_part

TRAINED = "step 49: loss: 0.5\n"


@pytest.mark.parametrize(
    "line",
    [
        "Validation: loss=5.1, acc=0.8",
        "[Eval] step 50 loss: 5.1",
        "Test set: Average loss: 5.1, Accuracy: 9800/10000 (98%)",
        "Evaluation results - loss: 5.1",
        "Epoch 1 validation | loss 5.1",
        "2022-03-01 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 5.1 | ppl 18.0",
    ],
)
def test_an_announced_evaluation_is_recognized(line: str, steps_of: Read) -> None:
    """In any wording; the training loss has no spike there."""
    found = steps_of("a.log", TRAINED + line + "\n" + TRAINED.replace("49", "51"))
    assert [values["loss"] for _, values in found if "loss" in values] == [0.5, 0.5]
    assert [values["val/loss"] for _, values in found if "val/loss" in values] == [5.1]


def test_a_run_that_is_called_test_is_trained(steps_of: Read) -> None:
    """If every line contains "test", it is the name of the logger."""
    found = steps_of("a.log", "".join(f"test: step {step} loss: {step / 4}\n" for step in range(9)))
    assert [values for _, values in found] == [{"loss": step / 4} for step in range(9)]


@pytest.mark.parametrize(
    "before", ["/data/test/run.py:12 step 3 ", "train/val split, step 3 ", "valid tokens 3 | ", "step 3 | "]
)
def test_a_word_in_passing_announces_nothing(before: str) -> None:
    """Such as a path, a split, a count of valid tokens."""
    assert not announces_evaluation(before)


def test_only_the_end_of_an_evaluation_counts(steps_of: Read) -> None:
    """Its batches and its progress bar are not counted as further evaluations."""
    bars = "".join(f"\rValidation: {at}/4 [00:0{at}<00:04, loss={at}]" for at in range(5))
    found = steps_of("a.log", TRAINED + bars.lstrip("\r") + "\n")
    assert [values for _, values in found if "val/loss" in values] == [{"val/loss": 3.0}, {"val/loss": 4.0}]
    assert is_part("Val batch 3: ")
