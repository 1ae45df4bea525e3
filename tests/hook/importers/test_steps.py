"""Where a new run begins within one file, and where steps merely go back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.hook.importers.conftest import Written, records
from tocsin.importers.assembly import MOST_RANKS, Assembly
from tocsin.importers.items import LogRecord, Row, Unread
from tocsin.importers.steps import StepCount


def attempts(count: StepCount, steps: list[int]) -> list[int]:
    """Return the attempt of each step."""
    found = []
    for step in steps:
        count.place(Row(1, {}, step=step))
        found.append(count.attempt)
    return found


def test_a_step_back_to_the_first_is_a_new_run() -> None:
    """Three runs in one file."""
    assert attempts(StepCount(), [0, 10, 20, 0, 10, 0]) == [0, 0, 0, 1, 1, 2]


def placed(rows: list[tuple[int, str]]) -> list[tuple[int, int]]:
    """Return the attempt and step of rows that have only an epoch and a value of some name."""
    count, found = StepCount(), []
    for epoch, name in rows:
        step = count.place(Row(1, {name: 1.0}, epoch=float(epoch)))
        found.append((count.attempt, step))
    return found


def test_an_epoch_with_one_row_is_the_step() -> None:
    """Also if its values are in several lines."""
    rows = [(1, "loss"), (1, "lr"), (2, "loss"), (2, "lr"), (3, "loss")]
    assert [step for _, step in placed(rows)] == [1, 1, 2, 2, 3]


def test_rows_of_an_epoch_are_numbered() -> None:
    """Epochs are no steps if the first one has several rows; the first epoch again is a new run."""
    rows = [(1, "loss"), (1, "loss"), (1, "loss"), (2, "loss"), (2, "loss"), (1, "loss"), (1, "loss")]
    assert placed(rows) == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 1), (1, 2)]


def test_a_rewind_stays_in_its_run() -> None:
    """A return to a checkpoint is kept for the rules, and it is counted."""
    count = StepCount()
    assert attempts(count, [0, 10, 20, 10, 20]) == [0] * 5
    assert count.went_back == 1


def test_a_header_that_comes_again_is_a_new_run(written: Written) -> None:
    """A table that two launches appended to, with other columns the second time."""
    text = "step,loss\n1,0.5\n2,0.4\nstep,loss,lr\n3,0.3,0.1\n"
    found = records(list(written("a.csv", text).items()))
    assert [(record.attempt, record.step) for record in found] == [(0, 1), (0, 2), (1, 3)]
    assert found[2].values == {"loss": 0.3, "lr": 0.1}


def test_ranks_are_bounded() -> None:
    """A file with a new rank in every line uses bounded memory; the first ranks are read."""
    assembly = Assembly()
    rows = [Row(line, {"loss": 1.0}, step=1, rank=line) for line in range(2 * MOST_RANKS)]
    found = list(assembly.take([*rows, Row(0, {"loss": 2.0}, step=2, rank=5)]))
    assert [item.rank for item in found if isinstance(item, LogRecord)] == [*range(MOST_RANKS), 5]
    assert sum(isinstance(item, Unread) for item in found) == MOST_RANKS


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(1, 9))
def test_steps_of_epochs_never_fall(ends: list[int], stride: int) -> None:
    """For epochs of any length."""
    count = StepCount()
    found = [
        count.place(Row(1, {}, epoch=epoch, iteration=iteration))
        for epoch, end in enumerate(ends)
        for iteration in range(0, end, stride)
    ]
    assert found == sorted(found)
    assert count.attempt == 0
