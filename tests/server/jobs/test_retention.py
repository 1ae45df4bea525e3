"""Selection of runs that are past their retention time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin_server.core.models import RunState
from tocsin_server.core.settings import Settings
from tocsin_server.jobs.retention import DAY_NS, expired, is_expired, last_word_ns
from tocsin_server.store.results import StoredRun

NOW = 1000 * DAY_NS
OLD = StoredRun(
    "r1", "deblur", "mdt", RunState.FINISHED, 0, 10 * DAY_NS, 10 * DAY_NS, 5, None, 1, "node", "", [], None,
    {}, None, None, False, 1,
)  # fmt: skip


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.STALLED])
def test_a_running_run_is_never_deleted(state: RunState) -> None:
    """An active run is kept, however old its last record is."""
    assert not is_expired(replace(OLD, state=state, ended_ns=None), 1.0, NOW)


@pytest.mark.parametrize("state", [RunState.FINISHED, RunState.FAILED, RunState.LOST])
def test_an_ended_run_is_deleted_after_its_days(state: RunState) -> None:
    """A run is deleted no earlier; for a lost run, the time since its last record counts."""
    run = replace(OLD, state=state)
    assert not is_expired(run, 990.0, NOW)
    assert is_expired(run, 989.9, NOW)


@given(st.integers(0, NOW), st.integers(0, NOW))
def test_zero_days_keep_runs_indefinitely(seen: int, ended: int) -> None:
    """Zero days keep runs of every state."""
    assert not is_expired(replace(OLD, last_seen_ns=seen, ended_ns=ended), 0.0, NOW)


def test_a_project_has_days_of_its_own() -> None:
    """A project may have fewer days, more days, or no limit."""
    runs = [replace(OLD, id=name, project=name) for name in ("short", "kept", "other")]
    days = (("short", 1.0), ("kept", 0.0))
    found = expired(runs, Settings(retention_days=2000.0, retention_projects=days), NOW)
    assert [run.id for run in found] == ["short"]
    found = expired(runs, Settings(retention_days=1.0, retention_projects=days), NOW)
    assert [run.id for run in found] == ["short", "other"]


def test_a_connected_run_stays() -> None:
    """The database does not know yet that the client has reconnected."""
    assert expired([OLD], Settings(retention_days=1.0), NOW, connected={"r1"}) == []


def test_an_import_is_a_word() -> None:
    """An old run that was imported today is not deleted the same night."""
    assert last_word_ns(replace(OLD, environment={"imported": {"at_ns": NOW}})) == NOW
