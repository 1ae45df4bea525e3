"""Calls after a number of attempted steps: each once, none too early, one comparison at all other steps."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.capture.step_scheduler import NEVER, NORM_EVERY, StepScheduler, norm_every


@given(st.lists(st.integers(0, 30), max_size=20))
def test_every_call_is_made_once_at_its_step(wanted: list[int]) -> None:
    """Each call is returned at its attempt, if it is requested when ``next`` says so."""
    made: list[tuple[int, int]] = []
    book, now = StepScheduler(), [0]
    for number in wanted:
        book.schedule(number, partial(lambda number: made.append((number, now[0])), number))
    for now[0] in range(1, 32):
        if now[0] >= book.next:
            for call in book.take_due(now[0]):
                call()
    assert sorted(made) == sorted((number, max(number, 1)) for number in wanted)
    assert book.next == NEVER


def test_an_appointment_made_in_one_is_kept_at_the_next_step() -> None:
    """A call that is added by another one is not due in the same pass, so that a step cannot loop."""
    book = StepScheduler()
    book.schedule(1, lambda: book.schedule(0, lambda: None))
    (first,) = book.take_due(1)
    first()
    assert book.next == 0
    assert len(book.take_due(2)) == 1


@pytest.mark.parametrize(
    ("given", "every"), [("auto", NORM_EVERY), (True, 1), (False, 0), (0, 0), (1, 1), (50, 50)]
)
def test_how_often_a_norm_is_taken(given: Any, every: int) -> None:
    """The keywords of ``grad_norm=`` and their numbers."""
    assert norm_every(given) == every


@pytest.mark.parametrize("given", ["often", -1, 1.5, None])
def test_other_words_are_refused(given: Any) -> None:
    """With the expected and the actual value."""
    with pytest.raises(ValueError, match='expected "auto", True, False or a number of steps, got'):
        norm_every(given)
