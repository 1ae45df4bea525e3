"""Messages about records that the server does not have."""

from __future__ import annotations

from tocsin.transport.undelivered import what_is_left


def test_a_run_of_which_only_the_end_is_missing_counts_no_records() -> None:
    assert what_is_left(0, 0, None, "refused").startswith("the end of this run was not delivered (refused).")
