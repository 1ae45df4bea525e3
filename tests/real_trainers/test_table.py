"""The table of docs/reference/frameworks.md."""

from __future__ import annotations

import pytest

from tests.real_trainers.comparison import Cost
from tests.real_trainers.table import HEADINGS, PAGE, cells_of, trainers, wanted


def cells() -> list[list[str]]:
    """The rows of the page's table, without its headings."""
    return cells_of(PAGE.read_text("utf-8"))


def test_every_framework_has_its_row() -> None:
    """The table has each framework of the tests exactly once."""
    assert [row[0] for row in cells()] == [trainer.framework for trainer in trainers()]


def test_every_row_has_all_columns() -> None:
    """A new column needs a new table."""
    assert {len(row) for row in cells()} == {len(HEADINGS)}


def test_the_versions_are_those_that_the_tests_install() -> None:
    """A new version in a requirements file needs a new table."""
    files = [path.read_text("utf-8") for path in (PAGE.parents[2] / "tests/real_trainers").glob("*.txt")]
    pinned = {line.partition("==")[2] for text in files for line in text.splitlines()}
    assert {row[1] for row in cells()} <= pinned


def test_names_with_spaces_are_chosen() -> None:
    """They are separated by commas."""
    assert wanted("Ignite, Ultralytics YOLO") == ["Ignite", "Ultralytics YOLO"]


def test_an_unknown_name_is_refused() -> None:
    """The message names it and those that exist."""
    with pytest.raises(SystemExit, match=r"Unknown framework: YOLO\. .*Ultralytics YOLO"):
        wanted("Ignite, YOLO")


def test_the_cost_is_the_ratio_within_a_pair() -> None:
    """Both trainings of a pair run under the same load."""
    cost = Cost([(0.001, 0.0012), (0.002, 0.0026), (0.003, 0.0033)])
    assert str(cost) == "1.20 (1.10 to 1.30) x 2.00 ms"
