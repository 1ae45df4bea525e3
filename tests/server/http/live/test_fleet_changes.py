"""Which runs changed since the response with all rows."""

from __future__ import annotations

import pytest

from tocsin_server.http.live.fleet_changes import KEPT_S, FleetChanges


def test_a_page_gets_what_changed_after_its_cursor() -> None:
    """Each run once, also one that changed before and after."""
    changes = FleetChanges()
    changes.note({"a", "b"}, 1.0)
    cursor = changes.cursor()
    assert changes.since(cursor) == set()
    changes.note({"b", "c"}, 2.0)
    changes.note({"c"}, 3.0)
    assert changes.since(cursor) == {"b", "c"}


def test_a_cursor_from_before_what_was_forgotten_is_unknown() -> None:
    """The page then gets all rows; a newer cursor is still known."""
    changes = FleetChanges()
    old = changes.cursor()
    changes.note({"a"}, 0.0)
    newer = changes.cursor()
    changes.note({"b"}, KEPT_S + 1)
    assert changes.since(old) is None
    assert changes.since(newer) == {"b"}


@pytest.mark.parametrize("cursor", ["", "x", "x-0", "-1", "²"])
def test_an_invalid_cursor_is_unknown(cursor: str) -> None:
    assert FleetChanges().since(cursor) is None


def test_a_cursor_of_another_server_process_is_unknown() -> None:
    """A restarted server counts from zero again."""
    assert FleetChanges().since(FleetChanges().cursor()) is None
    ours = FleetChanges()
    assert ours.since(ours.cursor() + "9") is None
