"""Periodic jobs: a failure of one subject is reported and delayed, and does not affect the others."""

from __future__ import annotations

import asyncio
import logging

import pytest
from sqlalchemy.exc import OperationalError

from tocsin_server.store.periodic_jobs import KEPT_S, LONGEST_PAUSE_S, MOST, SLOW_S, PeriodicJob, PeriodicJobs


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def job(clock: Clock) -> PeriodicJob:
    return PeriodicJob("job", clock=clock)


def away() -> OperationalError:
    return OperationalError("SELECT 1", {}, Exception("connection refused"))


def fail(job: PeriodicJob, subject: str, error: Exception | None = None) -> None:
    with job.isolated(subject):
        raise error or ValueError("damaged")


def test_a_failure_stays_with_its_subject(job: PeriodicJob) -> None:
    """The failure is reported with the reason; other subjects are not affected."""
    fail(job, "run r1")
    with job.isolated("run r2"):
        pass
    (item,) = job.failing()
    assert (item["job"], item["subject"], item["reason"]) == ("job", "run r1", "ValueError: damaged")
    assert (job.rests("run r1"), job.rests("run r2")) == (True, False)
    assert job.resting("run") == {"r1"}


def test_pauses_grow_to_ten_minutes(job: PeriodicJob, clock: Clock) -> None:
    """A failing subject is retried at increasing intervals, indefinitely."""
    pauses = []
    for _ in range(12):
        fail(job, "run r1")
        pauses.append(job.failing()[0]["next_try_s"])
        clock.now_s += pauses[-1]
        assert not job.rests("run r1")
    assert pauses == [min(2.0**n, LONGEST_PAUSE_S) for n in range(12)]


def test_a_recovered_failure_is_dropped(job: PeriodicJob) -> None:
    """The next failure of the subject starts with the shortest pause."""
    fail(job, "run r1")
    with job.isolated("run r1"):
        pass
    assert job.failing() == []


def test_a_deleted_run_is_not_reported_forever(job: PeriodicJob, clock: Clock) -> None:
    """A failure that did not recur is dropped."""
    fail(job, "run r1")
    clock.now_s += KEPT_S + 1
    assert job.failing() == []


def test_an_outage_is_not_blamed_on_a_run(job: PeriodicJob) -> None:
    """An outage ends the pass and is reported once, with the database's message."""

    async def work() -> None:
        fail(job, "run r1", away())

    asyncio.run(job.once(work))
    (item,) = job.failing()
    assert (item["subject"], item["reason"]) == ("", "connection refused")


def test_a_job_survives_every_failure(job: PeriodicJob) -> None:
    """The next pass runs, and clears the failure."""
    turns = iter((ValueError("first"), None))

    async def work() -> None:
        error = next(turns)
        if error is not None:
            raise error
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(job.keep(work, 0.0))
    assert job.failing()[0]["reason"] == "ValueError: first"


def test_the_same_failure_is_logged_once(job: PeriodicJob, caplog: pytest.LogCaptureFixture) -> None:
    """A failure is logged with its traceback; another reason is logged again."""
    with caplog.at_level(logging.INFO, "tocsin.jobs"):
        for reason in ("a", "a", "b"):
            fail(job, "run r1", ValueError(reason))
    assert [(line.exc_info is not None, line.levelname) for line in caplog.records] == [(True, "ERROR")] * 2


def test_failures_are_bounded(job: PeriodicJob) -> None:
    """Ten thousand failing runs use bounded memory."""
    logging.getLogger("tocsin.jobs").disabled = True
    for number in range(MOST + 10):
        fail(job, f"run {number}")
    logging.getLogger("tocsin.jobs").disabled = False
    assert len(job.failing()) == MOST
    assert job.failing()[-1]["subject"] == f"run {MOST + 9}"


def test_a_round_that_does_not_end_is_reported(job: PeriodicJob, clock: Clock) -> None:
    """Health has its duration."""
    found = []

    async def work() -> None:
        clock.now_s += SLOW_S + 1
        found.extend(job.failing())

    asyncio.run(job.once(work))
    assert found == [{"job": "job", "subject": "", "reason": "running for 121 s", "failures": 0}]


def test_all_jobs_are_reported_together() -> None:
    """Jobs are sorted by name; each name is one job."""
    jobs = PeriodicJobs()
    for name in ("b", "a"):
        fail(jobs.round(name), "run r1")
    assert jobs.round("a") is jobs.round("a")
    assert [item["job"] for item in jobs.failing()] == ["a", "b"]
