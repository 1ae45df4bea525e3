"""Tests of the simulation behind the false-alarm rates of rules by the clock."""

from __future__ import annotations

from benchmarks.bench_detect_clock import KINDS, count


def test_an_evaluation_that_comes_again_is_soon_the_runs_own() -> None:
    """An undeclared pause raises a warning at first, then counts as usual; it is never critical."""
    tally = count(KINDS["evaluations of 2 to 8 min, every hour"], runs=1, hours=12.0)
    assert 1 <= tally.stalled_warning <= 3
    assert tally.stalled_critical == 0


def test_a_cut_network_is_no_emergency_for_ten_minutes() -> None:
    """A client that is gone for a while raises a warning."""
    tally = count(KINDS["a network that is cut for 20 s to 10 min, every 6 hours"], runs=1, hours=30.0)
    assert tally.lost_warning > 0
    assert tally.lost_critical == 0
