"""Tests of the rule trainer-lost."""

from __future__ import annotations

from dataclasses import replace

from tocsin_server.detect.interface.liveness import Liveness
from tocsin_server.detect.rules.system.trainer_lost import check

S = 10**9
GONE = Liveness(
    opened_ns=0,
    last_record_ns=995 * S,
    last_step=41,
    intervals_s=(0.2,) * 100,
    phase="eval",
    phase_since_ns=990 * S,
    connected=False,
    silent_since_ns=1000 * S,
    server_started_ns=0,
    ended=False,
)


def verdicts(liveness: Liveness, at_s: int) -> list[str]:
    return [f"{item.state} {item.severity}" for item in check(liveness, at_s * S)]


def test_thirty_seconds_without_connection() -> None:
    """Lost after 30 s without connection and finish, also within a declared phase."""
    assert verdicts(GONE, 1030) == []
    assert verdicts(GONE, 1031) == ["firing warning"]


def test_ten_minutes_without_connection_are_critical() -> None:
    """Hosts that were paused and networks that were cut are mostly back by then."""
    assert verdicts(GONE, 1600) == ["firing warning"]
    assert verdicts(GONE, 1601) == ["firing critical"]


def test_counted_from_the_start_of_the_server() -> None:
    """An hour of downtime of the server does not count as a stall."""
    restarted = replace(GONE, server_started_ns=5000 * S)
    assert verdicts(restarted, 5029) == []
    assert verdicts(restarted, 5031) == ["firing warning"]


def test_a_finished_run_is_not_lost() -> None:
    """No records are expected after ``finish``."""
    assert verdicts(replace(GONE, ended=True), 9000) == []


def test_resolves_when_the_process_reconnects() -> None:
    """Without an open alert there is no finding."""
    back = replace(GONE, connected=True, silent_since_ns=None)
    assert verdicts(back, 1100) == []
    assert verdicts(replace(back, open=frozenset({"trainer-lost"})), 1100) == ["resolved info"]


def test_a_run_without_any_record_can_be_lost() -> None:
    """Killed before its first step."""
    never = replace(GONE, last_record_ns=None, last_step=None, intervals_s=())
    (finding,) = check(never, 1031 * S)
    assert finding.onset_step is None
    assert "before its first step" in finding.summary
