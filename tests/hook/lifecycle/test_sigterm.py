"""After SIGTERM, the run is failed with its traceback, and the exit status is that of SIGTERM."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from tests.hook.ingest_server import IngestServer, closed_port, wait_until
from tests.hook.trainers import Script, assert_whole, bring_in
from tocsin.lifecycle import sigterm

HERE = "  # here it was\n"
WAITING = f"train(run, 20)\nprint('ready', flush=True){HERE}while True:{HERE}    time.sleep(0.05){HERE}"


def terminated(body: str, server_url: str, spool: Path, **environ: str) -> tuple[int, Script]:
    """Run a script until it is ready, and terminate it; return exit status and script."""
    script = Script(body, server_url, spool, environ=environ)
    script.wait_for(b"ready")
    script.process.terminate()
    return script.end(), script


def test_the_run_ends_as_failed_with_its_last_lines(server: IngestServer, spool: Path) -> None:
    """Type, message and where the script was; the exit status says SIGTERM."""
    status, _ = terminated(f"run = watch(patch=True)\n{WAITING}", server.url, spool)
    assert status == -signal.SIGTERM
    assert_whole(server.only, 20)
    finish = server.only.finish
    assert finish is not None
    assert (finish.state, finish.error["type"]) == ("failed", "SIGTERM")
    assert any("here it was" in line for line in finish.error["lines"])


def test_without_a_server_the_process_ends_in_time_and_loses_nothing(
    server: IngestServer, spool: Path
) -> None:
    """The end is in the spool, including the finish."""
    url = f"http://127.0.0.1:{closed_port()}"
    status, _ = terminated(f"run = watch(patch=True, exit_timeout=0.2)\n{WAITING}", url, spool)
    assert status == -signal.SIGTERM
    bring_in(spool, server.url)
    assert_whole(server.only, 20)
    assert server.only.finish is not None
    assert server.only.finish.error["type"] == "SIGTERM"


@pytest.mark.parametrize(
    ("options", "environ"), [("patch=False", {}), ("patch=True", {"TOCSIN_SIGNALS": "0"})]
)
def test_sigterm_can_be_left_alone(
    server: IngestServer, spool: Path, options: str, environ: dict[str, str]
) -> None:
    """Without our handler the process dies immediately, and its records are delivered without a finish."""
    status, _ = terminated(f"run = watch({options})\n{WAITING}", server.url, spool, **environ)
    assert status == -signal.SIGTERM
    bring_in(spool, server.url)
    assert_whole(server.only, 20)
    assert server.only.finish is None


def test_a_handler_of_the_script_is_never_replaced(server: IngestServer, spool: Path) -> None:
    """It saves a checkpoint and exits; the run ends as that process does."""
    body = (
        "def save(number, frame):\n    tocsin.log(step=step, loss=float(step), lr=0.1)\n    sys.exit(0)\n"
        f"signal.signal(signal.SIGTERM, save)\nrun = watch(patch=True)\n{WAITING}"
    )
    status, _ = terminated(body, server.url, spool)
    assert status == 0
    assert_whole(server.only, 21)
    assert server.only.finish is not None
    assert server.only.finish.state == "finished"


def test_a_later_handler_that_calls_ours_decides_the_exit(server: IngestServer, spool: Path) -> None:
    """It calls ours, continues for a while and exits itself: its status, and the run failed by SIGTERM."""
    body = (
        "run = watch(patch=True)\nours = signal.getsignal(signal.SIGTERM)\n"
        "def mine(number, frame):\n    ours(number, frame)\n    time.sleep(2.5)\n"
        "    train(run, 5)\n    sys.exit(7)\n"
        f"signal.signal(signal.SIGTERM, mine)\n{WAITING}"
    )
    status, _ = terminated(body, server.url, spool)
    assert status == 7
    assert_whole(server.only, 25)
    assert server.only.finish is not None
    assert server.only.finish.error["type"] == "SIGTERM"


@pytest.mark.parametrize(("more", "state"), [("train(run, 5)", "finished"), ("", "failed")])
def test_a_training_that_continues_after_a_handler_called_ours_has_finished(
    server: IngestServer, spool: Path, more: str, state: str
) -> None:
    """As where the handler only asks for a checkpoint; without a further step, SIGTERM has ended it."""
    body = (
        "run = watch(patch=True)\nours = signal.getsignal(signal.SIGTERM)\nasked = []\n"
        "def mine(number, frame):\n    ours(number, frame)\n    asked.append(number)\n"
        "signal.signal(signal.SIGTERM, mine)\ntrain(run, 20)\nprint('ready', flush=True)\n"
        f"while not asked:\n    time.sleep(0.05)\n{more}\n"
    )
    status, _ = terminated(body, server.url, spool)
    assert status == 0
    assert server.only.finish is not None
    assert server.only.finish.state == state


def test_a_main_thread_that_hangs_does_not_keep_the_process(server: IngestServer, spool: Path) -> None:
    """The main thread hangs in C, where no handler runs: the sender's thread ends the run and the process."""
    body = (
        "import ctypes\nrun = watch(patch=True)\ntrain(run, 20)\n"
        "mutex = ctypes.create_string_buffer(128)\nlock = ctypes.CDLL(None).pthread_mutex_lock\n"
        "lock(mutex)\nprint('ready', flush=True)\nlock(mutex)  # never returns\n"
    )
    script = Script(body, server.url, spool)
    script.wait_for(b"ready")
    wait_until(lambda: _sleeps(script.process.pid))
    script.process.terminate()
    assert script.end() == -signal.SIGTERM
    assert_whole(server.only, 20)
    finish = server.only.finish
    assert finish is not None
    assert "did not answer" in finish.error["message"]
    assert any("never returns" in line for line in finish.error["lines"])


