"""However a process ends, all its steps arrive once, with the reason."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tocsin
from tests.hook.ingest_server import IngestServer
from tests.hook.trainers import assert_whole, bring_in, logs_of, run_script
from tests.matrix import ALL, LONG, represented

HANDLER = "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
"""Processes begun in the background of a shell ignore it."""

ENDINGS = {
    "normal end": ("", 0, "finished", ""),
    "sys.exit(0)": ("sys.exit(0)", 0, "finished", ""),
    "sys.exit(3)": ("sys.exit(3)", 3, "failed", "SystemExit"),
    "sys.exit with a text": ("sys.exit('no data')", 1, "failed", "SystemExit"),
    "sys.exit within an except": (
        "try:\n    1 / 0\nexcept Exception:\n    sys.exit(1)",
        1,
        "failed",
        "ZeroDivisionError",
    ),
    "exception": ("raise ValueError('boom')", 1, "failed", "ValueError"),
    "SIGINT": (
        f"{HANDLER}os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)",
        130,
        "failed",
        "KeyboardInterrupt",
    ),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(9)", -15, "failed", "SIGTERM"),
    "CUDA out of memory": (
        "import torch\nraise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB')",
        1,
        "failed",
        "OutOfMemoryError",
    ),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_an_ending_process_delivers_everything_and_its_cause(
    server: IngestServer, spool: Path, how: str
) -> None:
    """All 300 steps and the finish with state, type, message and last lines; the exit status is kept."""
    last_line, status, state, kind = ENDINGS[how]
    body = f"run = watch(patch={how == 'SIGTERM'})\ntrain(run, 300)\n{last_line}\n"
    found, script = run_script(body, server.url, spool)
    assert found in (status, -signal.SIGINT if status == 130 else status), script.complaints
    assert_whole(server.only, 300)
    finish = server.only.finish
    assert finish is not None
    assert (finish.state, finish.error.get("type", "")) == (state, kind)
    if state == "failed":
        assert any(line.strip() in last_line for line in finish.error["lines"])
    assert (list(spool.iterdir()), logs_of(spool)) == ([], [])


@pytest.mark.parametrize("record", ["run.step(loss=1.0, step=300)", "run.log(note=1.0)"])
def test_a_training_that_continues_after_an_exit_has_not_failed(
    server: IngestServer, spool: Path, record: str
) -> None:
    """The script catches ``SystemExit``, as programs do that call others by their ``main``."""
    ends = f"try:\n    sys.exit(3)\nexcept SystemExit:\n    {record}\n"
    status, script = run_script(f"run = watch()\ntrain(run, 300)\n{ends}", server.url, spool)
    assert status == 0, script.complaints
    finish = server.only.finish
    assert finish is not None
    assert finish.state == "finished"


def test_os_exit_leaves_everything_for_the_next_process(server: IngestServer, spool: Path) -> None:
    """No atexit, no flush: the newest records are delivered later."""
    status, _ = run_script("run = watch()\ntrain(run, 400)\nos._exit(3)\n", server.url, spool)
    assert status == 3
    bring_in(spool, server.url)
    assert_whole(server.only, 400)


CHILDREN = {
    "fork": "if os.fork() == 0:\n    train(run, 100)\n    run.finish()\n    os._exit(0)\nos.wait()\n",
    "fork that ends normally": "if os.fork() == 0:\n    tocsin.log(x=1.0)\n    sys.exit(0)\nos.wait()\n",
}


@pytest.mark.parametrize("how", CHILDREN)
def test_a_fork_adds_and_removes_no_records(server: IngestServer, spool: Path, how: str) -> None:
    """The child logs, finishes and ends; only the parent's steps arrive, all of them."""
    body = f"run = watch()\ntrain(run, 200)\n{CHILDREN[how]}train(run, 200)\n"
    status, _ = run_script(body, server.url, spool)
    assert status == 0
    assert_whole(server.only, 400)
    assert len(server.writers) == 1


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_every_start_method_stay_silent(server: IngestServer, spool: Path, method: str) -> None:
    """Pools of worker processes that import the script: one writer, all steps, a clean exit."""
    body = (
        "import multiprocessing\n"
        "def work(n):\n    tocsin.log(from_worker=1.0)\n    return n * n\n"
        "run = watch()\n"
        "if __name__ == '__main__':\n"
        "    train(run, 100)\n"
        f"    with multiprocessing.get_context('{method}').Pool(2) as pool:\n"
        "        assert pool.map(work, range(8)) == [n * n for n in range(8)]\n"
        "    train(run, 100)\n"
    )
    status, script = run_script(body, server.url, spool)
    assert status == 0, script.complaints
    assert_whole(server.only, 200)
    assert len(server.writers) == 1


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=LONG)])
def test_workers_of_a_data_loader_stay_silent(server: IngestServer, spool: Path, method: str) -> None:
    """Two workers, two epochs, garbage collections in between: no hang, and only the trainer's steps."""
    body = (
        "import gc, torch\nfrom torch.utils.data import DataLoader, Dataset\n"
        "class Numbers(Dataset):\n"
        "    def __len__(self): return 8\n"
        "    def __getitem__(self, i):\n"
        "        gc.collect()\n        tocsin.log(x=1.0)\n        return torch.ones(1)\n"
        "if __name__ == '__main__':\n"
        "    run = watch(patch=True)\n"
        "    loader = DataLoader(Numbers(), batch_size=2, num_workers=2,\n"
        f"        multiprocessing_context='{method}')\n"
        "    for _ in range(2):\n        for batch in loader:\n            train(run, 10)\n"
    )
    status, script = run_script(body, server.url, spool)
    assert status == 0, script.complaints
    assert_whole(server.only, 80)
    assert len(server.writers) == 1


