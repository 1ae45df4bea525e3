"""Any line of a log is read in linear time and without an error."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from tests.hook.importers.conftest import records
from tocsin.importers import Format, Stream, known_formats
from tocsin.importers.names import alias, normal
from tocsin.importers.values import text_number

LENGTH = 30_000
"""Characters. A quadratic pattern takes seconds for it, a linear one a few milliseconds."""
CPU_S = 1.0
HEADS = {
    "": [
        " ",
        "1",
        "a",
        "_",
        "-",
        "[",
        "(",
        ":",
        "|",
        ",",
        ".",
        "/",
        "%",
        '"',
        "{",
        "\\",
        "\x1b[",
        "\x1b]",
        "\b",
    ],
    "loss": ["=", " ", "a-", "a ", "1.", " at ", "_loss", "[a", "(a"],
    "loss=": [" ", "1", "1,1", "1e"],
    "nan loss at ": [" ", "a ", "1"],
    "top1 1": ["1", " 1", "."],
    "epoch 1": [" ", "] "],
    "batch": [" ", "#"],
    "val 1": ["1", "1 /", " "],
    "1/": ["1", "1/", " 1"],
    "rank": ["1"],
    "lr: 0.": ["0"],
    "Epoch: [1]  [1/2] ": ["loss", "a ", "a/", " 1", "1y"],
    "Train: [1/3][1/3] ": ["1 ", "a@", "-"],
    "Train: 1 [1/1 (": ["Train: 1 [1/1 ("],
    "Test: [ 1/1] Loss: ": ["Loss:", "a", "1 ("],
    "(epoch: 1, iters: 1, time: ": ["1", "1."],
    "(epoch: 1, iters: ": ["1"],
    "(epoch: 1, iters: 1) ": ["a+", "a: 1", "1"],
    " iteration 1/ 2 | ": [" ", "a ", "a: ", ":", "a: 1 ", "["],
    "[epoch: 1, iter: 1, lr:(": ["1,", "[epoch: 1, iter: 1, lr:("],
    "[epoch: 1, iter: 1, lr:(1)] ": ["a.", "a: 1", "1"],
    "step=1, skipped=1, lr=[": ["1,", "step=1, skipped=1, lr=["],
    "steps: 1 loss: 1 iter time (s): ": ["1."],
    "| train_inner | {": ["|dev|{", "}", "a"],
    "|dev": ["|dev", "x"],
    "s:1 trl:": ["1", "1 lr:1 "],
    "step 1/2 | loss ": ["1", " (a"],
    "[step=1]": [" "],
    "----------": ["-"],
    "scaler scale": [" ", "scale:"],
    "gradient overflow": [" ", "loss scaler 1 "],
    "} ": [" "],
}
LINES = [head + unit * ((LENGTH - len(head)) // len(unit)) for head, units in HEADS.items() for unit in units]
TABLES = ("algoperf", "lightning", "yolo")
"""These read their rows as CSV does."""


class TooLongError(Exception):
    """A line took more than CPU_S seconds."""


@contextmanager
def cpu_limit() -> Iterator[None]:
    """Raise TooLongError in the block if it takes far more processor time than a linear pattern would."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def is_read_in_time(form: Format, text: str) -> bool:
    try:
        with cpu_limit():
            stream = Stream(form)
            list(stream.feed(text.encode()))
            list(stream.end())
    except TooLongError:
        return False
    return True


def readers() -> list[Format]:
    return [form for form in known_formats() if not form.name.lower().startswith(TABLES)]


@pytest.mark.parametrize("form", readers(), ids=lambda form: form.name)
def test_a_hostile_line_takes_linear_time(form: Format) -> None:
    """No content is an error. A table is read up to its header and beyond it."""
    heads = ("", "step,loss\n1,2\n") if form.name == "CSV" else ("",)
    texts = [f"{head}{line}\n" for head in heads for line in LINES]
    assert not [text[:40] for text in texts if not is_read_in_time(form, text)]


@pytest.mark.parametrize(
    "text", ["1" * 5000, "%" * 5000, "1" + "%" * 5000, "tensor(" * 5000, "1,111" * 5000, "0." + "0" * 5000]
)
def test_text_that_looks_like_a_number_causes_no_error(text: str) -> None:
    """Neither the recursion limit nor the limit of integer digits is reached."""
    assert text_number(text) is None
    for name in (f"lr_{text}", f"lr-x/pg{text}", f"loss {text}"):
        assert alias(name) is None or normal(name)


def test_a_cell_of_any_length_is_a_line_that_cannot_be_read() -> None:
    """The csv module raises for cells above 128 KiB; the rows beside such a line are read."""
    form = next(form for form in known_formats() if form.name == "CSV")
    stream = Stream(form)
    items = list(stream.feed(f"step,loss\n1,2\n{'a' * 200_000},1\n2,3\n".encode()))
    assert [item.values for item in records(items)][::2] == [{"loss": 2.0}, {"loss": 3.0}]
