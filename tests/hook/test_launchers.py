"""However its ranks are started, a training is one run with one attempt, and each rank appears once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Tower, wait_for
from tests.hook.launched import free_port
from tests.matrix import LONG

SCRIPT = str(Path(__file__).with_name("launched.py"))
TORCHRUN = ("-m", "torch.distributed.run", "--nproc_per_node=2")
RANKS = 2


def ranks_of(
    tower: Tower, name: str, *command: str, **environ: str
) -> tuple[set[str], list[tuple[int, int]]]:
    """Run ``command`` to its end; return the runs of that name and (attempt, rank) of their writers."""
    environment = {"TOCSIN_URL": tower.base, "TOCSIN_TOKEN": tower.token, "OMP_NUM_THREADS": "1"}
    environment |= {"TOCSIN_SPOOL_DIR": str(tower.directory / "spool")}
    done = subprocess.run(
        [sys.executable, *command],
        env=os.environ | environment | environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    wait_for(
        lambda: len(_seen(tower, name)[1]) >= RANKS, f"records of {RANKS} ranks of {name}:\n{done.stderr}"
    )
    return _seen(tower, name)


def _seen(tower: Tower, name: str) -> tuple[set[str], list[tuple[int, int]]]:
    rows = {row["id"] for row in tower.get("/runs")["items"] if row["name"] == name}
    found = {(record["attempt"], record["rank"]) for run in rows for record in tower.records(run)}
    return rows, sorted(found)


@pytest.mark.parametrize(
    ("name", "options", "more"),
    [
        ("torchrun-port", ["--master_port={port}"], []),
        pytest.param("torchrun-standalone", ["--standalone"], [], marks=LONG),
        pytest.param(
            "torchrun-plain", ["--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0"], [], marks=LONG
        ),
        pytest.param("torchrun-late", ["--master_port={port}"], ["late"], marks=LONG),
    ],
)
def test_torchrun_gives_one_run(shared_tower: Tower, name: str, options: list[str], more: list[str]) -> None:
    """With a port, on one machine only, and with a rendezvous."""
    chosen = [option.format(port=free_port()) for option in options]
    runs, ranks = ranks_of(shared_tower, name, *TORCHRUN, *chosen, SCRIPT, name, *more)
    assert (len(runs), ranks) == (1, [(1, 0), (1, 1)])


@LONG
@pytest.mark.parametrize("late", [pytest.param(False, marks=LONG), True])
def test_spawned_ranks_are_one_run(shared_tower: Tower, late: bool) -> None:
    """``mp.spawn``: the rank comes from the process group, the launch from the parent."""
    name = f"spawn-{late}"
    runs, ranks = ranks_of(shared_tower, name, SCRIPT, name, "spawn", *(["late"] if late else []))
    assert (len(runs), ranks) == (1, [(1, 0), (1, 1)])


@LONG
def test_ranks_that_share_a_run_id_are_one_attempt(shared_tower: Tower) -> None:
    """``TOCSIN_RUN_ID`` names the run; the ranks of one launch are one attempt of it."""
    command = [*TORCHRUN, f"--master_port={free_port()}", SCRIPT, "named"]
    runs, ranks = ranks_of(shared_tower, "named", *command, TOCSIN_RUN_ID="given-1")
    assert (runs, ranks) == ({"given-1"}, [(1, 0), (1, 1)])


@LONG
def test_ranks_started_by_hand_are_joined_by_the_server(shared_tower: Tower) -> None:
    """Variables set manually, as on several machines: two processes with one rendezvous and no job id."""
    environment: dict[str, Any] = {
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    tower, name = shared_tower, "by-hand"
    environment |= {"TOCSIN_URL": tower.base, "TOCSIN_TOKEN": tower.token}
    with subprocess.Popen(
        [sys.executable, SCRIPT, name], env=os.environ | environment | {"RANK": "1"}
    ) as other:
        runs, ranks = ranks_of(tower, name, SCRIPT, name, **environment, RANK="0")
        assert other.wait(60) == 0
    assert (len(runs), {rank for _, rank in ranks} | {1}) == (1, {0, 1})
