"""All ranks of a launch agree on the run and the attempt; a restart is another attempt of the same run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.core import identity
from tocsin.core.identity import identify, launch_id, run_id, world

TORCHRUN = {"TORCHELASTIC_RUN_ID": "job7", "WORLD_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"}


def _who(environ: dict[str, str], ordinal: int = 0, resume: str | None = None, launch: str = "abc"):  # type: ignore[no-untyped-def]
    return identify("p", "n", ordinal, resume=resume, environ=environ, launch=launch)


def test_ranks_of_a_launch_share_run_and_attempt() -> None:
    """Two ranks of one torchrun differ only in their rank."""
    one, two = (_who({**TORCHRUN, "RANK": rank}, launch=f"random{rank}") for rank in "01")
    assert one.run == two.run != ""
    assert one.writer.attempt == two.writer.attempt
    assert (one.writer.rank, two.writer.rank, one.world_size, one.rendezvous) == (0, 1, 2, "")


LAUNCHERS = {
    "torchrun --master_port": {"TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": "2"},
    "deepspeed": {"LOCAL_SIZE": "2"},
    "mpirun": {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
    "mpirun with a namespace": {"PMIX_NAMESPACE": "prterun-n1-7@1"},
    "srun": {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"},
}


@pytest.mark.parametrize("environ", LAUNCHERS.values(), ids=list(LAUNCHERS))
def test_every_launcher_of_one_machine_gives_one_run(environ: dict[str, str]) -> None:
    """Ranks with the same parent compute the same run and attempt, without the server's help."""
    ranks = ({**environ, "WORLD_SIZE": "2", "MASTER_ADDR": "n1", "RANK": rank} for rank in "01")
    one, two = (identify("p", "n", 0, environ=environ) for environ in ranks)
    assert one.run == two.run != ""
    assert (one.writer.attempt, one.rendezvous) == (two.writer.attempt, "")
    assert (one.writer.rank, two.writer.rank) == (0, 1)


def test_lightning_children_join_the_process_that_started_them() -> None:
    """They have a local rank and no rank; rank 0 called ``watch`` before they existed."""
    body = (
        "import os\nfrom tocsin.core.identity import identify\n"
        "who = identify('p', 'n', 0)\nprint(who.run, who.writer.attempt, who.writer.rank)\n"
    )
    launched_as = {"LOCAL_RANK": "1", "NODE_RANK": "0", "WORLD_SIZE": "2"}
    done = subprocess.run(
        [sys.executable, "-c", body],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ | launched_as,
    )
    first = identify("p", "n", 0, environ={})
    assert done.stdout.split() == [first.run, first.writer.attempt, "1"]


def test_two_jobs_of_one_ray_node_are_two_runs() -> None:
    """All of Ray's workers have one parent; the rendezvous distinguishes the jobs."""
    node = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "n1"}
    one, two = (identify("p", "n", 0, environ={**node, "MASTER_PORT": port}) for port in ("1", "2"))
    assert one.run != two.run


def test_a_script_that_replaces_itself_is_a_restart() -> None:
    """After ``exec`` the process is the same, but its mark is from another import."""
    first = identify("p", "n", 0)
    marked = {identity._EXEC_MARKER: f"{os.getpid()}:1:0"}
    again = identify("p", "n", 0, environ=marked)
    assert (again.run, again.restarts) == (first.run, 1)
    assert again.writer.attempt != first.writer.attempt


def test_a_restart_is_a_new_attempt_of_the_same_run() -> None:
    """The elastic restart count and Slurm's requeue count each make a new attempt key."""
    first = _who(TORCHRUN)
    second = _who({**TORCHRUN, "TORCHELASTIC_RESTART_COUNT": "1"})
    third = _who({**TORCHRUN, "SLURM_RESTART_COUNT": "1"})
    assert first.run == second.run == third.run
    assert len({one.writer.attempt for one in (first, second, third)}) == 3
    assert (first.restarts, second.restarts, third.restarts) == (0, 1, 1)


def test_without_a_launch_id_the_server_joins_the_ranks() -> None:
    """World size above 1 and no launch id: the run id is empty, and the rendezvous is sent."""
    who = _who({"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"})
    assert (who.run, who.rendezvous, who.world_size) == ("", "n1:29500", 4)


@pytest.mark.parametrize(
    ("environ", "resume", "run"),
    [
        ({"TOCSIN_RUN_ID": "mine"}, "other", "mine"),
        ({}, "other", "other"),
        ({}, None, run_id("p", "n", "abc", 0)),
        ({"TOCSIN_RUN_ID": "mine", **TORCHRUN, "TORCHELASTIC_RUN_ID": "none"}, None, "mine"),
    ],
)
def test_the_run_identifier_is_chosen_in_order(environ: dict[str, str], resume: str | None, run: str) -> None:
    """The environment first, then ``resume=``, then the hash."""
    assert _who(environ, resume=resume).run == run


@pytest.mark.parametrize(
    ("environ", "launch"),
    [
        ({"TORCHELASTIC_RUN_ID": "none", "SLURM_JOB_ID": "12", "SLURM_STEP_ID": "3"}, "12.3"),
        ({"SLURM_JOB_ID": "12"}, "12"),
        ({"TORCHELASTIC_RUN_ID": "a", "SLURM_JOB_ID": "12"}, "a"),
        ({}, ""),
    ],
)
def test_the_launch_is_named_by_its_launcher(environ: dict[str, str], launch: str) -> None:
    """torchrun's id counts unless it is ``none``; then the Slurm job step."""
    assert launch_id(environ) == launch


def test_two_watches_of_one_process_never_share_a_writer() -> None:
    """Each watch is a separate attempt, also of a shared run, so no record is mistaken for a repeated one."""
    one, two = (_who({"TOCSIN_RUN_ID": "mine"}, ordinal=ordinal) for ordinal in (0, 1))
    assert one.run == two.run
    assert one.writer != two.writer


def test_the_writer_is_this_process() -> None:
    """Boot, pid and start of this process, the same at every call."""
    one, two = _who({}), _who({})
    assert one.writer == two.writer
    assert one.writer.pid == os.getpid()
    assert one.writer.boot
    assert one.writer.started_ns > 0


@given(st.dictionaries(st.sampled_from(["RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"]), st.text()))
def test_an_invalid_environment_is_accepted(environ: dict[str, str]) -> None:
    """Whatever the variables hold, rank is at least 0 and world size at least 1."""
    rank, size = world(environ)
    assert rank >= 0
    assert size >= 1


def test_a_script_that_replaces_itself_is_another_writer() -> None:
    """``exec`` keeps pid and start, also under a launcher that names the launch: the numbers start again."""
    body = (
        "import os, sys\nfrom tocsin.core.identity import writer_id\nwriter = writer_id('job', 0)\n"
        "print(writer.pid, writer.started_ns, flush=True)\n"
        "if len(sys.argv) == 1: os.execv(sys.executable, [sys.executable, '-c', sys.orig_argv[2], 'again'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", body], capture_output=True, text=True, timeout=60, check=True
    )
    (first, began), (second, begun) = (line.split() for line in done.stdout.splitlines())
    assert first == second
    assert began != begun