def _sleeps(pid: int) -> bool:
    """The main thread waits in the kernel and has used no CPU time since the last check."""
    seen = [Path(f"/proc/{pid}/task/{pid}/stat").read_text().split()[13:15] for _ in range(2)]
    state = Path(f"/proc/{pid}/task/{pid}/wchan").read_text()
    quiet = threading.Event().wait(0.3)
    seen.append(Path(f"/proc/{pid}/task/{pid}/stat").read_text().split()[13:15])
    return not quiet and seen[0] == seen[-1] and "futex" in state


def test_a_forked_worker_ends_by_sigterm_as_before(server: IngestServer, spool: Path) -> None:
    """``terminate()`` kills a child process immediately, without a message to the server."""
    body = (
        "import multiprocessing\nrun = watch(patch=True)\ntrain(run, 20)\n"
        "child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,))\n"
        "child.start()\nchild.terminate()\nchild.join()\n"
        "assert child.exitcode == -signal.SIGTERM, child.exitcode\n"
    )
    script = Script(body, server.url, spool)
    assert script.end() == 0, script.complaints
    assert_whole(server.only, 20)
    assert server.only.finish is not None
    assert server.only.finish.state == "finished"


def test_the_default_is_back_after_the_last_run(server: IngestServer, spool: Path) -> None:
    """A finished run leaves no handler and no wake-up descriptor."""
    import tocsin

    sigterm.install()
    assert signal.getsignal(signal.SIGTERM) is sigterm._terminated
    with tocsin.watch("p", url=server.url, spool_dir=spool, patch=False) as run:
        run.log(loss=1.0)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.set_wakeup_fd(-1) == -1


def test_a_run_that_ends_before_another_leaves_no_closed_descriptor(
    server: IngestServer, spool: Path
) -> None:
    """The signal would write its byte into the file that gets that number next."""
    import tocsin

    sigterm.install()
    first = tocsin.watch("p", name="a", url=server.url, spool_dir=spool, patch=False, parallel=True)
    second = tocsin.watch("p", name="b", url=server.url, spool_dir=spool, patch=False, parallel=True)
    first.log(loss=1.0)
    second.log(loss=1.0)
    first.finish()
    assert signal.set_wakeup_fd(-1) == -1
    second.finish()


def test_only_the_main_thread_touches_signals() -> None:
    """A run that starts in another thread installs nothing and does not fail."""
    thread = threading.Thread(target=sigterm.install)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_child_terminated_while_it_is_forked_dies_alone(
    server: IngestServer, spool: Path, tmp_path: Path
) -> None:
    """If SIGTERM arrives before the child has discarded the run, it is neither lost nor the parent's."""
    early = "import os\nos.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), 15))\n"
    (tmp_path / "sitecustomize.py").write_text(early)
    body = (
        "run = watch(patch=True)\ntrain(run, 20)\n"
        "child = os.fork() or time.sleep(60) or os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == signal.SIGTERM\n"
        "time.sleep(3.0)  # longer than the sender waits for a main thread that does not answer\n"
        "assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()\n"
    )
    script = Script(body, server.url, spool, environ={"PYTHONPATH": str(tmp_path)})
    assert script.end() == 0, script.complaints
    assert_whole(server.only, 20)
    assert server.only.finish is not None
    assert server.only.finish.state == "finished"
