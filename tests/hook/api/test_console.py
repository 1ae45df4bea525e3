"""Terminal output of a run, and the URL of its page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tocsin
from tests.hook.ingest_server import IngestServer, closed_port, wait_until
from tests.hook.trainers import run_script
from tests.matrix import LONG
from tocsin import protocol
from tocsin.core.run_fields import NAME_BYTES, unique_name

THREE = "run = watch()\ntrain(run, 3)\nrun.finish()\n"


def test_a_run_says_where_it_is_and_how_it_ended(server: IngestServer, spool: Path) -> None:
    """Two lines, with the link to its page."""
    _, script = run_script(THREE, server.url, spool)
    page = f"{server.url}/runs/{server.only.hellos[0].run}"
    assert script.complaints.splitlines() == [
        f'tocsin: watching "n" (project p) at {page}',
        f'tocsin: "n" finished: 3 steps sent, no problems found. {page}',
    ]


def test_the_last_line_counts_problems_and_what_was_not_sent(server: IngestServer, spool: Path) -> None:
    """Alerts that fired, each once; without a server, what is buffered on disk."""
    fired = protocol.Alert("a1", "loss-spike", "warning", "firing", "x")
    server.say = [fired, fired, protocol.Alert("a2", "x", "warning", "resolved", "x")]
    body = THREE.replace(
        "run.finish", "\nwhile not str(run.problems)[0].isdigit(): time.sleep(0.01)\nrun.finish"
    )
    _, script = run_script(body, server.url, spool)
    assert "3 steps sent, 1 problem found" in script.complaints
    away = THREE.replace("watch()", "watch(exit_timeout=0.1)")
    _, script = run_script(away, f"http://127.0.0.1:{closed_port()}", spool)
    assert "3 steps recorded, 3 records not sent yet. http" in script.complaints


def test_the_last_line_of_a_run_without_steps_claims_no_check(server: IngestServer, spool: Path) -> None:
    """Nothing was recorded, so "no problems found" would be wrong."""
    _, script = run_script("run = watch()\nrun._reporter.start()\nrun.finish()\n", server.url, spool)
    assert "finished: 0 steps sent. http" in script.complaints


def test_a_run_that_fails_before_its_first_step_ends_with_a_line(server: IngestServer, spool: Path) -> None:
    """Its page exists, with the error."""
    _, script = run_script("run = watch()\nraise ValueError('early')\n", server.url, spool)
    assert f'tocsin: "n" failed: 0 steps sent. {server.url}' in script.complaints


def test_a_parent_of_training_processes_ends_with_a_line(server: IngestServer, spool: Path) -> None:
    """It has sent nothing itself."""
    body = (
        "import multiprocessing as mp\nrun = watch()\nchild = mp.get_context('fork').Process(target=print)\n"
    )
    _, script = run_script(body + "child.start()\nchild.join()\nrun.finish()\n", server.url, spool)
    assert 'tocsin: "n" finished: its child processes send the steps. http' in script.complaints


def test_the_last_line_counts_steps_and_not_their_numbers(server: IngestServer, spool: Path) -> None:
    """If a script logs steps twice or again, the number of steps is what it has sent."""
    body = "run = watch()\nfor step in (10, 10, 20, 30, 20): run.log(loss=1.0, step=step)\nrun.finish()\n"
    _, script = run_script(body, server.url, spool)
    assert "finished: 4 steps sent" in script.complaints


@pytest.mark.parametrize(
    ("body", "environ"),
    [
        (THREE, {"TOCSIN_QUIET": "1"}),
        (THREE.replace("watch()", "watch(quiet=True)"), {}),
        (THREE, {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}),
    ],
    ids=["variable", "argument", "another rank"],
)
def test_the_lines_can_be_left_out(
    server: IngestServer, spool: Path, body: str, environ: dict[str, str]
) -> None:
    """By a variable, by an argument, and on every rank but the first."""
    _, script = run_script(body, server.url, spool, environ=environ)
    assert script.complaints == ""


def test_a_run_without_a_name_gets_one_of_its_own(server: IngestServer, spool: Path) -> None:
    """The script's name and a number: different each time, the same on all ranks of a launch."""
    ranks = {"WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
    body = "train(tocsin.watch('p', url=url, token='tk', spool_dir=spool, patch=False), 1)\n"
    for environ in ({}, {}, {**ranks, "RANK": "0"}, {**ranks, "RANK": "1"}):
        run_script(body, server.url, spool, environ=environ)
    names = [kept.hellos[0].name for kept in server.writers.values()]
    stems = {re.sub(r"-\d{6}$", "", name) for name in names}
    assert len(set(names[:2])) == 2
    assert all(re.fullmatch(r".+-\d{6}", name) for name in names)
    assert len(stems) == 4  # each script of this test is a separate file
    assert names[2][-6:] == names[3][-6:]


def test_a_unique_name_fits() -> None:
    """However long the script's name is."""
    assert unique_name("train", "a") == unique_name("train", "a") != unique_name("train", "b")
    assert len(unique_name("ü" * 400, "a").encode()) <= NAME_BYTES


def test_a_run_knows_its_page(server: IngestServer, spool: Path) -> None:
    """Also if the server assigns the run's id."""
    with tocsin.watch("p", url=server.url, token="tk", spool_dir=spool, patch=False, quiet=True) as run:
        assert run.url == f"{server.url}/runs/{run.id}"
        run.log(a=1.0)
        wait_until(lambda: server.writers)


TRACED = """
import sys, tocsin, torch
run = tocsin.watch("p", url="http://127.0.0.1:9", spool_dir=sys.argv[1], exit_timeout=0.1)
weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weight], lr=0.1)
try:
    weight.backward()
except RuntimeError as error:
    raise ValueError("mine") from error
"""


@LONG
def test_a_traceback_shows_no_frame_of_the_hook(tmp_path: Path) -> None:
    """In the terminal, also for the error that caused it; the frames of torch and the script stay."""
    done = subprocess.run(
        [sys.executable, "-c", TRACED, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "ValueError: mine" in done.stderr
    assert os.sep.join(("torch", "_tensor.py")) in done.stderr
    assert os.path.dirname(tocsin.__file__) not in done.stderr
