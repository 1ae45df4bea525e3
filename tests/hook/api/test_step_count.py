"""The step of a logged value follows from what counts the steps: log itself, run.step or the ledger."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tocsin.api.step_count import StepCount

LOSS, LR = ("loss",), ("lr",)


def _ledger(**state: Any) -> SimpleNamespace:
    """Return a ledger with one optimizer, between its steps 4 and 5."""
    rest = {"quiet": False, "trackers": {1: None}, "untouched": False, "step": 4, "coming": 4}
    return SimpleNamespace(**rest | state)


@given(st.lists(st.sampled_from([LOSS, LR, ("loss", "lr"), ("accuracy",)]), max_size=30))
def test_log_counts_as_often_as_a_name_comes_back(calls: list[tuple[str, ...]]) -> None:
    """No name is logged twice in one step, and the steps have no gap."""
    count = StepCount(None, None, ())
    steps = [count.of(names, names) for names in calls]
    logged = [(step, name) for step, names in zip(steps, calls, strict=True) for name in names]
    assert len(logged) == len(set(logged))
    assert sorted(set(steps)) == list(range(len(set(steps))))


def test_a_step_of_the_script_continues_the_count() -> None:
    count = StepCount(None, None, ())
    count.count_from(10, LOSS)
    assert (count.of(LR, LR), count.of(LOSS, LOSS)) == (10, 11)


def test_an_older_step_of_the_script_does_not_move_the_count_back() -> None:
    count = StepCount(None, None, ())
    count.count_from(10, LOSS)
    count.count_from(3, LR)
    assert (count.current, count.coming(LOSS), count.following) == (10, 11, 11)


def test_a_backward_opens_the_step_of_later_values() -> None:
    ledger = _ledger()
    count = StepCount(None, ledger, ())
    before = count.of(LOSS, LOSS)
    ledger.coming = 5
    assert (before, count.of(LOSS, LOSS)) == (4, 5)


def test_a_checkpoint_contains_the_newest_update_also_after_a_backward() -> None:
    assert StepCount(None, _ledger(coming=5), ()).updated == 4


def test_names_of_the_first_forward_pass_belong_to_the_step_after_it() -> None:
    """Logged before each backward from the start on, a name never belongs to the finished step."""
    ledger = _ledger(untouched=True, step=-1, coming=0, trackers={})
    count = StepCount(None, ledger, ())
    count.named(LOSS)
    first = count.of(LOSS, LOSS)
    ledger.untouched, ledger.step, ledger.trackers = False, 0, {1: None}
    assert (first, count.of(LOSS, LOSS)) == (0, 1)


def test_the_first_explicit_step_is_the_only_captured_one() -> None:
    ledger = _ledger(step=0, primary=SimpleNamespace(number=1))
    count = StepCount(None, ledger, ())
    assert count.use_explicit_steps(None)
    assert (ledger.quiet, count.report(None), count.report(None)) == (True, 0, 1)


def test_a_later_explicit_step_follows_the_captured_ones() -> None:
    count = StepCount(None, _ledger(primary=SimpleNamespace(number=5)), ())
    assert not count.use_explicit_steps(None)
    assert count.report(None) == 5


def test_a_loaded_checkpoint_moves_log_and_run_step() -> None:
    count = StepCount(None, None, ())
    count.continue_after(99)
    assert (count.following, count.of(LOSS, LOSS), count.report(None)) == (100, 100, 100)