# --- every Python that the hook supports

CODE = Path(__file__).parents[3]


def interpreters() -> list[str]:
    """Return the version numbers of the other installed Pythons: all of them, or the oldest."""
    found = sorted(Path.home().glob(".pyenv/versions/3.1[0-9].*/bin/python"))
    others = [path.parts[-3] for path in found if sys.version.split()[0] != path.parts[-3]]
    return others if ALL else others[:1]


def packages_for(python: str, version: str) -> Path:
    """Install msgspec and websockets for that Python, once; skip if they are not available."""
    place = CODE / "build" / "interpreters" / version
    if not (place / "websockets").exists():
        command = [python, "-m", "pip", "install", "-q", "--only-binary", ":all:", "--target", str(place)]
        command += ["msgspec", "websockets"]
        done = subprocess.run(command, capture_output=True, timeout=90, check=False)
        if done.returncode:
            pytest.skip(f"msgspec and websockets are not to be had for Python {version} here")
    return place


@pytest.mark.parametrize("version", interpreters() or ["none"])
def test_interpreter_shutdown_delivers_on_every_python(
    server: IngestServer, spool: Path, version: str
) -> None:
    """The newest records and the finish are sent at exit without starting a thread."""
    if version == "none":
        pytest.skip("no other Python is installed here")
    python = str(Path.home() / ".pyenv" / "versions" / version / "bin" / "python")
    paths = f"{packages_for(python, version)}:{CODE / 'client_hook'}"
    environ = {"PYTHONPATH": paths, "PYTHONWARNINGS": "error", "TOCSIN_QUIET": "1"}
    body = "run = watch()\ntrain(run, 300)\n"
    status, script = run_script(body, server.url, spool, python=python, environ=environ)
    assert (status, script.complaints) == (0, "")
    assert_whole(server.only, 300)
    assert server.only.finish is not None
    assert list(spool.iterdir()) == []


WORKERS = {
    "normal end": ("", "finished", ""),
    "exception": ("raise ValueError('boom')", "failed", "ValueError"),
    "sys.exit(3)": ("sys.exit(3)", "failed", "SystemExit"),
    "exit within an except": (
        "try:\n        1 / 0\n    except Exception:\n        sys.exit(1)",
        "failed",
        "ZeroDivisionError",
    ),
}


@pytest.mark.parametrize("method", represented(["fork", "spawn"]))
@pytest.mark.parametrize("how", WORKERS)
def test_a_run_of_a_worker_process_ends_with_it(
    server: IngestServer, spool: Path, how: str, method: str
) -> None:
    """multiprocessing catches uncaught exceptions, and ends a fork without atexit: the run reports them
    anyway."""
    last_line, state, kind = WORKERS[how]
    body = (
        "import multiprocessing\n"
        f"def work():\n    run = watch()\n    train(run, 50)\n    {last_line}\n"
        "if __name__ == '__main__':\n"
        f"    worker = multiprocessing.get_context({method!r}).Process(target=work)\n"
        "    worker.start()\n    worker.join()\n"
    )
    status, script = run_script(body, server.url, spool)
    assert status == 0, script.complaints
    assert_whole(server.only, 50)
    finish = server.only.finish
    assert finish is not None
    assert (finish.state, finish.error.get("type", "")) == (state, kind)


@pytest.mark.parametrize("passes_on", [False, True])
def test_an_uncaught_exception_is_reported_with_another_excepthook(
    server: IngestServer, spool: Path, passes_on: bool
) -> None:
    """Libraries with their own traceback output replace our hook."""
    hook = "ours = sys.excepthook\nsys.excepthook = lambda *e: " + (
        "ours(*e)" if passes_on else "print('oh')"
    )
    body = f"run = watch()\ntrain(run, 50)\n{hook}\nraise ValueError('boom')\n"
    status, _ = run_script(body, server.url, spool)
    assert status == 1
    finish = server.only.finish
    assert finish is not None
    assert (finish.state, finish.error["type"], finish.error["message"]) == ("failed", "ValueError", "boom")


@pytest.mark.parametrize("error", ["diverged", ValueError("diverged")])
def test_a_run_can_be_finished_as_failed(server: IngestServer, spool: Path, error: object) -> None:
    """``run.finish(error="diverged")`` is not an exception, and is reported as text."""
    run = tocsin.watch("p", url=server.url, spool_dir=spool, patch=False)
    run.log(loss=1.0)
    run.finish(error=error)  # type: ignore[arg-type]
    finish = server.only.finish
    assert finish is not None
    assert (finish.state, finish.error["message"]) == ("failed", "diverged")
